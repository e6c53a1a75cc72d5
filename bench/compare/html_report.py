"""A comparison as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from bench.compare.charts import Series, bars, lines
from bench.compare.results import Cell, Comparison, WorkTable
from bench.compare.show import number_text, ratio_text, rounds_text
from bench.compare.works import Metric

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #667085; --line: #d9dee6; --paper: #fff; --own: #0b6e63; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --dim: #98a2b3; --line: #333b47; --paper: #14181f; --own: #3fc7b5; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.6rem; }
p, figcaption { color: var(--dim); } figure { margin: 1rem 0; } svg { width: 100%; height: auto; }
figcaption { font-size: .85rem; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .tick { fill: var(--dim); font-size: 11px; }
svg .grid { stroke: var(--line); } svg .spread { stroke: var(--ink); stroke-width: 1.5; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } td small { color: var(--dim); display: block; }
tr.own td { color: var(--own); font-weight: 600; } td.note { color: var(--dim); text-align: left; max-width: 22rem; }
"""
_LEAST_COLOUR = "#98a2b3"
_OWN_COLOURS = ("#5fb8ad", "#0b6e63")
_COLOURS = ("#c2410c", "#7c3aed", "#2563eb", "#b45309", "#be185d", "#4d7c0f", "#475569", "#0369a1", "#a16207")


def html_report(comparison: Comparison) -> str:
    """The whole page."""
    body = "".join(_body(comparison))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
    title = "<title>Tertulia and its peers</title>"
    return f'<!doctype html><html lang="en"><head>{head}{title}</head><body>{body}</body></html>\n'


def _body(comparison: Comparison) -> Iterator[str]:
    machine = ", ".join(f"{name} {value}" for name, value in comparison.machine.items())
    size = "A quick run" if comparison.is_quick else "A full run"
    yield f"<h1>Tertulia and its peers</h1><p>{escape(comparison.date)}. {size} of {rounds_text(comparison.rounds)}; "
    yield f"{escape(machine)}.</p>"
    yield (
        f"<p>All do the same work against the same mock provider, in turns. A ratio is taken to "
        f"<b>{escape(comparison.title(comparison.least))}</b> in the same round: it sends the same bytes and parses "
        "none of the answer. Shown are medians over the rounds, with the least and the greatest. The model is not "
        "part of any figure: a real one takes seconds a turn. Less is better.</p>"
    )
    yield from _peer_table(comparison)
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


def _peer_table(comparison: Comparison) -> Iterator[str]:
    rows = "".join(
        f"<tr{_row_class(line.name)}><td>{escape(line.title)}</td><td>{escape(line.version)}</td>"
        f'<td class="note">{escape(line.note)}</td></tr>'
        for line in comparison.peers
    )
    yield f"<table><tr><th>peer</th><th>version</th><th></th></tr>{rows}</table>"


def _plots(comparison: Comparison, work: WorkTable, colours: dict[str, str]) -> Iterator[str]:
    compared = [metric for metric in work.metrics if metric.is_ratio]
    if work.id == "W1" and len(compared) > 1:
        series = [
            Series(line.title, colours[line.name], _curve(work, line.name, compared)) for line in comparison.peers
        ]
        drawn = [one for one in series if one.points]
        if drawn:
            yield lines(drawn, "CPU of a turn against the least possible, by the turn; both axes logarithmic")
        return
    for metric in compared:
        spreads = [(line, work.cells[line.name][metric.name].ratio) for line in comparison.peers]
        series = [Series(line.title, colours[line.name], [(0, ratio)]) for line, ratio in spreads if ratio is not None]
        if series:
            yield bars(series, f"{metric.name} against the least possible, logarithmic; the thin line is the spread")


def _curve(work: WorkTable, peer: str, metrics: list[Metric]) -> list[tuple[float, object]]:
    ratios = [(metric, work.cells[peer][metric.name].ratio) for metric in metrics]
    return [
        (float(metric.name.removeprefix("turn ").replace(",", "")), ratio)
        for metric, ratio in ratios
        if ratio is not None
    ]


def _table(comparison: Comparison, work: WorkTable) -> Iterator[str]:
    heads = "".join(f"<th>{escape(metric.name)}<br>{escape(metric.unit)}</th>" for metric in work.metrics)
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


def _cell(cell: Cell) -> str:
    if cell.value is None:
        return f'<td class="note">{escape(cell.note)}</td>'
    value = number_text(cell.value.median)
    if cell.ratio is None:
        return f"<td>{value}<small>{_range(cell.value.low, cell.value.high)}</small></td>"
    ratio = f"{ratio_text(cell.ratio.median)} <small>{_range(cell.ratio.low, cell.ratio.high)}</small>"
    return f"<td>{value} · {ratio}</td>"


def _range(low: float, high: float) -> str:
    return "" if low == high else f"{number_text(low)}–{number_text(high)}"


def _row_class(name: str) -> str:
    return ' class="own"' if _is_own(name) else ""
