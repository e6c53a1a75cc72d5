"""Wraps text to rows of so many cells: at blanks, between wide characters, and in code anywhere.

Works on positions in a plain string, at which styled text is cut later. A grapheme is never cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, split_graphemes
from rich.style import Style

Run = tuple[str, Style]
"""A piece of a line with one style."""

MAX_LINE = 32 * 1024
"""Characters of one line that are drawn; of a longer one the middle is replaced by its length."""
TAB = 4

_NO_START = frozenset("、。，．・：；？！）］｝〉》」』】〕ー々ゝゞぁぃぅぇぉっゃゅょァィゥェォッャュョ…‥")
"""What no row of Chinese or Japanese begins with."""
_NO_END = frozenset("（［｛〈《「『【〔")
"""What no row of Chinese or Japanese ends with."""


def bounded(line: str) -> str:
    """The line, or its two ends and the length between them, so that no line can block the screen."""
    if len(line) <= MAX_LINE:
        return line
    half = MAX_LINE // 2
    return f"{line[:half]} ⟨… {len(line) - 2 * half:,} more characters; y copies all …⟩ {line[-half:]}"


def without_tabs(line: str) -> str:
    """The line with blanks up to the next stop in place of each tab."""
    if "\t" not in line:
        return line
    pieces: list[str] = []
    column = 0
    first, *others = line.split("\t")
    pieces.append(first)
    column += cell_len(first)
    for piece in others:
        blanks = TAB - column % TAB
        pieces += (" " * blanks, piece)
        column += blanks + cell_len(piece)
    return "".join(pieces)


def word_cuts(text: str, width: int) -> list[tuple[int, int]]:
    """Where the rows of a line begin and end; blanks at the end of a row belong to none."""
    if width < 1:
        return [(0, len(text))]
    if cell_len(text) <= width:
        return [(0, len(text))]
    return list(_ascii_cuts(text, width) if text.isascii() else _grapheme_cuts(text, width))


def _ascii_cuts(text: str, width: int) -> Iterator[tuple[int, int]]:
    start, length = 0, len(text)
    while length - start > width:
        blank = text.rfind(" ", start + 1, start + width + 1)
        if blank <= start or not text[start:blank].strip():
            yield start, start + width
            start += width
        else:
            end = start + len(text[start:blank].rstrip(" "))
            yield start, end
            start = blank + 1
        while start < length and text[start] == " ":
            start += 1
    if start < length:
        yield start, length


def _grapheme_cuts(text: str, width: int) -> Iterator[tuple[int, int]]:
    spans, _ = split_graphemes(text)
    row_start = 0  # of `spans`
    break_at = -1  # the first grapheme of the next row, if the row ended at the last opportunity
    cells = 0
    index = 0
    while index < len(spans):
        size = spans[index][2]
        if index > row_start and _may_break(text, spans, index):
            break_at = index
        if cells + size > width and index > row_start and not _is_blank(text, spans[index]):
            cut = break_at if break_at > row_start else index
            yield _without_blanks(text, spans[row_start][0], spans[cut - 1][1])
            row_start = index = cut
            cells, break_at = 0, -1
            continue
        cells += size
        index += 1
    if row_start < len(spans):
        yield spans[row_start][0], len(text)


def _is_blank(text: str, span: tuple[int, int, int]) -> bool:
    return text[span[0]] == " "


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    while end > start + 1 and text[end - 1] == " ":
        end -= 1
    return start, end


def _may_break(text: str, spans: Sequence[tuple[int, int, int]], index: int) -> bool:
    """Whether a row may begin with this grapheme."""
    before, here = spans[index - 1], spans[index]
    first, last = text[here[0]], text[before[0]]
    if first == " " or first in _NO_START or last in _NO_END:
        return False
    return last == " " or here[2] == 2 or before[2] == 2


def hard_cuts(text: str, width: int) -> list[tuple[int, int]]:
    """Where the rows of a line of code begin and end: every character is shown, and each row is full."""
    if width < 1 or cell_len(text) <= width:
        return [(0, len(text))]
    if text.isascii():
        return [(start, min(start + width, len(text))) for start in range(0, len(text), width)]
    cuts: list[tuple[int, int]] = []
    row_start = cells = 0
    for start, _, size in split_graphemes(text)[0]:
        if cells + size > width and start > row_start:
            cuts.append((row_start, start))
            row_start, cells = start, 0
        cells += size
    cuts.append((row_start, len(text)))
    return cuts


def cut_runs(runs: Sequence[Run], cuts: Iterable[tuple[int, int]]) -> list[list[Run]]:
    """The runs of a line as rows; the positions are those of the joined text."""
    if len(runs) == 1:
        text, style = runs[0]
        return [[(text[start:end], style)] for start, end in cuts]
    rows: list[list[Run]] = []
    index, offset = 0, 0  # the run that a row begins in, and where it begins
    for start, end in cuts:
        while index < len(runs) - 1 and offset + len(runs[index][0]) <= start:
            offset += len(runs[index][0])
            index += 1
        row: list[Run] = []
        at, position = index, offset
        while at < len(runs) and position < end:
            text, style = runs[at]
            piece = text[max(0, start - position) : end - position]
            if piece:
                row.append((piece, style))
            position += len(text)
            at += 1
        rows.append(row)
    return rows


def joined_runs(runs: Iterable[Run]) -> list[Run]:
    """The same with neighbours of one style joined: fewer pieces are fewer bytes to the terminal."""
    joined: list[Run] = []
    for text, style in runs:
        if not text:
            continue
        if joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        else:
            joined.append((text, style))
    return joined
