"""`tertulia sandbox`: runs any command confined as a conversation's commands are, and ends with its exit code."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.stop_signals import INTERRUPTED, on_stop_signal
from tertulia.events.clock import SystemClock
from tertulia.policy.display_text import printable
from tertulia.policy.shell_environment import shell_environment_from_wire
from tertulia.protocol.storage import Full
from tertulia.sandbox.confine import confine
from tertulia.sandbox.runner import Command, CommandResult, Confinement, Watch
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tertulia.session.settings.settings import LoadedSettings
from tertulia.session.settings.workspace import check_workspace, guarded_paths_of

if TYPE_CHECKING:
    from tertulia.sandbox.proxy.gate import Access
    from tertulia.sandbox.proxy.rules_gate import RulesGate

_MORE = """
\b
Examples:
  tertulia sandbox -- make test
  tertulia sandbox -s read-only -- git log
  tertulia -C ~/project sandbox -- python setup.py build

\b
Exit codes:
  that of the command, or
  1    there is no working sandbox here
  2    usage or configuration
  126  the command cannot be executed
  127  there is no such command
"""

NOT_EXECUTABLE = 126
NO_SUCH_PROGRAM = 127


@click.command("sandbox", epilog=_MORE, context_settings={"ignore_unknown_options": True})
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, argv: Sequence[str]) -> int:
    """Run any command in the sandbox that an agent's commands get.

    It may write to the working directory (-C) and what --add-dir names, and reach the network only where the setting
    `network` allows it. -s chooses how far it is confined.
    """
    loaded = flags.load()
    check_workspace(loaded.settings, loaded.environment)
    return asyncio.run(_run(_command(loaded, argv), loaded))


def _command(loaded: LoadedSettings, argv: Sequence[str]) -> Command:
    settings, environment = loaded.settings, loaded.environment
    workspace = str(settings.cwd)
    confinement = confine(settings.rights, workspace, guarded=guarded_paths_of(settings, environment))
    return Command(
        argv=tuple(argv),
        cwd=workspace,
        confinement=confinement,
        gate=_gate(confinement),
        environment=shell_environment_from_wire(settings.shell_environment).build(environment.variables),
        inherit_stdio=True,
        watch=Watch(str(environment.home / "changed-files") if settings.rights.storage_policy == Full() else None),
    )


def _gate(confinement: Confinement) -> RulesGate | None:
    """By the list alone: a command of the person's own asks no one."""
    rules = confinement.network
    if isinstance(rules, bool):
        return None
    # Here and not above: most users have no list.
    from tertulia.sandbox.proxy.rules_gate import RulesGate

    return RulesGate(rules, Nursery().start, on_access=_tell_access)


def _tell_access(access: Access) -> None:
    if access.verdict != "allowed":
        _tell(access.because)


async def _run(command: Command, loaded: LoadedSettings) -> int:
    tier = loaded.settings.sandbox_tier
    sandbox = Sandbox(tier=tier, clock=SystemClock(), on_lesser=_tell)
    stopped: list[bool] = []
    try:
        running = await sandbox.start(command)
        with on_stop_signal(lambda: (stopped.append(True), running.strike())):
            finished = await running.wait()
    finally:
        await sandbox.close()
    assert finished is not None
    if (changes := finished.changes_text()) is not None:
        _tell(changes)
        if (undo := finished.undo_text()) is not None:
            _tell(undo)
    if stopped:
        return INTERRUPTED
    code = _exit_code(finished, command)
    if code and command.confinement.mode != "danger_full_access":
        # Its output went to the terminal: only its arguments are known here.
        hint = guarded_paths_of(loaded.settings, loaded.environment).hint(command.argv, "")
        if hint is not None:
            _tell(hint)
    return code


def _tell(sentence: str) -> None:
    """Print a sentence, made safe: it may contain file names that the command chose."""
    click.echo(printable(f"tertulia: {sentence}"), err=True)


def _exit_code(finished: CommandResult, command: Command) -> int:
    program = command.argv[0]
    if finished.reason is not None and shutil.which(program, path=command.environment.get("PATH")) is None:
        # Where the output is not ours to read, the tier cannot tell this from a sandbox that failed.
        is_there = "/" in program and Path(command.cwd, program).exists()
        return NOT_EXECUTABLE if is_there else NO_SUCH_PROGRAM
    if finished.limit is not None:
        _tell(f"the command seems to have met its limit {finished.limit}")
    if finished.reason is not None:
        _tell(f"the command was not run: {finished.reason}")
    return finished.exit_code
