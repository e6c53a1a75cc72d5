"""Tries out the checks of a suite: each must fail where nothing was done, and pass with the reference solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tertulia.evals.checking import Checker, CheckJob, CheckResult, RunFacts
from tertulia.evals.suite import Suite
from tertulia.evals.task import Task
from tertulia.evals.workspace import make_workspace, solve, temporary_place

BATCH = 25
"""How many tasks share a confined start: most of the time of a small check is the start."""
Soundness = Literal["sound", "always passes", "always fails", "broken"]


class CheckReport(msgspec.Struct, frozen=True):
    """Whether the check of a task can tell a solution from nothing, and what it printed where it cannot."""

    task: str
    soundness: Soundness
    output: str = ""


async def check_suite(suite: Suite, checker: Checker, variables: Mapping[str, str]) -> list[CheckReport]:
    """A report for each task, in their order.

    Raises:
        SandboxError: Nothing confines commands here.
        GitError: A solution is a patch, and git is not there or refuses it.
    """
    reports: list[CheckReport] = []
    for start in range(0, len(suite.tasks), BATCH):
        tasks = suite.tasks[start : start + BATCH]
        async with temporary_place() as place:
            reports += await _check(tasks, checker, variables, place)
    return reports


async def _check(
    tasks: Sequence[Task], checker: Checker, variables: Mapping[str, str], root: Path
) -> list[CheckReport]:
    jobs: list[CheckJob] = []
    for task in tasks:
        untouched = await make_workspace(task, root / task.id / "untouched", variables)
        solved = await make_workspace(task, root / task.id / "solved", variables)
        jobs.append(CheckJob(task, untouched, RunFacts()))
        jobs.append(CheckJob(task, solved, await solve(task, solved, variables)))
    results = await checker.run(jobs, root)
    return [_report(task, *results[2 * at : 2 * at + 2]) for at, task in enumerate(tasks)]


def _report(task: Task, untouched: CheckResult, solved: CheckResult) -> CheckReport:
    for result in (untouched, solved):
        if result.verdict in ("hung", "broke"):
            return CheckReport(task.id, "broken", f"The check {result.verdict}. {result.output}")
    if untouched.verdict == "passed":
        return CheckReport(task.id, "always passes", untouched.output)
    if solved.verdict == "failed":
        return CheckReport(task.id, "always fails", solved.output)
    return CheckReport(task.id, "sound")
