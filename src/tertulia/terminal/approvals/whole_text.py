"""All of a question's text on the whole screen; the keys n and p go from file to file.

Nothing is answered here: the keys of the panel do not work until this screen is closed.
"""

from __future__ import annotations

import re
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tertulia.terminal.approvals.card import line_style
from tertulia.terminal.approvals.folding import fold_line
from tertulia.terminal.looks.keys import row_bindings
from tertulia.terminal.panels.lines import line as strip_of

_FILE = re.compile(r"│ (?:\*\*\* (?:Add|Update|Delete) File: |diff --git |--- )(.*)")
_KEYS = "n p file  Esc back "


class WholeTextView(Widget, can_focus=True):
    """The rows of a text, as many as fit, from the row to which the person has scrolled."""

    DEFAULT_CSS = "WholeTextView { height: 1fr; width: 1fr; }"

    def __init__(self, title: str, text: str, *, is_patch: bool) -> None:
        super().__init__()
        self._title = title
        self._lines = text.split("\n")
        self._is_patch = is_patch
        self._rows: list[tuple[str, str]] = []
        self._files: list[tuple[int, str]] = []
        self._top = 0

    @property
    def top(self) -> int:
        """The number of the first row in view."""
        return self._top

    def on_resize(self, event: events.Resize) -> None:
        """Fold the text for the new width; the same part of it stays in view."""
        before = len(self._rows)
        self._rows, self._files = [], []
        for line in self._lines:
            if found := _FILE.match(line):
                self._files.append((len(self._rows), found[1]))
            style = line_style(line, is_patch=self._is_patch)
            self._rows += [(row, style) for row in fold_line(line, event.size.width)]
        self.go(self._top * len(self._rows) // before if before else 0)

    def go(self, row: int) -> None:
        """Scroll to this row, or as far as there are rows."""
        self._top = max(min(row, len(self._rows) - self.room), 0)
        self.refresh()

    @property
    def room(self) -> int:
        """The rows of text that fit."""
        return max(self.size.height - 1, 1)

    def go_to_file(self, step: int) -> None:
        """Show the next file or the one before."""
        starts = [row for row, _ in self._files]
        if step > 0:
            target = next((row for row in starts if row > self._top), None)
        else:
            target = next((row for row in reversed(starts) if row < self._top), None)
        if target is not None:
            # Also for a short file: the person looks for its first line at the top.
            self._top = target
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row of the screen: the title, then the text."""
        width = self.size.width
        if y == 0:
            last = min(self._top + self.room, len(self._rows))
            place = f"  rows {self._top + 1:,}–{last:,} of {len(self._rows):,}  {_KEYS}"
            return strip_of([(self._heading(), "bold yellow")], width, right=[(place, "dim")])
        at = self._top + y - 1
        return strip_of([self._rows[at]] if at < len(self._rows) else [], width)

    def _heading(self) -> str:
        passed = [number for number, (row, _) in enumerate(self._files, 1) if row <= self._top]
        if not passed:
            return self._title
        return f"file {passed[-1]} of {len(self._files)}: {self._files[passed[-1] - 1][1]}"


class WholeTextScreen(Screen[None]):
    """The whole text of one question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d", "close", show=False),
        *row_bindings("scroll"),
        Binding("pagedown,space,ctrl+d", "page(1)", show=False),
        Binding("pageup,ctrl+u", "page(-1)", show=False),
        Binding("home,g", "start", show=False),
        Binding("end,G", "end", show=False),
        Binding("n", "file(1)", show=False),
        Binding("p", "file(-1)", show=False),
    ]

    def __init__(self, title: str, text: str, *, is_patch: bool = False) -> None:
        super().__init__()
        self._view = WholeTextView(title, text, is_patch=is_patch)

    def compose(self) -> ComposeResult:
        """One widget that draws the rows in view."""
        yield self._view

    def action_close(self) -> None:
        """Go back to the panel."""
        self.dismiss()

    def action_scroll(self, rows: int) -> None:
        """Go some rows down or up."""
        self._view.go(self._view.top + rows)

    def action_page(self, pages: int) -> None:
        """Go a screen down or up."""
        self._view.go(self._view.top + pages * max(self._view.room - 1, 1))

    def action_start(self) -> None:
        """Go to the first row."""
        self._view.go(0)

    def action_end(self) -> None:
        """Go to the last row."""
        self._view.go(1 << 40)

    def action_file(self, step: int) -> None:
        """Go to the next file of a patch or the one before."""
        self._view.go_to_file(step)
