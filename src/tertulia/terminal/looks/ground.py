"""Gives text that has no colours those of its theme: panels draw as if the terminal's own were always right."""

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
    """Puts the colour of text and the ground of its widget below the style of every piece."""

    def __init__(self, text: ColorTriplet) -> None:
        """`text`: the colour that plain text has in the theme."""
        super().__init__()
        self._text = RichColor.from_triplet(text)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The pieces with colours, on this ground."""
        ground = Style(color=self._text, bgcolor=background.rich_color)
        return [
            Segment(text, ground if style is None else ground + style, control) for text, style, control in segments
        ]


@lru_cache(8)
def ground_filter(text: ColorTriplet) -> GroundFilter:
    """The filter for a theme, always the same: rows keep what it made of them."""
    return GroundFilter(text)


class GroundedApp(App[int]):
    """An application whose widgets stand on the ground of its theme, where that has one."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What rows go through before they are painted."""
        filters = super().get_line_filters()
        if self.native_ansi_color:
            return filters
        return [ground_filter(self.ansi_theme.foreground_color), *filters]

    @on(Driver.SignalResume)
    def _draw_again(self) -> None:
        """After Ctrl+Z the terminal has nothing of what was drawn before."""
        self.refresh(layout=True)
        self.screen.refresh(layout=True)
