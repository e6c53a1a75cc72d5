"""Composes the rows in view: those of the cells, with what is drawn over them."""

from __future__ import annotations

from textual.strip import Strip

from tertulia.terminal.drawing.palette import Palette
from tertulia.terminal.drawing.rows import TextRow
from tertulia.terminal.transcript.overlay import mark_cursor, mark_more, mark_spans, prompt_strip
from tertulia.terminal.transcript.reader import Reader
from tertulia.terminal.transcript.viewport import Position


class Painter:
    """The rows of a transcript for its size; a row that has not changed is the same object again."""

    __slots__ = ("_reader", "_top_key")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._top_key: tuple[str, int] | None = None
        """The key and the index of the first cell in view."""

    def compose(self, width: int, height: int, palette: Palette, *, has_cursor: bool) -> list[Strip]:
        """All rows in view, as they are painted."""
        reader = self._reader
        document, viewport = reader.document, reader.viewport
        if not document.fits(width, palette):
            document.redraw(width, palette)
        self._find_top()
        if viewport.height != height:
            viewport.height = height
            if viewport.follows:
                viewport.to_end()
        positions = viewport.settle()
        cursor = reader.place() if has_cursor else None
        lines = [self._line(position, width, is_cursor=position == cursor) for position in positions]
        blank = Strip.blank(width, palette.base)
        lines += [blank] * (height - len(lines))
        if not viewport.follows and positions and positions[-1] != viewport.end():
            lines[-1] = mark_more(lines[-1], width, palette)
        if reader.search is not None:
            lines[-1] = prompt_strip(reader.search, width, palette)
        index = viewport.top[0]
        self._top_key = (document.source[index].key, index) if index < len(document) else None
        document.trim(len({cell for cell, _ in positions}) + 2)
        return lines

    def _find_top(self) -> None:
        """Keep the same cell at the top of the view where cells above it were removed."""
        document, viewport = self._reader.document, self._reader.viewport
        if self._top_key is None or not len(document):
            return
        key, index = self._top_key
        if index < len(document) and document.source[index].key == key:
            return
        if (found := document.find(key, index)) is not None:
            self._reader.shift(found - index)
            viewport.top = (found, viewport.top[1])

    def _line(self, position: Position, width: int, *, is_cursor: bool) -> Strip:
        reader = self._reader
        row: TextRow = reader.document.rows(position[0])[position[1]]
        palette = reader.document.palette
        spans: list[tuple[int, int | None]] = []
        if reader.selected is not None and (span := reader.selected.span(position)) is not None:
            spans.append(span)
        if reader.search is not None and not reader.search.typing:
            spans += reader.search.matches(row.text)
        runs = mark_spans(row, spans) if spans else row.runs
        if is_cursor:
            runs = mark_cursor(runs, palette)
        return row.strip(width, palette.base) if runs is row.runs else TextRow(runs).strip(width, palette.base)
