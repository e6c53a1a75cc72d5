"""Issue 24, 7: what is missing is done, several at once, within a budget; a stop keeps what is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.evals.campaign import Campaign, CampaignPlan, EvalBudget
from tertulia.evals.candidate import EvalCandidate, candidates_from_flags
from tertulia.evals.results import ResultsFile, RunRecord, read_results
from tertulia.evals.run import RunPlan
from tertulia.evals.suite import load_suite
from tertulia.events.clock import SystemClock
from tests.deadlines import HANG_S
from tests.evals.suites import record, write_task
from tests.tables import each_row


class CountedRuns:
    """Does runs that take as long as a test wants, and spend ten tokens each."""

    def __init__(self, *, cost: float | None = 0.5, outcome: str = "passed", gate: asyncio.Event | None = None) -> None:
        self.started: list[tuple[str, str, int]] = []
        self.at_once = self.most = 0
        self._cost, self._outcome, self._gate = cost, outcome, gate
        self.waiting = asyncio.Event()

    async def run(
        self, plan: RunPlan, *, most_s: float | None = None, spend: Callable[[int, float | None], bool] = ...
    ) -> RunRecord:
        self.started.append((plan.task.id, plan.candidate.name, plan.repeat))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        stopped = spend(10, self._cost)
        try:
            await asyncio.sleep(0)
            if self._gate is not None:
                self.waiting.set()
                await self._gate.wait()
        finally:
            self.at_once -= 1
        return record(
            plan.task.id,
            "budget" if stopped else self._outcome,
            task_fingerprint=plan.task.fingerprint,
            candidate=plan.candidate.name,
            candidate_fingerprint=plan.candidate_fingerprint,
            repeat=plan.repeat,
            input_tokens=10,
            cost_usd=self._cost,
        )


@pytest.fixture
def plan(tmp_path: Path) -> CampaignPlan:
    for name in ("a", "b"):
        write_task(tmp_path / "suite", name)
    return CampaignPlan(load_suite(tmp_path / "suite"), [EvalCandidate("one"), EvalCandidate("two", model="x/y")])


async def _carry_out(plan: CampaignPlan, path: Path, runs: CountedRuns, stopped: asyncio.Event | None = None) -> Any:
    with ResultsFile(path, plan.suite) as results:
        campaign = Campaign(plan, runs, results, SystemClock())
        return await asyncio.wait_for(campaign.run(stopped or asyncio.Event(), lambda record: None), HANG_S)


async def test_a_second_command_does_only_what_is_missing(tmp_path: Path, plan: CampaignPlan) -> None:
    path, runs = tmp_path / "results.jsonl", CountedRuns()
    end = await _carry_out(plan, path, runs)
    assert (end.reason, end.done, end.total) == ("done", 4, 4)
    assert runs.started == [("a", "one", 1), ("a", "two", 1), ("b", "one", 1), ("b", "two", 1)], "they take turns"
    more = CountedRuns()
    assert (await _carry_out(replace(plan, repeat=2), path, more)).total == 8
    assert {repeat for _, _, repeat in more.started} == {2}
    other = CountedRuns()
    await _carry_out(replace(plan, common=["reasoning_effort=high"]), path, other)
    assert len(other.started) == 4, "with another setting they are other candidates"


async def test_runs_go_on_at_once_and_never_more_than_wanted(tmp_path: Path, plan: CampaignPlan) -> None:
    runs = CountedRuns()
    await _carry_out(replace(plan, repeat=5, jobs=3), tmp_path / "results.jsonl", runs)
    assert (runs.most, len(runs.started)) == (3, 20)


@each_row(
    "budget, runs_started",
    [(EvalBudget(tokens=25), 3), (EvalBudget(cost_usd=1.0), 2), (EvalBudget(tokens=10_000, cost_usd=10_000.0), 4)],
)
async def test_a_budget_stops_before_the_next_run_and_a_larger_one_goes_on(
    budget: EvalBudget, runs_started: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("budget")
    write_task(folder / "suite", "a")
    path, plan = folder / "results.jsonl", CampaignPlan(load_suite(folder / "suite"), [EvalCandidate("one")], repeat=4)
    runs = CountedRuns()
    end = await _carry_out(replace(plan, budget=budget), path, runs)
    assert len(runs.started) == runs_started
    assert end.reason == ("budget" if runs_started < 4 else "done")
    again = CountedRuns()
    if end.reason == "budget":
        assert (await _carry_out(replace(plan, budget=budget), path, again)).reason == "budget"
        assert again.started == [], "what was spent before counts"
    assert (await _carry_out(plan, path, again)).reason == "done"
    assert {one.outcome for one in read_results(path)} == {"passed"}, "what the budget cut off was done again"


async def test_a_time_limit_of_the_command_is_a_budget_and_not_a_failure(tmp_path: Path, plan: CampaignPlan) -> None:
    runs = CountedRuns(outcome="timeout")
    limited = replace(plan, budget=EvalBudget(time_s=1e-9))
    assert (await _carry_out(limited, tmp_path / "results.jsonl", runs)).reason == "budget"
    assert runs.started == []


async def test_money_is_not_limited_by_a_price_that_is_not_known(tmp_path: Path, plan: CampaignPlan) -> None:
    with pytest.raises(InvalidParamsError, match="whose price is not known"):
        await _carry_out(
            replace(plan, budget=EvalBudget(cost_usd=1.0)), tmp_path / "results.jsonl", CountedRuns(cost=None)
        )


async def test_a_stop_gives_up_what_goes_on_and_keeps_what_is_done(tmp_path: Path, plan: CampaignPlan) -> None:
    path, stopped, runs = tmp_path / "results.jsonl", asyncio.Event(), CountedRuns(gate=asyncio.Event())
    await _carry_out(plan, path, CountedRuns(outcome="provider"))
    retrying = replace(plan, retried=frozenset({"provider"}), jobs=2)
    async with asyncio.TaskGroup() as group:
        carrying = group.create_task(_carry_out(retrying, path, runs, stopped))
        await asyncio.wait_for(runs.waiting.wait(), HANG_S)
        stopped.set()
    assert (carrying.result().reason, carrying.result().done) == ("stopped", 0)
    assert runs.at_once == 0
    assert {one.outcome for one in read_results(path)} == {"provider"}
    await _carry_out(retrying, path, CountedRuns())
    assert {one.outcome for one in read_results(path)} == {"passed"}


def test_candidates_are_one_a_flag_and_one_for_each_combination_of_settings() -> None:
    found = candidates_from_flags(
        models=["a/b"],
        backends=["codex"],
        agents=["reviewer"],
        specs=["name=fast model=a/c reasoning_effort=low"],
        variations=["tool_profile=patch", "tool_profile=editor"],
    )
    assert [(one.name, one.model, one.backend, one.agent) for one in found[::2]] == [
        ("a/b tool_profile=patch", "a/b", None, None),
        ("codex tool_profile=patch", None, "codex", None),
        ("reviewer tool_profile=patch", None, None, "reviewer"),
        ("fast tool_profile=patch", "a/c", None, None),
    ]
    assert found[7].overrides == ("reasoning_effort=low", "tool_profile=editor")
    assert len({one.fingerprint(()) for one in found}) == 8
    assert [one.name for one in candidates_from_flags()] == ["default"]


@each_row(
    "flags, expected",
    [
        ({"specs": ["model"]}, "expected KEY=VALUE KEY=VALUE"),
        ({"specs": ["model='x"]}, "a quotation mark is not closed"),
        ({"variations": ["tool_profile"]}, "--vary 'tool_profile': expected KEY=VALUE"),
        ({"models": ["a/b", "a/b"]}, "two candidates are called 'a/b'"),
    ],
)
def test_a_candidate_that_cannot_be_read_is_refused(flags: dict[str, list[str]], expected: str) -> None:
    with pytest.raises(InvalidParamsError, match=expected):
        candidates_from_flags(**flags)
