"""The cells of a source as rows. A cell is drawn when it comes into view, and again only when it has changed."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from tertulia.terminal.drawing.cells import CellDrawer
from tertulia.terminal.drawing.palette import Palette
from tertulia.terminal.drawing.rows import TextRow, behind, blanks
from tertulia.terminal.transcript.cell_source import CellSource, Speaker
from tertulia.view import cells as c

MAX_ROWS = 3_000
"""Rows that are kept after they are out of view."""
DEPTH_INDENT = 2
"""Cells by which a conversation of a weave is indented below its parent."""
MAX_DEPTH = 8
"""Depth from which on conversations are not indented further."""

_CALLS = (c.ToolCallCell, c.CommandCell, c.HandoffCell)
"""Cells without a blank row between them."""


@dataclass(slots=True)
class _DrawnCell:
    cell: c.Cell
    revision: int
    unfolded: bool
    before: c.Cell | None
    """The cell above, which decides whether there is a blank row between them."""
    rows: list[TextRow]


class Document:
    """The rows of all cells of a source, for one width and one palette."""

    def __init__(self, source: CellSource, width: int, palette: Palette) -> None:
        self.source = source
        self.unfolded: set[str] = set()
        """The keys of the cells that are shown in full."""
        self.all_unfolded = False
        self.width = width
        self.palette = palette
        self._drawn: OrderedDict[int, _DrawnCell] = OrderedDict()
        """By the identity of the cell object, which the entry keeps alive."""
        self._row_count = 0
        self._drawers: dict[int, CellDrawer] = {}

    def __len__(self) -> int:
        return len(self.source)

    def rows(self, index: int) -> list[TextRow]:
        """The rows of a cell, with the blank row or the name above it."""
        cell = self.source[index]
        before = self.source[index - 1] if index else None
        unfolded = self.all_unfolded or cell.key in self.unfolded
        drawn = self._drawn.get(id(cell))
        if (
            drawn is not None
            and drawn.revision == cell.revision
            and drawn.unfolded == unfolded
            and drawn.before is before
        ):
            self._drawn.move_to_end(id(cell))
            return drawn.rows
        if drawn is not None:
            self._row_count -= len(drawn.rows)
        rows = self._draw(index, cell, before, unfolded=unfolded)
        self._drawn[id(cell)] = _DrawnCell(cell, cell.revision, unfolded, before, rows)
        self._drawn.move_to_end(id(cell))
        self._row_count += len(rows)
        return rows

    def height(self, index: int) -> int:
        """How many rows a cell has."""
        return len(self.rows(index))

    def fits(self, width: int, palette: Palette) -> bool:
        """Whether the rows are drawn for this width and palette."""
        return width == self.width and palette is self.palette

    def redraw(self, width: int, palette: Palette) -> None:
        """Draw everything anew, for another width or other colours."""
        self.width, self.palette = width, palette
        self._drawn.clear()
        self._drawers.clear()
        self._row_count = 0

    def trim(self, visible: int) -> None:
        """Drop the rows of the cells that were out of view for longest. `visible`: how many cells are in view."""
        while self._row_count > MAX_ROWS and len(self._drawn) > visible:
            _, drawn = self._drawn.popitem(last=False)
            self._row_count -= len(drawn.rows)
            for drawer in self._drawers.values():
                drawer.forget(drawn.cell.key)

    def find(self, key: str, near: int) -> int | None:
        """The present index of the cell with this key, searched from its earlier index."""
        count = len(self.source)
        for index in (*range(min(near, count - 1), -1, -1), *range(near + 1, count)):
            if self.source[index].key == key:
                return index
        return None

    def _draw(self, index: int, cell: c.Cell, before: c.Cell | None, *, unfolded: bool) -> list[TextRow]:
        speaker = self.source.speaker(index)
        depth = 0 if speaker is None else min(speaker.depth, MAX_DEPTH) * DEPTH_INDENT
        drawer = self._drawers.get(depth)
        if drawer is None:
            drawer = self._drawers[depth] = CellDrawer(self.width - depth - 1, self.palette)
        # An empty cell has a row too, so that every cell can be in view.
        woven = speaker is not None
        rows = drawer.draw(cell, unfolded=unfolded, name=self.source.name, woven=woven) or [TextRow([])]
        if depth:
            rows = behind(rows, blanks(depth, self.palette))
        speaks = speaker is not None and (before is None or self.source.speaker(index - 1) != speaker)
        if speaks and speaker is not None:
            rows = [self._name_row(speaker, depth), *rows]
        if before is not None and (speaks or not _stand_close(before, cell)):
            rows = [TextRow([]), *rows]
        return rows

    def _name_row(self, speaker: Speaker, depth: int) -> TextRow:
        palette, rule = self.palette, self.palette.marks.rule
        left = " " * (depth + 1)
        room = self.width - len(left) - len(speaker.name) - 5
        return TextRow(
            [
                (f"{left}{rule * 2} ", palette["name"]),
                (f"{speaker.name} ", palette["name"]),
                (rule * max(0, room), palette["dim"]),
            ],
            copied=f"{speaker.name}:",
        )


def _stand_close(above: c.Cell, below: c.Cell) -> bool:
    """Whether there is no blank row between two cells."""
    if isinstance(below, c.TaskEndCell):
        return below.status != "completed"
    return isinstance(above, _CALLS) and isinstance(below, (*_CALLS, c.ApprovalCell))
