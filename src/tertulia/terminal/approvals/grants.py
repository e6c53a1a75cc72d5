"""The screen of grants: what was allowed for longer than once, how long it still holds, and a key to revoke it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tertulia.events.clock import Clock, SystemClock
from tertulia.policy.display_text import printable
from tertulia.terminal.approvals.card import names_of
from tertulia.terminal.looks.keys import row_bindings
from tertulia.terminal.panels.lines import Part, fit, line
from tertulia.view.board_state import BoardState
from tertulia.view.text import duration

_WHERE = 20
_KEYS = "↑↓ choose  Enter what it matches  x take it back  Esc close"


class GrantsList(Widget, can_focus=True):
    """The grants, one a row; the row under the cursor can be unfolded."""

    DEFAULT_CSS = "GrantsList { height: 1fr; width: 1fr; }"

    def __init__(self, board: BoardState, clock: Clock) -> None:
        super().__init__()
        self._board = board
        self._clock = clock
        self._grants: Sequence[Mapping[str, Any]] = ()
        self._listed_at = clock.monotonic()
        self._at = 0
        self._opened = False
        self._notice = ""

    @property
    def chosen(self) -> str | None:
        """The id of the grant under the cursor."""
        return str(self._grants[self._at]["grant_id"]) if self._grants else None

    def show(self, grants: Sequence[Mapping[str, Any]], notice: str = "") -> None:
        """Show these grants, as `approval/grants` lists them now."""
        self._grants, self._notice = grants, notice
        self._listed_at = self._clock.monotonic()
        self._at = min(self._at, max(len(grants) - 1, 0))
        self.refresh()

    def move(self, step: int) -> None:
        """Go to the next grant or the one before."""
        self._at = max(min(self._at + step, len(self._grants) - 1), 0)
        self.refresh()

    def toggle(self) -> None:
        """Show what the grant under the cursor matches, or hide it."""
        self._opened = not self._opened
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row of the screen: the title, then the grants."""
        if y == 0:
            count = len(self._grants)
            title = f"{count} grant{'s' * (count != 1)}" if count else "No grant holds: every yes was for once"
            return line([(f" {title}", "bold yellow"), (f"  {self._notice}", "")], self.size.width)
        if y == self.size.height - 1:
            return line([(f" {_KEYS}", "dim")], self.size.width)
        rows = self._rows()
        top = max(self._at + 3 - self.size.height, 0)
        at = y - 1 + top
        return line(rows[at] if at < len(rows) else [], self.size.width)

    def _rows(self) -> list[list[Part]]:
        rows: list[list[Part]] = []
        for at, grant in enumerate(self._grants):
            here = at == self._at
            title, *bound = [printable(str(match)) for match in grant["matches"]]
            front = f"{self._left(grant):<13}{_uses(grant):<10}"
            where = fit(self._where(grant), _WHERE)
            parts: list[Part] = [("› " if here else "  ", "bold"), (front, ""), (f"{where:<{_WHERE}} ", "magenta")]
            rows.append([*parts, (title, "bold" if here else "")])
            if here and self._opened:
                rows += [[(f"    │ {text}", "dim")] for text in bound]
        return rows

    def _left(self, grant: Mapping[str, Any]) -> str:
        seconds = grant.get("expires_in_s")
        if seconds is None:
            return "to the end"
        remaining = float(seconds) - (self._clock.monotonic() - self._listed_at)
        return duration(max(round(remaining), 0) if remaining >= 10 else max(remaining, 0.0))

    def _where(self, grant: Mapping[str, Any]) -> str:
        id = grant.get("conversation_id")
        return f"for {names_of(self._board, [id])}" if id else f"for the {grant['scope']}"


def _uses(grant: Mapping[str, Any]) -> str:
    count = int(grant.get("uses", 0))
    return f"used {count}×" if count else "not used"


class GrantsScreen(Screen[None]):
    """Lists the grants of a session. The application shows what `approval/grants` answers, and revokes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", show=False),
        *row_bindings(),
        Binding("enter,g", "open", show=False),
        Binding("x", "revoke", show=False),
    ]

    @dataclass
    class RevokeRequested(Message):
        """The person takes a grant back."""

        screen: GrantsScreen
        grant_id: str

    def __init__(self, board: BoardState, *, clock: Clock | None = None) -> None:
        super().__init__()
        self._list = GrantsList(board, clock or SystemClock())

    def compose(self) -> ComposeResult:
        """One widget that draws the rows in view."""
        yield self._list

    def on_mount(self) -> None:
        """Redraw once a second while the screen is open, for the remaining times."""
        self.set_interval(1.0, self._list.refresh)

    def show(self, grants: Sequence[Mapping[str, Any]], notice: str = "") -> None:
        """Show these grants; `notice`: a sentence about what was just done."""
        self._list.show(grants, notice)

    def action_close(self) -> None:
        """Go back to the conversation."""
        self.dismiss()

    def action_move(self, step: int) -> None:
        """Go to the next grant or the one before."""
        self._list.move(step)

    def action_open(self) -> None:
        """Show what the grant matches, or hide it."""
        self._list.toggle()

    def action_revoke(self) -> None:
        """Ask the application to revoke the grant under the cursor."""
        if self._list.chosen is not None:
            self.post_message(self.RevokeRequested(self, self._list.chosen))
