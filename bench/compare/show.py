"""A comparison as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from bench.compare.results import Cell, Comparison, WorkTable
from bench.compare.works import Metric


def table_lines(comparison: Comparison) -> Iterator[str]:
    """The lines of all tables; the notes stand below the table they belong to."""
    least = comparison.title(comparison.least)
    yield f"Medians of {rounds_text(comparison)}; ×: against {least} in the same round (least–greatest)."
    yield ", ".join(f"{name} {value}" for name, value in comparison.machine.items())
    for work in comparison.works:
        yield ""
        yield from _work_lines(comparison, work)


def _work_lines(comparison: Comparison, work: WorkTable) -> Iterator[str]:
    yield f"{work.id}  {work.title}"
    rows = [["", *(f"{metric.name}, {metric.unit}" for metric in work.metrics)]]
    notes: dict[str, str] = {}
    for line in comparison.peers:
        cells = work.cells[line.name]
        rows.append([line.title, *(cell_text(cells[metric.name], metric) for metric in work.metrics)])
        for cell in cells.values():
            if cell.note:
                notes[line.title] = cell.note
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = (
            text.ljust(width) if not column else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  " + "  ".join([first, *others]).rstrip()
    for title, note in notes.items():
        yield f"    {title}: {note}"


def rounds_text(comparison: Comparison) -> str:
    """How many rounds there were."""
    rounds = "one round" if comparison.rounds == 1 else f"{comparison.rounds} rounds"
    return f"{rounds}, stopped before all was measured" if comparison.is_stopped else rounds


def cell_text(cell: Cell, metric: Metric) -> str:
    """A value with its ratio; a dash where there is none, which a note explains."""
    if cell.value is None:
        return "no such feature" if cell.note.startswith("no such feature") else "–"
    text = number_text(cell.value.median)
    if cell.ratio is None or not metric.is_ratio:
        return text
    return f"{text}  {ratio_text(cell.ratio.median)} ({_plain(cell.ratio.low)}–{_plain(cell.ratio.high)})"


def number_text(value: float) -> str:
    """With as many digits as mean something."""
    if value == int(value) and value >= 1:
        return f"{value:,.0f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_text(ratio: float) -> str:
    """So many times the least."""
    return f"{_plain(ratio)}×"


def _plain(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}"
