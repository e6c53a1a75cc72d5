"""A widget of rows that are drawn only when they change; it is as high as it has rows."""

from __future__ import annotations

from textual.strip import Strip
from textual.widget import Widget


class RowsView(Widget):
    """Shows strips one below the other, and takes as many rows as there are strips."""

    DEFAULT_CSS = "RowsView { height: 0; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.strips: list[Strip] = []

    def put(self, strips: list[Strip]) -> None:
        """Show these strips in place of those before."""
        if len(strips) != len(self.strips):
            self.styles.height = len(strips)
        self.strips = strips
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row, by its number from the top."""
        return self.strips[y] if y < len(self.strips) else Strip.blank(self.size.width)
