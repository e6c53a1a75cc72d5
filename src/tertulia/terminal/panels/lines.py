"""Draws lines of a panel: parts with styles, cut to a width that counts wide characters."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tertulia.policy.display_text import printable

Part = tuple[str, str]
"""A text, and the name of its style: `""`, `dim`, `bold`, `red` and so on."""


@lru_cache(256)
def style_of(name: str) -> Style:
    """The style of that name, parsed once."""
    return Style.parse(name) if name else Style.null()


def clean(text: str) -> str:
    """Text from outside, in one line and without control characters."""
    return " ".join(printable(text).split())


def fit(text: str, width: int) -> str:
    """The text, cut to the width with a sign where it is too long."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else "…"


def line(parts: Iterable[Part], width: int, *, right: Iterable[Part] = (), style: str = "") -> Strip:
    """One line of this width.

    Args:
        parts: What stands on the left, cut where it is too long.
        width: How many cells the line has.
        right: What stands at the right end; it is not cut as long as it fits at all.
        style: Below the style of each part.

    Returns:
        A strip that fills the width.
    """
    right_parts = list(right)
    room = width - sum(cell_len(text) for text, _ in right_parts)
    if room < 0:
        right_parts, room = [], width
    below = style_of(style)
    segments: list[Segment] = []
    for text, name in parts:
        shown = fit(text, room)
        if shown:
            segments.append(Segment(shown, below + style_of(name)))
            room -= cell_len(shown)
        if shown != text:
            break
    if room > 0:
        segments.append(Segment(" " * room, below))
    segments += [Segment(text, below + style_of(name)) for text, name in right_parts]
    return Strip(segments, width)


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most this width, broken between words where that is possible."""
    lines: list[str] = []
    at = ""
    for word in text.split(" "):
        joined = f"{at} {word}" if at else word
        if cell_len(joined) <= width:
            at = joined
            continue
        if at:
            lines.append(at)
        *whole, at = chop_cells(word, max(1, width)) or [""]
        lines += whole
    return [*lines, at]
