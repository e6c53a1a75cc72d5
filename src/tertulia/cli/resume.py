"""`tertulia resume`: continues a stored session, or watches one that another process has.

On the screen, or line by line: then the conversation itself is held by `chat`.
"""

from __future__ import annotations

import asyncio
import sys

import click

from tertulia.cli.chat import run_chat
from tertulia.cli.exec.text_output import TextView, session_header
from tertulia.cli.global_flags import GlobalFlags, global_flags, plain_flag
from tertulia.cli.open_terminal import draws_screen, open_stored
from tertulia.cli.output.tables import conversation_rows, format_count, write_tree
from tertulia.cli.output.terminal import TerminalOutput, shorten
from tertulia.cli.session_lookup import (
    ResumeRequest,
    continue_flag,
    find_stored_session,
    restart_events,
    with_session_argument,
)
from tertulia.cli.sessions.replay import PrintedTranscript, play_record
from tertulia.cli.stop_signals import INTERRUPTED
from tertulia.session.members import require_sandbox
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings

_MORE = """
\b
Examples:
  tertulia resume
  tertulia resume --last
  tertulia resume 3f2a -m openai/gpt-5.2
  tertulia resume 3f2a --follow
  tertulia resume 3f2a --continue
  tertulia exec resume 3f2a "And now the tests"

\b
Exit codes:
  0    left with Ctrl-D, or shown
  1    it cannot be read, or another process has it: watch that one with --follow
  2    usage or configuration
  130  stopped
"""
_MESSAGES = 6


@click.command("resume", epilog=_MORE)
@with_session_argument
@click.option("--follow", is_flag=True, help="Only watch: what is stored, and what its owner adds until it ends.")
@continue_flag
@plain_flag
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, which: str | None, last: bool, follow: bool, continues: bool) -> int:
    """Continue a stored session, or watch one that is in use.

    Without an ID it lists the stored sessions to choose from. With --plain it shows what was restored and what was not,
    then sends what you type to the root conversation. Nothing runs by itself: a task that ran when its process died is
    closed, which is shown; with --continue it goes on, where its conversation asks for that. Where standard input is no
    terminal it shows the session, waits for what goes on, and ends.
    """
    if follow and continues:
        raise click.UsageError("--follow only watches: --continue does not go with it")
    if which is None and not last and not follow and draws_screen(flags):
        return open_stored(flags, None, continues=continues)
    loaded = flags.load()
    session_id = find_stored_session(loaded, which, last=last)
    if follow:
        return _follow(loaded, session_id)
    resume_request = ResumeRequest.of(flags, loaded, session_id, continues=continues)
    if sys.stdin is None or not sys.stdin.isatty():
        return asyncio.run(_show_only(resume_request, loaded))
    if draws_screen(flags):
        return open_stored(flags, session_id, continues=continues)
    require_sandbox(resume_request.settings)
    return run_chat(resume_request.session(), loaded, _greet)


def _follow(loaded: LoadedSettings, session_id: str) -> int:
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    TerminalOutput(sys.stderr, loaded.environment.variables).line(
        ("watching", "dim"), f" {session_id} until its owner closes it, or Ctrl-C"
    )
    transcript = PrintedTranscript(out)
    ended = asyncio.run(play_record(loaded.environment.home, session_id, transcript.take, follow=True))
    transcript.finish()
    return 0 if ended else INTERRUPTED


async def _greet(session: Session, out: TerminalOutput) -> None:
    out.line((session_header(session), "dim"))
    await _show(session, out)
    out.line(("/help shows what can be typed; Ctrl-C stops an answer, Ctrl-D leaves.", "dim"))


async def _show_only(resume_request: ResumeRequest, loaded: LoadedSettings) -> int:
    out, notes = (TerminalOutput(stream, loaded.environment.variables) for stream in (sys.stdout, sys.stderr))
    view = TextView(out, notes, loaded.warnings)
    async with resume_request.session() as session:
        async for event in restart_events(session):
            view.show(event)
        notes.line((session_header(session), "dim"))
        out.line((session.id, "bold"), (f"  {session.info.model}", "dim"))
        await _show(session, out)
        return await _finish(session, view, out)


async def _finish(session: Session, view: TextView, out: TerminalOutput) -> int:
    """Show what goes on until it is over, and the answers; the exit code."""
    events = session.events()
    going_on = session.activity.go_on()
    if not going_on:
        return 0
    replies = asyncio.gather(*(submission.reply() for submission in going_on))
    replies.add_done_callback(lambda _: events.finish())
    async for event in events:
        view.show(event)
    for reply in await replies:
        out.line(reply.text or "")
    return 0 if all(reply.status == "completed" for reply in await replies) else 1


async def _show(session: Session, out: TerminalOutput) -> None:
    write_tree(out, conversation_rows([conversation.info for conversation in session.conversations()]))
    entries = await session.root.history()
    out.line()
    if len(entries) > _MESSAGES:
        out.line((f"after {format_count(len(entries) - _MESSAGES, 'earlier message')} of root:", "dim"))
    for entry in entries[-_MESSAGES:]:
        text = shorten(entry.text or "(pictures)", 1_000)
        if entry.role == "user":
            out.line(("you ", "bold"), text)
        else:
            out.line(text)
    if entries:
        out.line()
