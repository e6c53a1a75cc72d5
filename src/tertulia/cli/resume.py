"""`tertulia resume`: a stored session goes on, line by line; or is watched, while another process has it."""

from __future__ import annotations

import asyncio
import sys

import click

from tertulia.cli.exec.text_output import TextView
from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.columns import format_count
from tertulia.cli.output.conversation_tree import conversation_rows, write_tree
from tertulia.cli.output.terminal import TerminalOutput, shorten
from tertulia.cli.session_lookup import ResumeRequest, find_stored_session, with_session_argument
from tertulia.cli.sessions.line_mode import Keyboard, LineMode
from tertulia.cli.sessions.replay_player import play_record
from tertulia.cli.sessions.transcript import Transcript
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia resume --last
  tertulia resume 3f2a -m openai/gpt-5.2
  tertulia resume 3f2a --follow
  tertulia exec resume 3f2a "And now the tests"

\b
Exit codes:
  0    left with Ctrl-D, or shown
  1    it cannot be read, or another process has it: watch that one with --follow
  2    usage or configuration
  130  stopped
"""
_MESSAGES = 6
INTERRUPTED = 130


@click.command("resume", epilog=_MORE)
@with_session_argument
@click.option("--follow", is_flag=True, help="Only watch: what there is, and what its owner adds until he is done.")
@global_flags
@click.pass_obj
def command(given: GlobalFlags, *, which: str | None, last: bool, follow: bool) -> int:
    """Go on with a stored session, or watch one that is in use.

    Shows what came back and what did not, then sends what you type to the root conversation. Nothing runs by itself:
    what was under way when its process died is closed, and said. Ctrl-C stops an answer, Ctrl-D leaves. Where standard
    input is no terminal it shows the session and ends.
    """
    loaded = given.load()
    session_id = find_stored_session(loaded.environment.home, which, last=last)
    if follow:
        return _follow(loaded, session_id)
    return asyncio.run(_go_on(ResumeRequest.of(given, loaded, session_id), loaded))


def _follow(loaded: LoadedSettings, session_id: str) -> int:
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    TerminalOutput(sys.stderr, loaded.environment.variables).line(
        ("watching", "dim"), f" {session_id}, until its owner is done or you press Ctrl-C"
    )
    transcript = Transcript(out)
    ended = asyncio.run(play_record(loaded.environment.home, session_id, transcript.take, follow=True))
    transcript.finish()
    return 0 if ended else INTERRUPTED


async def _go_on(resume_request: ResumeRequest, loaded: LoadedSettings) -> int:
    out, notes = (TerminalOutput(stream, loaded.environment.variables) for stream in (sys.stdout, sys.stderr))
    view = TextView(out, notes, loaded.warnings)
    keyboard = Keyboard(sys.stdin.fileno()) if sys.stdin is not None and sys.stdin.isatty() else None
    async with resume_request.session() as session, asyncio.TaskGroup() as group:
        lines = LineMode(session, view, out)
        group.create_task(lines.watch())
        await lines.caught_up(session.parts.bus.last_seq)
        await _show(out, session)
        code = 0
        if keyboard is not None:
            out.line(("Ctrl-C stops an answer, Ctrl-D leaves.", "dim"))
            code = await lines.conversation(keyboard)
        await session.close()
    return code


async def _show(out: TerminalOutput, session: Session) -> None:
    out.line((session.id, "bold"), (f"  {session.info.model}", "dim"))
    write_tree(out, conversation_rows([conversation.info for conversation in session.conversations()]))
    said = await session.root.history()
    out.line()
    if len(said) > _MESSAGES:
        out.line((f"after {format_count(len(said) - _MESSAGES, 'earlier message')} of root:", "dim"))
    for entry in said[-_MESSAGES:]:
        text = shorten(entry.text or "(pictures)", 1_000)
        if entry.role == "user":
            out.line(("you ", "bold"), text)
        else:
            out.line(text)
    if said:
        out.line()
