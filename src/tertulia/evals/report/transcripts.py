"""Two transcripts of the same messages as one HTML page, beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tertulia.evals.recorded.side_by_side import LineKind, Side, SideBySide, TranscriptLine
from tertulia.evals.report.figures import cost_text, count_text, seconds_text
from tertulia.evals.report.page import html_page
from tertulia.policy.display_text import visible

_STYLE = """
body { max-width: 80rem; }
.pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 0 1.6rem; }
.pair > div { min-width: 0; border-top: 1px solid var(--line); padding: .5rem 0; }
.asked { background: var(--bar); border-radius: 6px; padding: .5rem .8rem; margin: 1.4rem 0 .6rem;
         white-space: pre-wrap; overflow-wrap: anywhere; font-weight: 600; }
.answer { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0; color: var(--ink); }
.call, .failed, .note, .end { font: 12.5px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; color: var(--dim); }
.failed, .end { color: var(--bad); } .note { color: var(--some); }
.nothing { color: var(--dim); }
@media (max-width: 40rem) { .pair { grid-template-columns: minmax(0, 1fr); } }
"""
_SIGNS: dict[LineKind, str] = {"call": "· ", "failed": "✗ ", "note": "! ", "end": "■ "}


def transcripts_page(both: SideBySide) -> str:
    """Draw the whole page of both transcripts."""
    return html_page("Tertulia replay", "".join(_body(both)), _STYLE)


def _body(both: SideBySide) -> Iterator[str]:
    sides = (both.left, both.right)
    count = len(both.messages)
    yield f"<h1>{_text(both.left.title)} and {_text(both.right.title)}</h1>"
    yield f"<p>The same {count} message{'s' * (count != 1)}, with the files that the session began with.</p>"
    yield from _totals(sides)
    for at, message in enumerate(both.messages):
        yield f'<div class="asked">{_text(message)}</div><div class="pair">'
        for side in sides:
            yield f"<div>{''.join(_lines(side, at))}</div>"
        yield "</div>"


def _totals(sides: tuple[Side, Side]) -> Iterator[str]:
    heads = ("tokens in", "cached", "tokens out", "cost", "calls", "failed", "time", "files")
    yield f'<div class="scroll"><table><tr><th>model</th>{"".join(f"<th>{head}</th>" for head in heads)}</tr>'
    for side in sides:
        spent = side.spent
        counts = (spent.input_tokens, spent.cached_input_tokens, spent.output_tokens)
        cells = [count_text(count) for count in counts]
        cells += [cost_text(spent.cost_usd), count_text(spent.calls), count_text(spent.failed_calls)]
        cells += [seconds_text(spent.duration_s), count_text(len(side.changes))]
        note = f"<small>{_text(side.note)}</small>" if side.note else ""
        replay = f"<small>tertulia sessions replay {_text(side.session_id)}</small>"
        yield f"<tr><td>{_text(side.title)}{replay}{note}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield '</table></div><h2>Files</h2><div class="pair">'
    for side in sides:
        names = "".join(f'<div class="call">{change.act} {_text(change.path)}</div>' for change in side.changes)
        yield f"<div>{names or '<span class=nothing>no file was changed</span>'}</div>"
    yield "</div><h2>Messages</h2>"


def _lines(side: Side, at: int) -> Iterator[str]:
    if at >= len(side.answers):
        yield '<span class="nothing">not sent</span>'
        return
    for line in side.answers[at]:
        yield _line(line)


def _line(line: TranscriptLine) -> str:
    return f'<div class="{line.kind}">{_SIGNS.get(line.kind, "")}{_text(line.text)}</div>'


def _text(text: str) -> str:
    """For a page: nothing in it is markup, and nothing hides or turns text."""
    return escape(visible(text, lines=True))
