"""The scroll position of a transcript: a cell and a row in it. Nothing above the view is measured.

While text is added at the end, the view jumps by a quarter of its height and then stands still, so that the text a
person reads does not move with every line.
"""

from __future__ import annotations

from collections.abc import Callable

Position = tuple[int, int]
"""A cell, and a row in it."""


class Viewport:
    """Which rows are in view."""

    __slots__ = ("_count", "_height_of", "follows", "height", "top")

    def __init__(self, count: Callable[[], int], height_of: Callable[[int], int], height: int) -> None:
        """Begin at the first row.

        Args:
            count: How many cells there are.
            height_of: How many rows one has; it is asked of those near the view only.
            height: Rows of the view.
        """
        self._count = count
        self._height_of = height_of
        self.height = max(1, height)
        self.top: Position = (0, 0)
        self.follows = True
        """Whether the view follows the end as text is added; not while a person reads further up."""

    def visible(self) -> list[Position]:
        """The rows in view, from the top; fewer than the height where the text ends."""
        positions: list[Position] = []
        cell, row = self.top
        count = self._count()
        while cell < count and len(positions) < self.height:
            rows = self._height_of(cell)
            positions += [(cell, at) for at in range(row, min(rows, row + self.height - len(positions)))]
            cell, row = cell + 1, 0
        return positions

    def end(self) -> Position | None:
        """The last row of all."""
        count = self._count()
        return None if count == 0 else (count - 1, self._height_of(count - 1) - 1)

    def step(self, position: Position, rows: int) -> Position:
        """The row so many rows below or above this one; the first or the last where there are not as many."""
        cell, row = position
        row += rows
        count = self._count()
        while row < 0 and cell > 0:
            cell -= 1
            row += self._height_of(cell)
        while cell < count and row >= (height := self._height_of(cell)):
            if cell == count - 1:
                return cell, max(0, height - 1)
            row -= height
            cell += 1
        return cell, max(0, row)

    def settle(self) -> list[Position]:
        """The rows in view, after the view has followed the end, and was corrected where rows were removed."""
        if self.top[0] >= self._count():
            self.top = self._above_end(self.height)
        elif self.top[1] >= (height := self._height_of(self.top[0])):
            self.top = (self.top[0], max(0, height - 1))
        positions = self.visible()
        if not self.follows:
            return positions
        end, quarter = self.end(), self.height // 4
        beyond = bool(positions) and positions[-1] != end
        hollow = self.top > (0, 0) and len(positions) < self.height - quarter
        if beyond or hollow:
            self.top = self._above_end(self.height - quarter)
            positions = self.visible()
        return positions

    def to_end(self) -> None:
        """Show the end, with the last row at the bottom, and follow it."""
        self.top = self._above_end(self.height)
        self.follows = True

    def scroll(self, rows: int) -> None:
        """Move the view so many rows down or up; at the end it follows again."""
        if rows < 0:
            self.follows = False
            self.top = self.step(self.top, rows)
            return
        limit = self._above_end(self.height)
        if self.top < limit:
            self.top = min(self.step(self.top, rows), limit)
        self.follows = self.top >= limit

    def reveal(self, position: Position) -> None:
        """Move the view as little as is needed to show a row."""
        positions = self.visible()
        if position < self.top:
            self.top = position
            self.follows = False
        elif positions and position > positions[-1]:
            self.top = self.step(position, 1 - self.height)
            self.follows = position == self.end()

    def show_at_top(self, position: Position) -> None:
        """Show this row at the top, or the end where fewer rows than the height would follow."""
        limit = self._above_end(self.height)
        self.top = min(position, limit)
        self.follows = self.top >= limit

    def _above_end(self, rows: int) -> Position:
        """The row from which so many rows are left to the end."""
        end = self.end()
        return (0, 0) if end is None else self.step(end, 1 - max(1, rows))
