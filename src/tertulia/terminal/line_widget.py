"""A widget that draws lines: what has no colours of its own stands on the ground of the theme."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tertulia.terminal.widget_app import app_of


class LineWidget(Widget):
    """Draws with the sixteen colours of terminals, and with the two of its theme below them."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of this part of the widget, on the ground of the theme."""
        strips = super().render_lines(crop)
        if app_of(self).native_ansi_color:
            return strips
        ground = self.rich_style
        return [strip.apply_style(ground) for strip in strips]
