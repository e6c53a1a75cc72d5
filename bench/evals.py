"""What the harness of evals adds to a run, and what trying out the checks of our suite takes.

CPU time is that of our own process: what runs confined is the candidate's work and the check's.

A run is a copy of the repository, a session with its record, one command and one check, both confined; the model is a
script. It is set against the same session without the rest.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
from pathlib import Path

from tertulia.evals.candidate import EvalCandidate
from tertulia.evals.checking import Checker
from tertulia.evals.run import EvalRunner, RunPlan
from tertulia.evals.selftest import check_suite
from tertulia.evals.suite import Suite, load_suite
from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings, Settings, load_settings
from tertulia.testing import ScriptedModel

ROUNDS = 20
OWN_SUITE = Path(__file__).parents[1] / "evals"
Rows = list[tuple[str, float, str, str]]


def run() -> Rows:
    """Measure; each result is (name, value, unit, target)."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        home = Path(name)
        loaded = load_settings(cwd=home, environ={"HOME": name, "PATH": "/usr/bin:/bin"})
        return asyncio.run(_measure(loaded, load_suite(OWN_SUITE)))


async def _measure(loaded: LoadedSettings, suite: Suite) -> Rows:
    sandbox = Sandbox(tier="auto", clock=SystemClock())
    try:
        await sandbox.check()
        checker = Checker(sandbox, loaded)
        before = _cpu_s()
        await check_suite(suite, checker, loaded.environment.variables)
        checks_s = _cpu_s() - before
        runs_ms = await _runs_ms(loaded, suite, checker)
        sessions_ms = await _sessions_ms(loaded)
    finally:
        await sandbox.close()
    return [
        (f"try out {len(suite.tasks)} checks, CPU", checks_s, "s", "<= 1"),
        ("a run with its check, CPU", runs_ms, "ms", ""),
        ("the same session alone, CPU", sessions_ms, "ms", ""),
        ("what the harness adds to a run, CPU", runs_ms - sessions_ms, "ms", "<= 30"),
    ]


async def _runs_ms(loaded: LoadedSettings, suite: Suite, checker: Checker) -> float:
    runner = EvalRunner(
        lambda candidate, cwd: _settings(loaded),
        checker,
        masked=(suite.folder,),
        variables=loaded.environment.variables,
        clock=SystemClock(),
    )
    plan = RunPlan(suite.tasks[0], EvalCandidate("scripted"), "", 1)
    await runner.run(plan)
    before = _cpu_s()
    for _ in range(ROUNDS):
        await runner.run(plan)
    return 1000 * (_cpu_s() - before) / ROUNDS


async def _sessions_ms(loaded: LoadedSettings) -> float:
    before = _cpu_s()
    for _ in range(ROUNDS):
        async with Session(_settings(loaded)) as session:
            await session.root.message("Do it.")
    return 1000 * (_cpu_s() - before) / ROUNDS


def _settings(loaded: LoadedSettings) -> Settings:
    return Settings(model=ScriptedModel(["Done."]), cwd=loaded.settings.cwd, storage_policy="none")


def _cpu_s() -> float:
    """Of this process alone."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
