"""`tertulia eval check`: tries out the checks of a suite, confined, without any model."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.tables import write_columns
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.evals.checking import Checker
from tertulia.evals.selftest import CheckReport, check_suite
from tertulia.evals.suite import Suite, load_suite
from tertulia.events.clock import SystemClock
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia eval check
  tertulia eval check my-suite
  tertulia eval check my-suite --only 'fix-*'
"""


@click.command("check", epilog=_MORE)
@click.argument("suite", default="evals", metavar="[SUITE]")
@click.option("--only", metavar="TASK|KIND", multiple=True, help="Only these tasks; repeatable.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, suite: str, only: Sequence[str]) -> int:
    """Try out the checks of a suite: each must be able to fail and to pass.

    A check must fail on the untouched repository with an empty answer, and pass with the reference solution of its
    task. Both are run in the sandbox. The exit code is 1 when a check is not sound.
    """
    loaded_suite, loaded = load_suite(Path(suite), only), flags.load()
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    reports = asyncio.run(_check(loaded_suite, loaded))
    unsound = [report for report in reports if report.soundness != "sound"]
    if unsound:
        write_columns(out, ("TASK", "CHECK"), [[report.task, (report.soundness, "red")] for report in unsound])
        for report in unsound:
            out.line((f"\n{report.task}: {report.soundness}", "bold"))
            out.line(report.output.strip() or "It printed nothing.")
        out.line()
    out.line(f"{len(reports) - len(unsound)} of {len(reports)} checks are sound")
    return 1 if unsound else 0


async def _check(suite: Suite, loaded: LoadedSettings) -> list[CheckReport]:
    sandbox = Sandbox(tier=loaded.settings.sandbox_tier, clock=SystemClock())
    try:
        return await check_suite(suite, Checker(sandbox, loaded), loaded.environment.variables)
    finally:
        await sandbox.close()
