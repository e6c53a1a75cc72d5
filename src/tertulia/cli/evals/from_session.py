"""`tertulia eval from-session`: makes a task of a stored session."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import click

from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.tables import format_count
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.session_lookup import SHOWN_ID, find_stored_session, with_session_argument
from tertulia.evals.recorded.first_files import find_first_files
from tertulia.evals.recorded.session_task import SessionTask, make_session_task
from tertulia.evals.recorded.stored_session import RepeatableSession, read_session
from tertulia.protocol.storage import Full, storage_to_wire

_MORE = """
\b
Examples:
  tertulia eval from-session --last
  tertulia eval from-session 3f2a --into my-suite --name mend-parser
  tertulia eval from-session 3f2a --files ~/project-as-it-was
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHOWN = 10


@click.command("from-session", epilog=_MORE)
@with_session_argument
@click.option(
    "suite", "--into", metavar="SUITE", type=click.Path(path_type=Path), default=Path("my-evals"), help="[my-evals]"
)
@click.option("--name", metavar="NAME", help="The name of the task. [session-ID]")
@click.option(
    "own_files",
    "--files",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="These files, not those of its first checkpoint.",
)
@global_flags
@click.pass_obj
def command(
    flags: GlobalFlags, *, which: str | None, last: bool, suite: Path, name: str | None, own_files: Path | None
) -> int:
    """Make a task of a stored session, with a check to be filled in.

    The task has the files that the session began with, from its first checkpoint, and the messages of its user. What
    the session made of them is the reference solution. Say in check/check.py what must hold; `tertulia eval check`
    tries it out, and refuses it until then.
    """
    loaded = flags.load()
    variables, home = loaded.environment.variables, loaded.environment.home
    session = read_session(home, find_stored_session(loaded, which, last=last))
    name = name or f"session-{session.id[:SHOWN_ID]}"
    if not _NAME.fullmatch(name):
        raise click.BadParameter("must be letters, digits, `.`, `_` and `-`, at most 100", param_hint="--name")
    files = own_files.resolve() if own_files is not None else find_first_files(home, session)
    made = asyncio.run(make_session_task(session, files, suite.absolute() / name, variables))
    out, notes = (TerminalOutput(stream, variables) for stream in (sys.stdout, sys.stderr))
    _show(out, notes, session, made)
    return 0


def _show(out: TerminalOutput, notes: TerminalOutput, session: RepeatableSession, made: SessionTask) -> None:
    task = made.task
    out.line(f"{task.folder}: {format_count(len(session.messages), 'message')}, as a task")
    out.line(f"fill in {task.check}, then: tertulia eval check {task.folder}")
    if made.left_out:
        shown = ", ".join(made.left_out[:_SHOWN]) + (", …" if len(made.left_out) > _SHOWN else "")
        notes.line(("note", "yellow"), f" not in it: {shown}")
    if made.pictures:
        notes.line(("note", "yellow"), f" {format_count(made.pictures, 'picture')} of its messages are not in it")
    if session.storage != Full():
        policy = storage_to_wire(session.storage)
        notes.line(("note", "yellow"), f" storage_policy {policy!r} does not hold for the task: remove it yourself")
