"""`tertulia executors`: lists other programs that can do a conversation's work, and tries one out."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping

import click
import msgspec

from tertulia.cli.global_flags import GlobalFlags, global_flags, verb_group
from tertulia.cli.output.tables import write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput, json_line
from tertulia.events.journal import NoJournal
from tertulia.executors.acp.presets import UNTESTED, acp_agents_from_wire
from tertulia.executors.command.definition import ExecutorDefinition, executors_from_wire
from tertulia.scheduler.reply import Reply
from tertulia.session.agents.backends import child_environment
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

_MORE = """
\b
Examples:
  tertulia executors ls
  tertulia executors test codex
  tertulia exec --backend codex "Fix the failing test"
"""
_MORE_LS = """
\b
Examples:
  tertulia executors ls
  tertulia executors ls --json
"""
_MORE_TEST = """
\b
Examples:
  tertulia executors test codex
  tertulia executors test -s read-only claude "Which files are here?"
  tertulia executors test acp:codex

\b
Exit codes:
  0  it answers
  1  it does not
  2  usage or configuration
"""
_GREET = "Say hello in one short sentence."
_VERSION_TIMEOUT_S = 20.0
_SHOWN = 60
_VERSION = re.compile(r"\d+(?:\.\d+)+")


class InstalledExecutor(msgspec.Struct, frozen=True):
    """One executor, and whether it is installed on this machine."""

    backend: str
    program: str | None
    """The path of its program; None where it is not installed."""
    version: str | None
    install: str | None
    """The command that installs it, where that is known."""
    tested: bool
    """False for presets that were never run in tests."""
    proved: str | None = None
    """The version with which it was seen to work; None where none is known."""

    @property
    def differs(self) -> bool:
        """Whether the installed version is not the one that was proved."""
        if self.version is None or self.proved is None:
            return False
        return self.proved not in _VERSION.findall(self.version)


command = verb_group(
    "executors", "List executors, other programs that can do a conversation's work, and try one out.", _MORE
)


@command.command("ls", epilog=_MORE_LS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@global_flags
@click.pass_obj
def ls(flags: GlobalFlags, *, as_json: bool) -> int:
    """Show the known executors, which of them are installed, and how to install the others.

    Each program is only asked for its version.
    """
    loaded = flags.load()
    variables = loaded.environment.variables
    definitions = executors_from_wire(loaded.settings.executors)
    definitions |= {name: acp.program for name, acp in acp_agents_from_wire(loaded.settings.acp).items()}
    found = [find_executor(name, definition, variables) for name, definition in definitions.items()]
    if as_json:
        click.echo(json_line(found), nl=False)
        return 0
    rows = [_row(executor) for executor in found]
    write_columns(TerminalOutput(sys.stdout, variables), ("BACKEND", "VERSION", "PROGRAM"), rows)
    return 0


@command.command("test", epilog=_MORE_TEST)
@click.argument("backend")
@click.argument("prompt", default=_GREET)
@global_flags
@click.pass_obj
def try_out(flags: GlobalFlags, *, backend: str, prompt: str) -> int:
    """Give the executor BACKEND one prompt and show its answer. Nothing is stored."""
    loaded = flags.load()
    variables = loaded.environment.variables
    reply = asyncio.run(_try(loaded.settings, backend, prompt))
    if reply.error is not None:
        TerminalOutput(sys.stderr, variables).line((f"{backend} does not work: ", "bold"), reply.error.message)
        return 1
    out, used = TerminalOutput(sys.stdout, variables), reply.usage
    out.line(reply.text or "")
    tokens = f"{used.input_tokens} tokens in, {used.output_tokens} out"
    out.line((f"{backend} works: {reply.duration:.1f} s, {tokens}", "dim"))
    return 0


def find_executor(name: str, definition: ExecutorDefinition, variables: Mapping[str, str]) -> InstalledExecutor:
    """Look for an executor's program and ask it for its version."""
    environment = child_environment(definition, variables)
    program = shutil.which(definition.command[0], path=environment.get("PATH"))
    version = None if program is None else _version([program, *definition.version], environment)
    return InstalledExecutor(
        name, program, version, definition.install or None, name not in UNTESTED, definition.proved or None
    )


def _version(argv: list[str], environment: Mapping[str, str]) -> str | None:
    try:
        finished = subprocess.run(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = finished.stdout.decode("utf-8", "replace").split("\n")
    return lines[0].strip()[:_SHOWN] or None


def _row(executor: InstalledExecutor) -> tuple[StyledText, StyledText, StyledText]:
    doubt = "" if executor.tested else "; untested"
    if executor.differs:
        doubt = f"; proved with {executor.proved}"
    if executor.program is None:
        way = f"not installed; get it with `{executor.install}`" if executor.install else "not installed"
        return executor.backend, "-", (way + doubt, "dim")
    return executor.backend, executor.version or "?", executor.program + doubt


async def _try(settings: Settings, backend: str, prompt: str) -> Reply:
    async with Session.start(settings, journal=NoJournal()) as session:
        conversation = await session.open(backend=backend)
        return await conversation.message(prompt)
