"""A comparison as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from bench.compare.charts import Series, bars, lines
from bench.compare.results import ONCE, Cell, Comparison, Spread, WorkTable
from bench.compare.show import number_text, ratio_text, rounds_text
from bench.compare.works import Metric
from tertulia.evals.report.page import html_page

_STYLE = """
.glance td[style] { background: linear-gradient(to left, var(--bar) var(--share), transparent 0) no-repeat; }
"""
_LEAST_COLOUR = "#98a2b3"
_OWN_COLOURS = ("#5fb8ad", "#0b6e63", "#2a9d8f")
_COLOURS = ("#c2410c", "#7c3aed", "#2563eb", "#b45309", "#be185d", "#4d7c0f", "#475569", "#0369a1", "#a16207")


def html_report(comparison: Comparison) -> str:
    """The whole page."""
    return html_page("Tertulia and its peers", "".join(_body(comparison)), _STYLE)


def _body(comparison: Comparison) -> Iterator[str]:
    machine = ", ".join(f"{name} {value}" for name, value in comparison.machine.items())
    size = "A quick run" if comparison.is_quick else "A full run"
    yield f"<h1>Tertulia and its peers</h1><p>{escape(comparison.date)}. {size} of {rounds_text(comparison)}; "
    yield f"{escape(machine)}.</p>"
    yield (
        f"<p>All do the same work against the same mock provider, in turns. A ratio is taken to "
        f"<b>{escape(comparison.title(comparison.least))}</b> in the same round: it sends the same bytes and parses "
        "none of the answer. Shown are medians over the rounds, with the least and the greatest. The model is not "
        "part of any figure: a real one takes seconds a turn. Less is better.</p>"
    )
    yield "<h2>At a glance</h2><p>How many times the least possible. A dash: the table below says why.</p>"
    yield from _glance(comparison)
    colours = _colours(comparison)
    for work in comparison.works:
        yield f"<h2>{work.id} {escape(work.title)}</h2><p>{escape(work.description)}</p>"
        yield from _plots(comparison, work, colours)
        yield from _table(comparison, work)


def _colours(comparison: Comparison) -> dict[str, str]:
    own, others = iter(_OWN_COLOURS * 8), iter(_COLOURS * 8)
    return {
        line.name: _LEAST_COLOUR if line.name == comparison.least else next(own if _is_own(line.name) else others)
        for line in comparison.peers
    }


def _is_own(name: str) -> bool:
    return name.startswith("tertulia")


def _glance(comparison: Comparison) -> Iterator[str]:
    """All works in one table: a ratio of each, of W1 that of its last turn."""
    chosen = [(work, _chief(work)) for work in comparison.works]
    heads = "".join(f"<th>{work.id}<small>{escape(metric.name)}</small></th>" for work, metric in chosen)
    greatest = max((_ratio(work, line.name, metric) for line in comparison.peers for work, metric in chosen), default=1)
    rows: list[str] = []
    for line in comparison.peers:
        cells = "".join(_glance_cell(work.cells[line.name][metric.name], greatest) for work, metric in chosen)
        name = f"<td>{escape(line.title)}<small>{escape(line.version)}</small></td>"
        rows.append(f"<tr{_row_class(line.name)}>{name}{cells}</tr>")
    yield f'<div class="scroll"><table class="glance"><tr><th></th>{heads}</tr>{"".join(rows)}</table></div>'
    for line in comparison.peers:
        if line.note:
            yield f"<p>{escape(line.title)}: {escape(line.note)}</p>"


def _chief(work: WorkTable) -> Metric:
    compared = [metric for metric in work.metrics if metric.is_ratio]
    return compared[-1] if work.id == "W1" else compared[0]


def _ratio(work: WorkTable, peer: str, metric: Metric) -> float:
    ratio = work.cells[peer][metric.name].ratio
    return 1 if ratio is None else ratio.median


def _glance_cell(cell: Cell, greatest: float) -> str:
    if cell.ratio is None:
        return f'<td title="{escape(cell.note)}">–</td>'
    share = math.log(max(cell.ratio.median, 1)) / math.log(max(greatest, 2))
    return f'<td style="--share:{100 * share:.0f}%">{ratio_text(cell.ratio.median)}</td>'


def _plots(comparison: Comparison, work: WorkTable, colours: dict[str, str]) -> Iterator[str]:
    compared = [metric for metric in work.metrics if metric.is_ratio]
    if work.id == "W1" and len(compared) > 1:
        series = [
            Series(line.title, colours[line.name], _curve(work, line.name, compared), is_own=_is_own(line.name))
            for line in comparison.peers
        ]
        drawn = [one for one in series if one.points]
        if drawn:
            yield lines(drawn, "CPU of a turn against the least possible, by the turn; both axes logarithmic")
        return
    for metric in compared:
        spreads = [(line, work.cells[line.name][metric.name].ratio) for line in comparison.peers]
        series = [
            Series(line.title, colours[line.name], [(0, ratio)], is_own=_is_own(line.name))
            for line, ratio in spreads
            if ratio is not None
        ]
        if series:
            yield bars(series, f"{metric.name} against the least possible, logarithmic; the thin line is the spread")


def _curve(work: WorkTable, peer: str, metrics: list[Metric]) -> list[tuple[float, Spread]]:
    ratios = [(metric, work.cells[peer][metric.name].ratio) for metric in metrics]
    return [
        (float(metric.name.removeprefix("turn ").replace(",", "")), ratio)
        for metric, ratio in ratios
        if ratio is not None
    ]


def _table(comparison: Comparison, work: WorkTable) -> Iterator[str]:
    heads = "".join(f"<th>{escape(metric.name)}<small>{_unit(metric)}</small></th>" for metric in work.metrics)
    rows: list[str] = []
    for line in comparison.peers:
        cells = work.cells[line.name]
        notes = {cell.note for cell in cells.values()}
        if all(cell.value is None for cell in cells.values()):
            shown = f'<td class="note" colspan="{len(work.metrics)}">{escape(" ".join(sorted(notes)))}</td>'
        else:
            shown = "".join(_cell(cells[metric.name]) for metric in work.metrics)
        rows.append(f"<tr{_row_class(line.name)}><td>{escape(line.title)}</td>{shown}</tr>")
    yield f'<div class="scroll"><table><tr><th>peer</th>{heads}</tr>{"".join(rows)}</table></div>'
    once = [line.title for line in comparison.peers if _is_once(work, line.name)]
    if once:
        yield f"<p>{escape(ONCE)} ({escape(', '.join(once))})</p>"


def _is_once(work: WorkTable, peer: str) -> bool:
    return any(cell.value is not None and cell.note for cell in work.cells[peer].values())


def _unit(metric: Metric) -> str:
    return f"× the least: spread · {escape(metric.unit)}" if metric.is_ratio else escape(metric.unit)


def _cell(cell: Cell) -> str:
    if cell.value is None:
        return f'<td class="note">{escape(cell.note)}</td>'
    value = number_text(cell.value.median)
    if cell.ratio is None:
        return f"<td>{value}<small>{_range(cell.value.low, cell.value.high)}</small></td>"
    spread = _range(cell.ratio.low, cell.ratio.high)
    return f"<td>{ratio_text(cell.ratio.median)} <small>{spread and f'{spread}× · '}{value}</small></td>"


def _range(low: float, high: float) -> str:
    return "" if low == high else f"{number_text(low)}–{number_text(high)}"


def _row_class(name: str) -> str:
    return ' class="own"' if _is_own(name) else ""
