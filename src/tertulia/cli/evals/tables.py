"""Results as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.cli.output.tables import write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput
from tertulia.evals.comparison import Comparison, TaskChange
from tertulia.evals.report.figures import cost_text, count_text, failures_text, interval_text, seconds_text
from tertulia.evals.results import OUTCOMES, RunRecord
from tertulia.evals.summary import summarise

_HEAD = ("CANDIDATE", "PASSED", "RATE", "95 %", "TOKENS", "COST", "MEDIAN", "CALLS", "FAILURES")
_RIGHT = frozenset({"PASSED", "RATE", "95 %", "TOKENS", "COST", "MEDIAN", "CALLS"})
_MOST = 40


def write_summary(out: TerminalOutput, records: Sequence[RunRecord]) -> None:
    """A row for each candidate."""
    summaries = summarise(records)
    rows: list[list[StyledText]] = [
        [
            row.name,
            f"{row.passed}/{row.runs}",
            (f"{row.rate:.0%}", "bold"),
            interval_text(row.low, row.high),
            count_text(row.tokens),
            cost_text(row.cost_usd),
            seconds_text(row.median_s),
            count_text(row.calls),
            (failures_text(row.failures), "dim"),
        ]
        for row in summaries
    ]
    write_columns(out, _HEAD, rows, right=_RIGHT)
    for row in summaries:
        if not row.confined:
            out.line(("note", "yellow"), f" {row.name} is held by its own sandbox, which does not hide the checks")


def write_failures(out: TerminalOutput, records: Sequence[RunRecord]) -> None:
    """The runs that did not pass, with the command that shows each."""
    failed = [record for record in records if record.outcome != "passed"]
    if not failed:
        return
    out.line()
    rows: list[list[StyledText]] = [
        [
            record.task,
            record.candidate,
            (record.outcome, "yellow"),
            (f"tertulia sessions replay {record.session}" if record.session else OUTCOMES[record.outcome], "dim"),
        ]
        for record in failed[:_MOST]
    ]
    write_columns(out, ("TASK", "CANDIDATE", "OUTCOME", "REPLAY"), rows)
    if len(failed) > _MOST:
        out.line((f"and {len(failed) - _MOST:,} more; `tertulia eval report FILE --html PAGE` has all", "dim"))


def write_comparison(out: TerminalOutput, found: Comparison) -> None:
    """Which tasks changed, and what that means."""
    out.line((f"A {found.first}", "bold"), f"  {found.before:.0%} of {found.tasks} tasks")
    out.line((f"B {found.second}", "bold"), f"  {found.after:.0%}")
    rows = [_change(change, ("better", "green")) for change in found.better]
    rows += [_change(change, ("worse", "red")) for change in found.worse]
    if rows:
        out.line()
        write_columns(out, ("TASK", "A", "B", ""), rows, right=frozenset({"A", "B"}))
    out.line()
    out.line(found.verdict())
    if found.left_out:
        names = ", ".join(found.left_out[:10]) + (", …" if len(found.left_out) > 10 else "")
        out.line((f"Not compared, because only one has them in this version: {names}", "dim"))


def _change(change: TaskChange, word: StyledText) -> list[StyledText]:
    return [change.task, f"{change.before:.0%}", f"{change.after:.0%}", word]
