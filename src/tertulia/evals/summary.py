"""Results summed up: a row for each candidate, a row for each kind of task, and how each task went."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tertulia.evals.results import Outcome, RunRecord
from tertulia.evals.statistics import wilson_interval


class CandidateSummary(msgspec.Struct, frozen=True):
    """All runs of one candidate."""

    name: str
    runs: int
    passed: int
    low: float
    high: float
    """The 95 % interval around the share that passed."""
    tokens: int
    cost_usd: float | None
    """None: not all prices are known."""
    median_s: float
    calls: int
    failures: Mapping[Outcome, int]
    """How many runs did not pass, by kind."""
    confined: bool

    @property
    def rate(self) -> float:
        """The share of its runs that passed."""
        return self.passed / self.runs if self.runs else 0.0


def summarise(records: Sequence[RunRecord]) -> list[CandidateSummary]:
    """A row for each candidate, in the order in which they first ran."""
    return [_summary(name, own) for name, own in by_candidate(records).items()]


def by_candidate(records: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """The runs of each candidate, in the order in which they began."""
    found: dict[str, list[RunRecord]] = {}
    for record in sorted(records, key=lambda record: record.started_at):
        found.setdefault(record.candidate, []).append(record)
    return found


def by_task(records: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """The runs of each task, by its name."""
    found: dict[str, list[RunRecord]] = {}
    for record in sorted(records, key=lambda record: (record.kind, record.task, record.repeat)):
        found.setdefault(record.task, []).append(record)
    return found


def pass_share(records: Sequence[RunRecord]) -> float:
    """The share of some runs that passed."""
    return sum(record.outcome == "passed" for record in records) / len(records)


def _summary(name: str, records: Sequence[RunRecord]) -> CandidateSummary:
    outcomes: Counter[Outcome] = Counter(record.outcome for record in records)
    passed = outcomes.pop("passed", 0)
    low, high = wilson_interval(passed, len(records))
    costs = [record.cost_usd for record in records]
    known = [cost for cost in costs if cost is not None]
    return CandidateSummary(
        name=name,
        runs=len(records),
        passed=passed,
        low=low,
        high=high,
        tokens=sum(record.tokens for record in records),
        cost_usd=sum(known) if len(known) == len(costs) else None,
        median_s=statistics.median(record.duration_s for record in records),
        calls=sum(record.calls for record in records),
        failures=dict(outcomes.most_common()),
        confined=all(record.confined for record in records),
    )
