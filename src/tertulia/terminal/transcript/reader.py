"""What the keys of a transcript do: cursor, unfolding, selection, search.

Knows rows and positions but no screen; requests to the application are posted as messages.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message

from tertulia.terminal.transcript.document import Document
from tertulia.terminal.transcript.messages import CopyRequested, ForkRequested, OpenFile, SearchClosed
from tertulia.terminal.transcript.search import Search
from tertulia.terminal.transcript.selection import SelectedRange, place_of, selected_text, written_text
from tertulia.terminal.transcript.viewport import Position, Viewport
from tertulia.view.cells import UserCell


class Reader:
    """The cursor of a transcript and what is selected and searched there."""

    def __init__(self, document: Document, viewport: Viewport, post: Callable[[Message], object]) -> None:
        self.document = document
        self.viewport = viewport
        self.cursor: Position | None = None
        """None: the cursor is at the end, on the last row in view."""
        self.selected: SelectedRange | None = None
        self.search: Search | None = None
        self._post = post

    def place(self) -> Position:
        """The row of the cursor; it is always in view."""
        visible = self.viewport.visible()
        if not visible:
            return (0, 0)
        if self.cursor is None or self.cursor > visible[-1]:
            return visible[-1]
        return max(self.cursor, visible[0])

    def move(self, rows: int) -> None:
        """Move the cursor so many rows; the view follows where it would leave it."""
        self._go(self.viewport.step(self.place(), rows))

    def _go(self, position: Position) -> None:
        if position < self.place():
            self.viewport.follows = False
        self.cursor = position
        self.viewport.reveal(position)
        if position == self.viewport.end():
            # From here on the cursor stays at the end, also when text is added.
            self.viewport.follows, self.cursor = True, None
        if self.selected is not None and self.selected.whole_rows:
            self.selected = SelectedRange(self.selected.anchor, (*position, 0), whole_rows=True)

    def move_page(self, part: float) -> None:
        """Move the view and the cursor by a part of the height."""
        rows = round(part * max(1, self.viewport.height - 1))
        row = self.place()
        self.viewport.scroll(rows)
        self._go(self.viewport.step(row, rows))

    def go_first(self) -> None:
        """Go to the first row of all."""
        self._go((0, 0))

    def go_last(self) -> None:
        """Go to the end, and follow it from then on."""
        self.viewport.to_end()
        if (end := self.viewport.end()) is not None:
            self._go(end)

    def go_user(self, direction: int) -> None:
        """Go to the next or previous message of a person, at the top of the view."""
        index = self.place()[0] + direction
        while 0 <= index < len(self.document) and not isinstance(self.document.source[index], UserCell):
            index += direction
        if not 0 <= index < len(self.document):
            return
        first = next((at for at, row in enumerate(self.document.rows(index)) if row.text.strip()), 0)
        self.viewport.show_at_top((index, first))
        self._go((index, first))

    def unfold(self) -> None:
        """Show this cell in full, or fold it again."""
        if not len(self.document):
            return
        cell = self.document.source[self.place()[0]]
        self.cursor = self.place()
        self.document.unfolded ^= {cell.key}
        self._mend_cursor()

    def unfold_all(self) -> None:
        """Show all cells in full, or fold them again."""
        self.cursor = self.place()
        self.document.all_unfolded = not self.document.all_unfolded
        self.document.unfolded.clear()
        self._mend_cursor()

    def _mend_cursor(self) -> None:
        if self.cursor is not None and len(self.document):
            cell, row = self.cursor
            self.cursor = cell, min(row, self.document.height(cell) - 1)
            self.viewport.settle()
            self.viewport.reveal(self.cursor)

    def select(self) -> None:
        """Start to select rows at the cursor, or stop."""
        place = self.place()
        self.cursor = place
        self.selected = None if self.selected else SelectedRange((*place, 0), (*place, 0), whole_rows=True)

    def copy(self) -> None:
        """Copy the selection, or without one this cell as it was written."""
        if not len(self.document):
            return
        if self.selected is not None:
            self._post(CopyRequested(selected_text(self.document, self.selected)))
            self.selected = None
        else:
            cell = self.document.source[self.place()[0]]
            self._post(CopyRequested(written_text(cell, self.document.source.name)))

    def copy_code(self) -> None:
        """Copy the code block at the cursor; else the nearest one in view above it, else below it."""
        place = self.place()
        visible = self.viewport.visible()
        nearest = [*reversed([row for row in visible if row <= place]), *(row for row in visible if row > place)]
        codes = (self.document.rows(cell)[row].code for cell, row in nearest)
        self._post(CopyRequested(next((code for code in codes if code is not None), "")))

    def open_file(self) -> None:
        """Open the file that the row at the cursor shows or names."""
        if not len(self.document):
            return
        cell, row = self.place()
        if (found := place_of(self.document.rows(cell)[row])) is not None:
            self._post(OpenFile(*found))

    def fork(self) -> None:
        """Ask for a fork at this cell."""
        if len(self.document):
            index = self.place()[0]
            source = self.document.source
            self._post(ForkRequested(source[index].key, source.conversation_id(index)))

    def begin_search(self) -> None:
        """Let a query be written."""
        self.search = Search()

    def search_again(self, direction: int) -> None:
        """Go to the next match above or below."""
        if self.search is not None and (found := self.search.find(self.document, self.place(), direction)):
            self._go(found)

    def shift(self, cells: int) -> None:
        """Adjust the cursor after the indexes of cells have changed; ends a selection."""
        self.selected = None
        if self.cursor is not None:
            self.cursor = (max(0, self.cursor[0] + cells), self.cursor[1])

    def cancel(self) -> bool:
        """End a search or a selection; False where there was none."""
        if self.search is not None:
            self.search = None
            self._post(SearchClosed())
            return True
        if self.selected is not None:
            self.selected = None
            return True
        return False
