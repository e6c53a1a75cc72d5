"""Runs hidden checks confined: without a network, with the workspace writable, after the run is over."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tertulia.errors import SandboxError
from tertulia.evals import check_program
from tertulia.evals.task import Task
from tertulia.policy.shell_environment import shell_environment_from_wire
from tertulia.sandbox.runner import Command, CommandLimits, CommandRunner, Confinement
from tertulia.session.settings.settings import LoadedSettings
from tertulia.session.settings.workspace import guarded_paths_of

Verdict = Literal["passed", "failed", "hung", "broke"]
"""`hung`: it did not end in time. `broke`: there is no verdict, because the program that runs checks was killed."""
_GRACE_S = 20.0
_LIMITS = CommandLimits(processes=256, memory_bytes=2 << 30, file_bytes=256 << 20, cpu_s=600, written_bytes=1 << 30)
_MAX_OUTPUT = 16 << 20
_PROGRAM = Path(check_program.__file__)


class RunFacts(msgspec.Struct, frozen=True):
    """What a check can import from `eval_run`, beside the paths `workspace` and `original`."""

    answer: str = ""
    """The last thing that the candidate said."""
    status: str = "completed"
    """How its task ended: `completed`, `failed` or `interrupted`."""
    calls: tuple[tuple[str, bool], ...] = ()
    """The tools that it called, in order, and whether each call succeeded."""
    conversations: tuple[tuple[str, str], ...] = ()
    """The conversations that it opened: title, and the last answer."""


class CheckJob(msgspec.Struct, frozen=True):
    """One check to be run: of this task, over this workspace."""

    task: Task
    workspace: Path
    facts: RunFacts


class CheckResult(msgspec.Struct, frozen=True):
    """What a check found, and the end of what it printed."""

    verdict: Verdict
    output: str = ""


class Checker:
    """Runs checks in one sandbox, several in one confined start where they come together."""

    def __init__(self, runner: CommandRunner, loaded: LoadedSettings) -> None:
        self._runner = runner
        self._masked = guarded_paths_of(loaded.settings, loaded.environment)
        self._environment = shell_environment_from_wire(loaded.settings.shell_environment).build(
            loaded.environment.variables
        )

    async def run(self, jobs: Sequence[CheckJob], root: Path) -> list[CheckResult]:
        """The results, in the order of the jobs. `root` is what may be written: it holds the workspaces.

        Raises:
            SandboxError: Nothing confines commands here; no check was run.
        """
        command = self._command(jobs, root)
        limit_s = sum(job.task.table.check_timeout_s for job in jobs) + _GRACE_S
        finished = await self._runner.run(command, timeout_s=limit_s)
        if finished.reason is not None:
            raise SandboxError(f"the check could not be run confined: {finished.reason}")
        results = _read_results(finished.output.head + finished.output.tail, len(jobs))
        if results is None:
            why = finished.limit_text() or f"ended by exit code {finished.exit_code} ({finished.ended})"
            return [CheckResult("broke", f"The check has no verdict: {why}\n{finished.output.text()[-2000:]}")] * len(
                jobs
            )
        return results

    def _command(self, jobs: Sequence[CheckJob], root: Path) -> Command:
        readable = dict.fromkeys(
            [sys.prefix, sys.base_prefix, str(_PROGRAM.parent), *(str(job.task.folder) for job in jobs)]
        )
        return Command(
            argv=(sys.executable, "-I", "-S", str(_PROGRAM)),
            cwd=str(root),
            environment={**self._environment, "PYTHONDONTWRITEBYTECODE": "1"},
            confinement=Confinement(
                mode="workspace_write",
                writable_roots=(str(root),),
                masked=self._masked.masked_paths(),
                missing_files=self._masked.missing_files(),
                readable=tuple(readable),
                protected=(),
                limits=_LIMITS,
            ),
            stdin=msgspec.json.encode([_job(job) for job in jobs]),
            kept_output_bytes=_MAX_OUTPUT,
        )


def _job(job: CheckJob) -> Mapping[str, Any]:
    task = job.task
    return {
        "check": str(task.check),
        "workspace": str(job.workspace),
        "original": str(task.repository),
        "timeout_s": task.table.check_timeout_s,
        "facts": job.facts,
    }


def _read_results(output: bytes, count: int) -> list[CheckResult] | None:
    """The last line of the program, where it is whole."""
    try:
        results = msgspec.json.decode(output.splitlines()[-1], type=list[CheckResult])
    except (IndexError, msgspec.DecodeError):
        return None
    return results if len(results) == count else None
