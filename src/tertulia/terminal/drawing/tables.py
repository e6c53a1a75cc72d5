"""A table of Markdown as rows: columns as wide as they need, wrapped cells where there is no room.

Where the columns cannot stand side by side, each row of the table becomes a list of `heading: value`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len

from tertulia.terminal.drawing.palette import Palette
from tertulia.terminal.drawing.rows import TextRow, behind, blanks, prose_rows
from tertulia.terminal.drawing.wrapping import Run

TableCell = list[Run]
_MIN_COLUMN = 8
"""Cells that a column keeps, if it needs as many, when all are made narrower."""


def table_rows(
    lines: Sequence[Sequence[TableCell]], aligns: Sequence[str], width: int, palette: Palette
) -> list[TextRow]:
    """Draw a table; its first line is the heading."""
    columns = len(aligns)
    if columns == 0:
        return []
    needs = [max(_cells(line[column]) for line in lines) for column in range(columns)]
    widths = _fit(needs, width - 3 * (columns - 1))
    if widths is None:
        return _as_list(lines, width, palette)
    dim, marks = palette["dim"], palette.marks
    rows: list[TextRow] = []
    for number, line in enumerate(lines):
        rows += _line_rows(line, widths, aligns, palette)
        if number == 0:
            cross = f"{marks.rule}{marks.cross}{marks.rule}"
            rows.append(
                TextRow([(cross.join(marks.rule * size for size in widths), dim)], copied=_source(["---"] * columns))
            )
    return rows


def _cells(cell: TableCell) -> int:
    return sum(cell_len(text) for text, _ in cell)


def _fit(needs: list[int], room: int) -> list[int] | None:
    """The widths of the columns; None where they do not fit. The widest give first."""
    if sum(needs) <= room:
        return needs
    if sum(min(need, _MIN_COLUMN) for need in needs) > room:
        return None
    low, high = _MIN_COLUMN, max(needs)
    while low < high:
        limit = (low + high + 1) // 2
        if sum(min(need, limit) for need in needs) <= room:
            low = limit
        else:
            high = limit - 1
    widths = [min(need, low) for need in needs]
    spare = room - sum(widths)
    for column, need in enumerate(needs):
        more = min(spare, need - widths[column])
        widths[column] += more
        spare -= more
    return widths


def _line_rows(line: Sequence[TableCell], widths: list[int], aligns: Sequence[str], palette: Palette) -> list[TextRow]:
    wrapped = [prose_rows(cell, size) for cell, size in zip(line, widths, strict=True)]
    source = _source(["".join(text for text, _ in cell) for cell in line])
    bar: Run = (f" {palette.marks.output} ", palette["dim"])
    rows: list[TextRow] = []
    for number, pieces in enumerate(zip_longest(*wrapped)):
        runs: list[Run] = []
        for column, piece in enumerate(pieces):
            if column:
                runs.append(bar)
            runs += _aligned([] if piece is None else list(piece.runs), widths[column], aligns[column], palette)
        # All of the line is copied with its first row.
        rows.append(TextRow(runs, glue="" if number else None, copied="" if number else source))
    return rows


def _source(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _aligned(runs: TableCell, width: int, align: str, palette: Palette) -> list[Run]:
    spare = width - _cells(runs)
    left = spare if align == "right" else spare // 2 if align == "center" else 0
    return [(" " * left, palette.base), *runs, (" " * (spare - left), palette.base)]


def _as_list(lines: Sequence[Sequence[TableCell]], width: int, palette: Palette) -> list[TextRow]:
    heading, *body = lines
    rows: list[TextRow] = []
    for number, line in enumerate(body or [heading]):
        if number:
            rows.append(TextRow([]))
        for name, cell in zip(heading, line, strict=True):
            runs: list[Run] = [*((text, palette["strong"]) for text, _ in name), (": ", palette["text"]), *cell]
            rows += behind(prose_rows(runs, max(1, width - 2)), [], blanks(2, palette))
    return rows
