"""`tertulia agents`: which other agents can work for a conversation, and whether one does."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Mapping

import click
import msgspec

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.columns import write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput, json_line
from tertulia.events.journal import NoJournal
from tertulia.executors.acp.presets import UNTESTED, acp_agents_from_wire
from tertulia.executors.command.definition import ExecutorDefinition
from tertulia.executors.command.presets import executors_from_wire
from tertulia.scheduler.reply import Reply
from tertulia.session.agents.backends import child_environment
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

_MORE = """
\b
Examples:
  tertulia agents ls
  tertulia agents test codex
  tertulia exec --backend codex "Fix the failing test"
"""
_MORE_LS = """
\b
Examples:
  tertulia agents ls
  tertulia agents ls --json
"""
_MORE_TEST = """
\b
Examples:
  tertulia agents test codex
  tertulia agents test -s read-only claude "Which files are here?"
  tertulia agents test acp:codex

\b
Exit codes:
  0  it answers
  1  it does not
  2  usage or configuration
"""
_GREET = "Say hello in one short sentence."
_VERSION_TIMEOUT_S = 20.0
_SHOWN = 60


class InstalledAgent(msgspec.Struct, frozen=True):
    """One agent, as far as this machine has it."""

    backend: str
    program: str | None
    """Where it is; None where it is not installed."""
    version: str | None
    install: str | None
    """How to get it, where that is known."""
    tested: bool
    """Whether we have ever seen it at work; of the user's own we cannot know."""


@click.group("agents", invoke_without_command=True, epilog=_MORE)
@global_flags
@click.pass_context
def command(context: click.Context) -> None:
    """List other agents that can work for a conversation, and try one out."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@command.command("ls", epilog=_MORE_LS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@global_flags
@click.pass_obj
def ls(given: GlobalFlags, *, as_json: bool) -> int:
    """Show which agents there are, which of them are installed, and how to get the others.

    Each program is asked for its version, and for nothing else.
    """
    loaded = given.load()
    variables = loaded.environment.variables
    known = executors_from_wire(loaded.settings.executors)
    known |= {name: each.program for name, each in acp_agents_from_wire(loaded.settings.acp).items()}
    found = [find_agent(name, each, variables) for name, each in known.items()]
    if as_json:
        click.echo(json_line(found), nl=False)
        return 0
    rows = [_row(each) for each in found]
    write_columns(TerminalOutput(sys.stdout, variables), ("BACKEND", "VERSION", "PROGRAM"), rows)
    return 0


@command.command("test", epilog=_MORE_TEST)
@click.argument("backend")
@click.argument("prompt", default=_GREET)
@global_flags
@click.pass_obj
def try_out(given: GlobalFlags, *, backend: str, prompt: str) -> int:
    """Give the agent BACKEND one prompt, and show what it answers. Of the task no record is kept."""
    loaded = given.load()
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


def find_agent(name: str, definition: ExecutorDefinition, variables: Mapping[str, str]) -> InstalledAgent:
    """Whether its program is there, and what that says it is."""
    environment = child_environment(definition, variables)
    program = shutil.which(definition.command[0], path=environment.get("PATH"))
    version = None if program is None else _version([program, *definition.version], environment)
    return InstalledAgent(name, program, version, definition.install or None, name not in UNTESTED)


def _version(argv: list[str], environment: Mapping[str, str]) -> str | None:
    try:
        asked = subprocess.run(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = asked.stdout.decode("utf-8", "replace").split("\n")
    return lines[0].strip()[:_SHOWN] or None


def _row(found: InstalledAgent) -> tuple[StyledText, StyledText, StyledText]:
    doubt = "" if found.tested else "; untested"
    if found.program is None:
        way = f"not installed; get it with `{found.install}`" if found.install else "not installed"
        return found.backend, "-", (way + doubt, "dim")
    return found.backend, found.version or "?", found.program + doubt


async def _try(settings: Settings, backend: str, prompt: str) -> Reply:
    async with Session.start(settings, journal=NoJournal()) as session:
        conversation = await session.open(backend=backend)
        return await conversation.message(prompt)
