"""Runs what a plan asks for and the results lack: several runs at once, within a budget, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.evals.candidate import EvalCandidate
from tertulia.evals.results import ResultsFile, RunKey, RunRecord
from tertulia.evals.run import RunPlan
from tertulia.evals.suite import Suite
from tertulia.events.clock import Clock


class EvalBudget(msgspec.Struct, frozen=True):
    """What all runs of a results file may spend; None is no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    time_s: float | None = None
    """Of this command alone: a later one has the time again."""


class CampaignPlan(msgspec.Struct, frozen=True):
    """What is wanted: every task by every candidate, so many times."""

    suite: Suite
    candidates: Sequence[EvalCandidate]
    common: Sequence[str] = ()
    """What holds for all candidates and can change how they do a task: a part of their fingerprints."""
    repeat: int = 1
    jobs: int = 1
    budget: EvalBudget = EvalBudget()
    timeout_s: float | None = None
    """The most that one run may take; the limits of tasks hold too."""
    retried: frozenset[str] = frozenset()
    """Outcomes that do not count as done, beside `budget`."""

    def runs(self) -> Iterator[RunPlan]:
        """All runs. Candidates take turns, so that what is there after a stop can be compared."""
        fingerprints = [one.fingerprint(self.common) for one in self.candidates]
        for repeat in range(1, self.repeat + 1):
            for task in self.suite.tasks:
                for one, fingerprint in zip(self.candidates, fingerprints, strict=True):
                    yield RunPlan(task, one, fingerprint, repeat)

    def is_done(self, record: RunRecord) -> bool:
        """Whether a recorded run need not be done again."""
        return record.outcome != "budget" and record.outcome not in self.retried


class DoesRuns(Protocol):
    """Does single runs; see `EvalRunner`."""

    async def run(
        self, plan: RunPlan, *, most_s: float | None = None, spend: Callable[[int, float | None], bool] = ...
    ) -> RunRecord:
        """Do one run and judge it."""
        ...


class Spending:
    """What was spent of a budget, over all runs that go on at once."""

    def __init__(self, budget: EvalBudget, records: Sequence[RunRecord], clock: Clock) -> None:
        self._budget = budget
        self._clock = clock
        self._began = clock.monotonic()
        self._tokens = sum(record.tokens for record in records)
        self._cost = sum(record.cost_usd or 0.0 for record in records)
        self.unknown_cost = False
        """Whether something was spent whose price is not known, while money is limited."""

    def add(self, tokens: int, cost_usd: float | None) -> bool:
        """Count a request. True: the budget is used up."""
        self._tokens += tokens
        self._cost += cost_usd or 0.0
        self.unknown_cost = self.unknown_cost or (cost_usd is None and self._budget.cost_usd is not None)
        return self.is_over

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be spent."""
        budget = self._budget
        return (
            self.unknown_cost
            or (budget.tokens is not None and self._tokens >= budget.tokens)
            or (budget.cost_usd is not None and self._cost >= budget.cost_usd)
            or self.left_s == 0
        )

    @property
    def left_s(self) -> float | None:
        """How many seconds are left; None: there is no limit."""
        limit = self._budget.time_s
        return None if limit is None else max(0.0, limit - (self._clock.monotonic() - self._began))


class CampaignEnd(msgspec.Struct, frozen=True):
    """Why a campaign ended, and how much of the plan is done."""

    reason: Literal["done", "budget", "stopped"]
    done: int
    total: int


class Campaign:
    """Carries out one plan, and writes every run to the results when it ends."""

    def __init__(self, plan: CampaignPlan, runner: DoesRuns, results: ResultsFile, clock: Clock) -> None:
        self._plan = plan
        self._runner = runner
        self._results = results
        self._spending = Spending(plan.budget, results.records, clock)
        finished = {record.key for record in results.records if plan.is_done(record)}
        runs = list(plan.runs())
        self.total = len(runs)
        self._missing = iter([run for run in runs if _key(run) not in finished])
        self.done = sum(_key(run) in finished for run in runs)
        """How many of the runs have results, from this command and from earlier ones."""

    async def run(self, stopped: asyncio.Event, on_record: Callable[[RunRecord], object]) -> CampaignEnd:
        """Do the missing runs. Those that go on when it is stopped are given up, and leave no line.

        Raises:
            InvalidParamsError: A setting is wrong, or money is limited and a price is not known.
        """
        try:
            async with asyncio.TaskGroup() as group:
                workers = [group.create_task(self._work(on_record)) for _ in range(self._plan.jobs)]
                stopping = group.create_task(_cancel_when(stopped, workers))
                await asyncio.wait(workers)
                stopping.cancel()
        except ExceptionGroup as several:
            # The first is the cause.
            raise several.exceptions[0] from None
        if self._spending.unknown_cost:
            raise InvalidParamsError(
                "money is limited (--max-cost), and a model answered whose price is not known; set it in "
                "[model_prices], or limit tokens instead"
            )
        reason = "done" if self.done == self.total else "stopped" if stopped.is_set() else "budget"
        return CampaignEnd(reason, self.done, self.total)

    async def _work(self, on_record: Callable[[RunRecord], object]) -> None:
        """Do one run after the other, until none is left or nothing more may be spent."""
        while not self._spending.is_over and (run := next(self._missing, None)) is not None:
            left_s, own_s = self._spending.left_s, self._plan.timeout_s
            limits = [limit for limit in (left_s, own_s) if limit is not None]
            record = await self._runner.run(run, most_s=min(limits, default=None), spend=self._spending.add)
            if record.outcome == "timeout" and self._spending.left_s == 0:
                record = msgspec.structs.replace(record, outcome="budget")
            self._results.add(record)
            self.done += self._plan.is_done(record)
            on_record(record)


async def _cancel_when(stopped: asyncio.Event, workers: Sequence[asyncio.Task[None]]) -> None:
    await stopped.wait()
    for worker in workers:
        worker.cancel()


def _key(run: RunPlan) -> RunKey:
    return RunKey(run.task.id, run.candidate_fingerprint, run.repeat)
