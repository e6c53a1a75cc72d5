"""Results as one HTML file: rates with their intervals, what they cost, how each task went, and how to replay a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from tertulia.evals.report.figures import cost_text, count_text, interval_text, seconds_text
from tertulia.evals.report.page import html_page, svg_figure
from tertulia.evals.results import OUTCOMES, Outcome, RunRecord
from tertulia.evals.summary import CandidateSummary, by_candidate, by_task, summarise

_STYLE = """
svg .rate { fill: var(--own); opacity: .85; }
.matrix td, .matrix th { text-align: center; } .matrix td:first-child, .matrix th:first-child { text-align: left; }
.matrix small { display: inline; }
.all { color: var(--good); } .none { color: var(--bad); } .some { color: var(--some); }
details { border-bottom: 1px solid var(--line); padding: .35rem 0; } summary { cursor: pointer; }
summary b { font-weight: 600; } summary span { color: var(--dim); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--bar); padding: .6rem .8rem; border-radius: 6px;
      font: 12.5px/1.45 ui-monospace, monospace; margin: .4rem 0; }
code { font: 12.5px ui-monospace, monospace; }
td:first-child small { white-space: normal; }
"""
_WIDTH, _LABEL, _RIGHT, _ROW = 760, 220, 150, 28
_MAX_DETAILS = 500


def html_report(records: Sequence[RunRecord]) -> str:
    """Draw the whole page of these runs."""
    return html_page("Tertulia eval", "".join(_body(records)), _STYLE)


def _body(records: Sequence[RunRecord]) -> Iterator[str]:
    summaries = summarise(records)
    tasks = by_task(records)
    yield f"<h1>Tertulia eval</h1><p>{len(tasks)} tasks, {len(summaries)} candidates, {len(records)} runs"
    if records:
        began = min(record.started_at for record in records)
        yield f"; begun {escape(began[:16].replace('T', ' '))} UTC"
    yield ".</p>"
    if not records:
        return
    yield _rates(summaries)
    yield from _candidates(summaries)
    yield from _kinds(summaries)
    yield "<h2>Tasks</h2><p>How many runs passed, of how many.</p>"
    yield from _matrix(tasks, [row.name for row in summaries])
    yield from _failures(records)


def _rates(summaries: Sequence[CandidateSummary]) -> str:
    height = _ROW * len(summaries) + 26
    bottom = height - 24
    parts = [
        f'<path class="grid" d="M{_place(tick):.1f} 0V{bottom}"/>'
        f'<text class="tick" x="{_place(tick):.1f}" y="{height - 8}" text-anchor="middle">{tick:.0%}</text>'
        for tick in (0, 0.25, 0.5, 0.75, 1)
    ]
    for at, row in enumerate(summaries):
        top = at * _ROW + 4
        parts.append(
            f'<text x="{_LABEL - 10}" y="{top + 13}" text-anchor="end">{escape(_short(row.name))}</text>'
            f'<rect class="rate" x="{_LABEL}" y="{top}" width="{max(_place(row.rate) - _LABEL, 1):.1f}" height="18"/>'
            f'<path class="spread" d="M{_place(row.low):.1f} {top + 9}H{_place(row.high):.1f}'
            f'M{_place(row.low):.1f} {top + 5}v8M{_place(row.high):.1f} {top + 5}v8"/>'
            f'<text x="{_WIDTH - _RIGHT + 12}" y="{top + 13}">{row.rate:.0%} '
            f'<tspan class="dim">{interval_text(row.low, row.high)}</tspan></text>'
        )
    return svg_figure((_WIDTH, height), "Share of runs that passed; the thin line is the 95 % interval", parts)


def _place(share: float) -> float:
    return _LABEL + share * (_WIDTH - _RIGHT - _LABEL)


def _short(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:31]}…"


def _candidates(summaries: Sequence[CandidateSummary]) -> Iterator[str]:
    heads = ("passed", "rate", "95 % interval", "tokens", "cost", "median time", "calls")
    yield f'<div class="scroll"><table><tr><th>candidate</th>{"".join(f"<th>{head}</th>" for head in heads)}</tr>'
    for row in summaries:
        held = "" if row.confined else "<small>held by its own sandbox, which does not hide the checks</small>"
        cells = (
            f"{row.passed}/{row.runs}",
            f"{row.rate:.0%}",
            interval_text(row.low, row.high),
            count_text(row.tokens),
            cost_text(row.cost_usd),
            seconds_text(row.median_s),
            count_text(row.calls),
        )
        shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield f"<tr><td>{escape(row.name)}{held}</td>{shown}</tr>"
    yield "</table></div>"


def _kinds(summaries: Sequence[CandidateSummary]) -> Iterator[str]:
    """Failures by kind: a column for each that occurs."""
    found: list[Outcome] = [outcome for outcome in OUTCOMES if any(outcome in row.failures for row in summaries)]
    if not found:
        return
    heads = "".join(f'<th title="{escape(OUTCOMES[outcome])}">{outcome}</th>' for outcome in found)
    yield f'<h2>Failures by kind</h2><div class="scroll"><table><tr><th>candidate</th>{heads}</tr>'
    for row in summaries:
        cells = "".join(f"<td>{row.failures.get(outcome) or '–'}</td>" for outcome in found)
        yield f"<tr><td>{escape(row.name)}</td>{cells}</tr>"
    yield "</table></div><p>"
    yield "; ".join(f"<b>{outcome}</b>: {escape(OUTCOMES[outcome])}" for outcome in found)
    yield ".</p>"


def _matrix(tasks: Mapping[str, Sequence[RunRecord]], names: Sequence[str]) -> Iterator[str]:
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    yield f'<div class="scroll"><table class="matrix"><tr><th>task</th>{heads}</tr>'
    for task, records in tasks.items():
        own = by_candidate(records)
        cells = "".join(_cell(own.get(name, [])) for name in names)
        yield f"<tr><td>{escape(task)} <small>{escape(records[0].kind)}</small></td>{cells}</tr>"
    yield "</table></div>"


def _cell(records: Sequence[RunRecord]) -> str:
    if not records:
        return '<td class="dim">–</td>'
    passed = sum(record.outcome == "passed" for record in records)
    word = "all" if passed == len(records) else "some" if passed else "none"
    sign = {"all": "✓", "some": "~", "none": "✗"}[word]
    outcomes = ", ".join(record.outcome for record in records)
    return f'<td class="{word}" title="{escape(outcomes)}">{sign} {passed}/{len(records)}</td>'


def _failures(records: Sequence[RunRecord]) -> Iterator[str]:
    yield "<h2>Runs</h2><p>Those that did not pass first. A session is replayed by the command that stands with it.</p>"
    ordered = sorted(records, key=lambda record: record.outcome == "passed")
    for record in ordered[:_MAX_DETAILS]:
        yield _details(record)
    if len(ordered) > _MAX_DETAILS:
        yield f"<p>And {len(ordered) - _MAX_DETAILS:,} more, in the file of results.</p>"


def _details(record: RunRecord) -> str:
    colour = "all" if record.outcome == "passed" else "none"
    spent = f"{count_text(record.tokens)} tokens · {cost_text(record.cost_usd)} · {seconds_text(record.duration_s)}"
    calls = f"{_counted(record.requests, 'request')} · {_counted(record.calls, 'call')}"
    replay = f"<pre>tertulia sessions replay {escape(record.session)}</pre>" if record.session else ""
    detail = f"<p>{escape(OUTCOMES[record.outcome])}</p>"
    detail += f"<pre>{escape(record.detail.strip())}</pre>" if record.detail.strip() else ""
    answer = f"<p>It answered:</p><pre>{escape(record.answer)}</pre>" if record.answer else ""
    number = f" #{record.repeat}" if record.repeat > 1 else ""
    return (
        f'<details><summary><b class="{colour}">{record.outcome}</b> {escape(record.task)}{number} '
        f"<span>{escape(record.candidate)} · {spent} · {calls}</span></summary>{replay}{detail}{answer}</details>"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
