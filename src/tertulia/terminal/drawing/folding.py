"""Folds long outputs: a few rows are shown, and how many there are besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tertulia.terminal.drawing.palette import Palette
from tertulia.terminal.drawing.rows import TextRow
from tertulia.view.text import more_lines


@dataclass(frozen=True, slots=True)
class Folded:
    """How many rows are shown of the beginning, or of the end."""

    head: int = 0
    tail: int = 0


def fold_rows(
    rows: Sequence[TextRow], shown: Folded, palette: Palette, *, mark: bool = False, more: int = 0
) -> list[TextRow]:
    """The rows that are shown, and a row that counts the others; one row too many is shown instead of counted.

    Args:
        rows: All of them.
        shown: Which of them are shown.
        palette: What the row that counts is drawn with.
        mark: Draw the bar of an output at the side of all rows.
        more: Lines besides these rows, which were not drawn.
    """
    count = shown.head + shown.tail
    marks = palette.marks
    bar, first, last = f"{marks.output} ", f"{marks.output_begin} ", f"{marks.output_end} "
    dim = palette["dim"]
    if len(rows) + more <= count + 1:
        return [row.indented([(bar, dim)]) if mark else row for row in rows]
    hidden = more_lines(len(rows) + more - count)
    if shown.tail:
        counted = TextRow([(f"{first}{hidden} above", dim)], copied="")
        return [counted, *(row.indented([(bar, dim)]) if mark else row for row in rows[-shown.tail :])]
    counted = TextRow([(f"{last}{hidden}", dim)], copied="")
    return [*(row.indented([(bar, dim)]) if mark else row for row in rows[: shown.head]), counted]
