"""The list of stored sessions: newest first, searchable, with what can be done with the chosen one.

Only visible lines are drawn and described: ten thousand sessions cost what twenty cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tertulia.terminal.looks.keys import MovementKeys, movement_bindings
from tertulia.terminal.panels.lines import Part, clean, fit, line

Act = Literal["resume", "fork", "replay", "watch", "delete"]
_KEYS = "Enter resume  f fork  r replay  w watch  d delete  / search  Esc leave"
_AGE = 7
_RIGHT = (("convs", 5, 40), ("model", 16, 70), ("cost", 8, 50), ("", 6, 0))
"""The columns behind what a session is about: name, width, and the least width of the screen that has them."""
_WIDE, _WIDE_MODEL = 120, 32
"""A screen that has room for long names of models, and that room."""
_FIRST_LINES = 2
"""The title and the names of the columns."""


class StoredSession(msgspec.Struct, frozen=True):
    """A row with what the list of sessions knows without opening one."""

    id: str
    updated: float
    model: str = ""
    conversations: int = 0
    problem: str | None = None
    """Why the session cannot be read; None where it can."""
    excerpt: str | None = None
    """The text around the match of a search."""


class SessionDetails(msgspec.Struct, frozen=True):
    """What is read from the session itself when its row becomes visible."""

    about: str
    """The title of the session, or its first message."""
    model: str = ""
    in_use: bool = False
    cost_usd: float | None = None
    """None where the price of none of its requests is known."""


class SessionPicker(Widget, can_focus=True):
    """Stored sessions, a line each."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *movement_bindings(
            "picker", MovementKeys(page_down="pagedown,space"), texts={"first": "newest", "last": "oldest"}
        ),
        Binding("enter", "choose('resume')", "resume it", id="picker.resume"),
        Binding("f", "choose('fork')", "go on in a copy of it", id="picker.fork"),
        Binding("r", "choose('replay')", "go through it", id="picker.replay"),
        Binding("w", "choose('watch')", "watch what another process does in it", id="picker.watch"),
        Binding("d", "choose('delete')", "delete it for good", id="picker.delete"),
    ]

    @dataclass
    class SessionChosen(Message):
        """A person wants something done with a session."""

        session_id: str
        act: Act

    @dataclass
    class DetailsWanted(Message):
        """Rows are visible whose details have not been read yet."""

        ids: Sequence[str]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[StoredSession] = ()
        self._details: dict[str, SessionDetails] = {}
        self._wanted: set[str] = set()
        self._title = "reading the stored sessions"
        self._question = ""
        self._now = 0.0
        self._index = 0
        self._top = 0

    # ── what is shown ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def chosen(self) -> StoredSession | None:
        """The session whose row has the mark."""
        return self._rows[self._index] if self._rows else None

    def show(self, rows: Sequence[StoredSession], now: float, title: str) -> None:
        """Show these sessions from the first, with their ages at this time."""
        self._rows, self._now, self._title = rows, now, title
        self._index = self._top = 0
        self._changed()

    def describe(self, details: Mapping[str, SessionDetails]) -> None:
        """Show the details that were read for visible sessions."""
        self._details.update(details)
        self.refresh()

    def is_in_use(self, session_id: str) -> bool:
        """Whether a process had the session when its row was read."""
        details = self._details.get(session_id)
        return details is not None and details.in_use

    def ask(self, question: str) -> None:
        """Show a question in the place of the key hints; empty: show the hints again."""
        self._question = question
        self.refresh()

    def on_resize(self) -> None:
        """Draw again, since more or fewer rows are visible."""
        self._changed()

    def _changed(self) -> None:
        height = self._height()
        self._top = max(0, min(self._top, self._index, len(self._rows) - height))
        self._top = max(self._top, self._index - height + 1)
        seen = [row.id for row in self._rows[self._top : self._top + height]]
        wanted = [id for id in seen if id not in self._details and id not in self._wanted]
        if wanted:
            self._wanted.update(wanted)
            self.post_message(self.DetailsWanted(wanted))
        self.refresh()

    def _height(self) -> int:
        return max(1, self.size.height - _FIRST_LINES - 1)

    def render_line(self, y: int) -> Strip:
        """One line of the list, by its number from the top."""
        width = self.size.width
        if y == 0:
            return line([(f" {clean(self._title)}", "bold")], width)
        if y == self.size.height - 1:
            style = "bold" if self._question else "dim"
            return line([(f" {clean(self._question) or _KEYS}", style)], width)
        if y == 1:
            names = [name for name, _, _ in _RIGHT]
            return line(_left(" ", "age", "what it is about", "dim"), width, right=_right(names, width))
        at = self._top + y - _FIRST_LINES
        return line([], width) if at >= len(self._rows) else self._row(at, width)

    def _row(self, at: int, width: int) -> Strip:
        row = self._rows[at]
        details = self._details.get(row.id)
        age = _age(self._now - row.updated)
        chosen = at == self._index
        left = _left("▌" if chosen else " ", age, *self._about(row, details))
        return line(left, width, right=_right(_values(row, details), width), style="bold" if chosen else "")

    def _about(self, row: StoredSession, details: SessionDetails | None) -> tuple[str, str]:
        if row.problem is not None:
            return row.problem, "red"
        if row.excerpt is not None:
            return row.excerpt, ""
        return ("…", "dim") if details is None else (details.about or "no text is stored", "")

    # ── what a person does ───────────────────────────────────────────────────────────────────────────────────

    def action_move(self, by: int) -> None:
        """Put the mark on another row."""
        self._index = max(0, min(len(self._rows) - 1, self._index + by))
        self._changed()

    def action_page(self, by: int) -> None:
        """Put the mark a page further, or back."""
        self.action_move(by * self._height())

    def action_choose(self, act: Act) -> None:
        """Post what is to be done with the chosen session."""
        if self.chosen is not None:
            self.post_message(self.SessionChosen(self.chosen.id, act))


def _age(seconds: float) -> str:
    """How long ago in its largest unit: a list is read for the order of things."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size):,} {unit}"
    return f"{max(0, int(seconds))} s"


def _left(mark: str, age: str, about: str, style: str) -> list[Part]:
    return [(mark, "cyan"), (f"{fit(age, _AGE):<{_AGE}} ", "dim"), (clean(about), style)]


def _values(row: StoredSession, details: SessionDetails | None) -> list[str]:
    """The columns behind what a session is about; those that are not read yet are empty."""
    model = (row.model or ("" if details is None else details.model)).rpartition("/")[2]
    if details is None:
        return [str(row.conversations or ""), model, "", ""]
    cost = "–" if details.cost_usd is None else "<$0.01" if 0 < details.cost_usd < 0.01 else f"${details.cost_usd:,.2f}"
    return [str(row.conversations or ""), model, cost, "in use" if details.in_use else ""]


def _right(values: Sequence[str], width: int) -> list[Part]:
    """The columns on the right; narrow terminals have room for some of them only."""
    columns = [
        (value, _WIDE_MODEL if name == "model" and width >= _WIDE else room)
        for value, (name, room, least) in zip(values, _RIGHT, strict=True)
        if width >= least
    ]
    return [("".join(f"  {fit(clean(value), room):<{room}}" for value, room in columns) + " ", "dim")]
