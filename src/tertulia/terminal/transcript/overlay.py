"""What is drawn over rows: the cursor, the selection, matches, a sign that there is more, and the search line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tertulia.terminal.drawing.palette import Palette
from tertulia.terminal.drawing.rows import TextRow, painted
from tertulia.terminal.drawing.wrapping import Run
from tertulia.terminal.transcript.search import Search

_REVERSE = Style(reverse=True)


def mark_cursor(runs: Sequence[Run], palette: Palette) -> list[Run]:
    """The row with the cursor mark in its first cell, which is blank."""
    mark: Run = (palette.marks.cursor, palette["cursor"])
    if not runs:
        return [mark]
    (text, style), *others = runs
    return [mark, (text[1:], style), *others]


def mark_spans(row: TextRow, spans: Sequence[tuple[int, int | None]]) -> list[Run]:
    """The row with these characters in reverse; the gutter before its text stays as it is."""
    length = len(row.text)
    if length <= row.gutter:
        return [(row.text, row.runs[0][1]) if row.runs else ("", Style.null()), (" ", _REVERSE)]
    marked = [False] * length
    for start, end in spans:
        last = length if end is None else min(end, length)
        first = max(start, row.gutter)
        marked[first:last] = [True] * max(0, last - first)
    runs: list[Run] = []
    offset = 0
    for text, style in row.runs:
        reverse = style + _REVERSE
        runs += [(character, reverse if marked[offset + at] else style) for at, character in enumerate(text)]
        offset += len(text)
    return runs


def mark_more(strip: Strip, width: int, palette: Palette) -> Strip:
    """The last row with a sign that the text goes on below the view."""
    text = f" {palette.marks.down} more "
    if width <= len(text) + 4:
        return strip
    sign = Segment(text, palette["cursor"])
    return Strip([*strip.crop(0, width - len(text)), sign], width)


def prompt_strip(search: Search, width: int, palette: Palette) -> Strip:
    """The line of a search: its query, and the keys."""
    runs: list[Run] = [(" /", palette["cursor"]), (search.query, palette["text"])]
    if search.typing:
        runs += [(" ", palette["text"] + _REVERSE), ("  Enter searches upwards, Esc ends it", palette["dim"])]
    elif search.missed:
        runs.append(("  is not in this transcript", palette["warning"]))
    else:
        runs.append(("  n above, N below, Esc ends it", palette["dim"]))
    return painted(runs, width, palette.base)
