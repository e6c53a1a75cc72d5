"""A page in the place of the transcript: help, a list to choose from, or the answer of an operation.

Not a modal dialog: questions stay below it, and leaving it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import msgspec
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tertulia.policy.display_text import printable
from tertulia.terminal.looks.keys import MovementKeys, movement_bindings
from tertulia.terminal.panels.lines import Part, clean, line, wrap
from tertulia.terminal.panels.panel import Panel

_MIN_WIDTH = 8


class PageRow(msgspec.Struct, frozen=True):
    """One row of a page: a text, more text after it, and the value it stands for."""

    text: str
    more: str = ""
    value: str | None = None
    """What is chosen with this row; None: it cannot be chosen."""
    style: str = ""
    exact: bool = False
    """Whether blanks stay as they are, as in code. Only for rows without more text."""


class PageContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a page shows, and what keys do there."""

    kind: str
    """The purpose of the page; comes back with every choice."""
    title: str
    rows: tuple[PageRow, ...]
    filtered: bool = False
    """Whether typed keys filter the rows."""
    filter: str = ""
    column: int = 0
    """The column at which the second text of every row begins; 0: right after the first."""


class Page(Panel, can_focus=True):
    """Rows, some of which can be chosen. Long ones are wrapped, nothing is cut."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *movement_bindings(
            "page",
            MovementKeys(down="down,ctrl+n", up="up,ctrl+p", first="home", last="end"),
            page=("move", 10),
            texts={"page_down": "ten down", "page_up": "ten up"},
        ),
        Binding("enter", "choose", "choose this", id="page.choose"),
        Binding("escape", "leave", "leave the page", id="page.leave"),
    ]

    @dataclass
    class RowChosen(Message):
        """The person has chosen a row."""

        kind: str
        value: str

    class PageLeft(Message):
        """The person leaves the page."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content: PageContent | None = None
        self._rows: list[PageRow] = []
        self._lines: list[tuple[int, list[Part]]] = []
        """The lines of the page, each with the number of its row."""
        self._filter = ""
        self._index = 0
        self._top = 0

    @property
    def content(self) -> PageContent | None:
        """What is shown; None while no page is."""
        return self._content

    def show(self, content: PageContent | None) -> None:
        """Show this page from its beginning; None: hide the page."""
        same = content is not None and self._content is not None and content.kind == self._content.kind
        self._content = content
        if not same:
            self._index = self._top = 0
            self._filter = "" if content is None else content.filter
        self._again()

    def on_resize(self) -> None:
        """Wrap the texts for the new width."""
        self._again()

    def _again(self) -> None:
        content = self._content
        words = self._filter.casefold().split()
        rows = () if content is None else content.rows
        self._rows = [row for row in rows if all(word in f"{row.text} {row.more}".casefold() for word in words)]
        width = max(_MIN_WIDTH, self.size.width - 4)
        self._lines = [(index, parts) for index, row in enumerate(self._rows) for parts in self._broken(row, width)]
        self._index = max(0, min(self._index, len(self._rows) - 1))
        if self._rows and self._rows[self._index].value is None:
            self._index = next((at for at, row in enumerate(self._rows) if row.value is not None), self._index)
        self._scroll()
        self.refresh()

    def _broken(self, row: PageRow, width: int) -> Iterable[list[Part]]:
        column = min(0 if self._content is None else self._content.column, width // 2)
        if row.exact:
            return [[(text, row.style)] for text in _exact_lines(printable(row.text.expandtabs(4)), width)]
        if not row.more:
            return [[(text, row.style)] for text in wrap(clean(row.text), width)]
        front = clean(row.text).ljust(column)
        texts = wrap(clean(row.more), max(_MIN_WIDTH, width - len(front) - 1))
        first: list[Part] = [(front + " ", row.style or "bold"), (texts[0], "")]
        return [first, *([(" " * (len(front) + 1), ""), (text, "")] for text in texts[1:])]

    def _scroll(self) -> None:
        height = max(1, self.size.height - 1)
        lines = [at for at, (index, _) in enumerate(self._lines) if index == self._index] or [0]
        self._top = max(0, min(self._top, lines[0], max(0, len(self._lines) - height)))
        self._top = max(self._top, lines[-1] - height + 1)

    def render_line(self, y: int) -> Strip:
        """One line of the page, by its number from the top."""
        width, content = self.size.width, self._content
        if content is None:
            return line([], width)
        if y == 0:
            typed: list[Part] = [(f"  {clean(self._filter)}_", "")] if content.filtered else []
            title: list[Part] = [(f" {clean(content.title)}", "bold"), *typed]
            return line(title, width, right=[(f"  {self._place()}Esc leaves ", "dim")])
        at = y - 1 + self._top
        if at >= len(self._lines):
            return line([("  nothing fits", "dim")] if y == 1 and content.rows else [], width)
        index, parts = self._lines[at]
        chosen = index == self._index and self._rows[index].value is not None
        bar: Part = (self._marks.bar if chosen else " ", "cyan")
        return line([(" ", ""), bar, *parts], width, style="bold" if chosen else "")

    def _place(self) -> str:
        """Which lines are in view, where there are more than fit."""
        height = max(1, self.size.height - 1)
        if len(self._lines) <= height:
            return ""
        return f"{self._top + 1:,}–{min(self._top + height, len(self._lines)):,} of {len(self._lines):,}, ↑↓ more  "

    def on_key(self, event: events.Key) -> None:
        """Filter the rows by typed keys; where the page has no filter, scroll."""
        content = self._content
        if content is None:
            return
        if content.filtered and (event.key == "backspace" or (event.is_printable and event.character is not None)):
            self._filter = self._filter[:-1] if event.key == "backspace" else self._filter + (event.character or "")
            self._index = 0
            self._again()
        elif event.key in ("j", "k", "space"):
            self.action_move({"j": 1, "k": -1, "space": 10}[event.key])
        elif event.key == "q":
            self.action_leave()
        else:
            return
        event.stop()
        event.prevent_default()

    def action_move(self, by: int) -> None:
        """Choose another row; where none can be chosen, scroll."""
        choosable = [at for at, row in enumerate(self._rows) if row.value is not None]
        if choosable:
            place = choosable.index(self._index) if self._index in choosable else 0
            self._index = choosable[max(0, min(len(choosable) - 1, place + by))]
            self._scroll()
        else:
            self._top = max(0, min(self._top + by, len(self._lines) - self.size.height + 1))
        self.refresh()

    def action_choose(self) -> None:
        """Tell the application of the chosen row."""
        row = self._rows[self._index] if self._rows else None
        if self._content is not None and row is not None and row.value is not None:
            self.post_message(self.RowChosen(self._content.kind, row.value))

    def action_leave(self) -> None:
        """Post that the person leaves the page."""
        self.post_message(self.PageLeft())

    def on_click(self, event: events.Click) -> None:
        """A click on a row chooses it."""
        at = event.y - 1 + self._top
        if event.y > 0 and at < len(self._lines) and self._rows[self._lines[at][0]].value is not None:
            self._index = self._lines[at][0]
            self.action_choose()

    def turn_wheel(self, direction: int) -> None:
        """The wheel goes three rows down or up."""
        self.action_move(3 * direction)


def _exact_lines(text: str, width: int) -> list[str]:
    """A text with its blanks; the lines that go on with it are as far to the right as it began."""
    body = text.lstrip(" ")
    indent = " " * min(len(text) - len(body), width // 2)
    return [indent + piece for piece in wrap(body, width - len(indent))]
