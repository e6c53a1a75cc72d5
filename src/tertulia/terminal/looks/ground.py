"""Draws unstyled text in the colours of the theme: panels draw as if they always had the terminal's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.color import Color as RichColor
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import App
from textual.color import Color
from textual.driver import Driver
from textual.filter import LineFilter


class GroundFilter(LineFilter):
    """Adds the theme's text colour and the widget's background to every piece, below the style it has."""

    def __init__(self, text: ColorTriplet) -> None:
        """`text`: the colour that plain text has in the theme."""
        super().__init__()
        self._text = RichColor.from_triplet(text)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The pieces with these colours, on this background."""
        ground = Style(color=self._text, bgcolor=background.rich_color)
        return [
            Segment(text, ground if style is None else ground + style, control) for text, style, control in segments
        ]


@lru_cache(8)
def ground_filter(text: ColorTriplet) -> GroundFilter:
    """The filter of a theme, cached: rows keep the result of one filter object."""
    return GroundFilter(text)


class GroundedApp(App[int]):
    """An application whose widgets are drawn on the background of its theme, where that has one."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """The filters that every row passes through before it is painted."""
        filters = super().get_line_filters()
        if self.native_ansi_color:
            return filters
        return [ground_filter(self.ansi_theme.foreground_color), *filters]

    @on(Driver.SignalResume)
    def _draw_again(self) -> None:
        """Draw everything again after Ctrl+Z, when the terminal has lost the screen."""
        self.refresh(layout=True)
        self.screen.refresh(layout=True)
