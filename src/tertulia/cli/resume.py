"""`tertulia resume`: continues a stored session line by line, or watches one that another process has.

A plain line mode, not a terminal UI: no windows, and the kernel edits the line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import click

from tertulia.cli.exec.run_message import MessageOutcome, MessageView
from tertulia.cli.exec.text_output import TextView
from tertulia.cli.global_flags import GlobalFlags, global_flags
from tertulia.cli.output.tables import conversation_rows, format_count, write_tree
from tertulia.cli.output.terminal import TerminalOutput, shorten
from tertulia.cli.session_lookup import ResumeRequest, find_stored_session, with_session_argument
from tertulia.cli.sessions.replay import Transcript, play_record
from tertulia.cli.stop_signals import INTERRUPTED
from tertulia.errors import TertuliaError
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.reply import Reply
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
_Signal = Literal["stop", "end"]
_HINT = "Ctrl-D leaves; Ctrl-C once more does, too"


@click.command("resume", epilog=_MORE)
@with_session_argument
@click.option("--follow", is_flag=True, help="Only watch: what is stored, and what its owner adds until it ends.")
@global_flags
@click.pass_obj
def command(flags: GlobalFlags, *, which: str | None, last: bool, follow: bool) -> int:
    """Continue a stored session, or watch one that is in use.

    Shows what was restored and what was not, then sends what you type to the root conversation. Nothing runs by itself:
    a task that ran when its process died is closed, which is shown. Ctrl-C stops an answer, Ctrl-D leaves. Where
    standard input is no terminal it shows the session and ends.
    """
    loaded = flags.load()
    session_id = find_stored_session(loaded.environment.home, which, last=last)
    if follow:
        return _follow(loaded, session_id)
    return asyncio.run(_go_on(ResumeRequest.of(flags, loaded, session_id), loaded))


def _follow(loaded: LoadedSettings, session_id: str) -> int:
    out = TerminalOutput(sys.stdout, loaded.environment.variables)
    TerminalOutput(sys.stderr, loaded.environment.variables).line(
        ("watching", "dim"), f" {session_id} until its owner closes it, or Ctrl-C"
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
        await lines.caught_up(session.activity.last_seq)
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


class Keyboard:
    """Lines of a terminal, and the signals that its keys send. Reads only while `line` is awaited."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._typed = b""
        self._ended = False
        self._signalled: asyncio.Future[_Signal] | None = None

    @contextmanager
    def listening(self) -> Generator[None]:
        """Take signals: SIGINT as `stop`, SIGTERM and a closed terminal as `end`."""
        loop = asyncio.get_running_loop()
        meanings: dict[signal.Signals, _Signal] = {
            signal.SIGINT: "stop",
            signal.SIGTERM: "end",
            signal.SIGHUP: "end",
        }
        for number, meaning in meanings.items():
            loop.add_signal_handler(number, self._signal, meaning)
        try:
            yield
        finally:
            for number in meanings:
                loop.remove_signal_handler(number)

    def signalled(self) -> asyncio.Future[_Signal]:
        """A future that is done at the next signal."""
        if self._signalled is None or self._signalled.done():
            self._signalled = asyncio.get_running_loop().create_future()
        return self._signalled

    async def line(self) -> str | _Signal | None:
        """The next line, with its line feed; None at the end of input; or the meaning of a signal."""
        while b"\n" not in self._typed and not self._ended:
            signalled, ready = self.signalled(), asyncio.get_running_loop().create_future()
            loop = asyncio.get_running_loop()
            loop.add_reader(self._fd, lambda ready=ready: None if ready.done() else ready.set_result(None))
            try:
                await asyncio.wait((signalled, ready), return_when=asyncio.FIRST_COMPLETED)
            finally:
                loop.remove_reader(self._fd)
            if signalled.done():
                return signalled.result()
            self._read()
        line, newline, self._typed = self._typed.partition(b"\n")
        return f"{line.decode('utf-8', 'replace')}\n" if newline or line else None

    def _read(self) -> None:
        try:
            typed = os.read(self._fd, 65_536)
        except OSError:
            # The terminal is gone.
            typed = b""
        self._ended = not typed
        self._typed += typed

    def _signal(self, meaning: _Signal) -> None:
        signalled = self.signalled()
        if not signalled.done():
            signalled.set_result(meaning)


class LineMode:
    """Reads lines, sends each to the root conversation, and shows the answers."""

    def __init__(self, session: Session, view: MessageView, out: TerminalOutput) -> None:
        self._session = session
        self._view = view
        self._out = out
        self._nursery = Nursery()
        self._shown = session.activity.began_after
        self._news = asyncio.Event()

    async def watch(self) -> None:
        """Show every event since the session was resumed, until it closes."""
        async for event in self._session.events(after=self._shown):
            self._view.show(event)
            if event.seq is not None:
                self._shown = event.seq
                self._news.set()

    async def caught_up(self, seq: int) -> None:
        """Wait until this event was shown."""
        while self._shown < seq:
            self._news.clear()
            await self._news.wait()

    async def conversation(self, keyboard: Keyboard) -> int:
        """Read lines and send them, until the user leaves; returns the exit code."""
        warned = False
        with keyboard.listening():
            while True:
                self._out.write(("› ", "bold"))
                match await keyboard.line():
                    case None:
                        self._out.line()
                        return 0
                    case "stop" if not warned:
                        self._out.line()
                        self._out.line((_HINT, "dim"))
                        warned = True
                    case "stop" | "end":
                        self._out.line()
                        return INTERRUPTED
                    case line:
                        warned = False
                        if line.strip() and not await self._ask(line.strip(), keyboard):
                            return INTERRUPTED

    async def _ask(self, text: str, keyboard: Keyboard) -> bool:
        """Send a message and show its answer; False if the program has to end."""
        asking = self._nursery.start(self._session.root.message(text), "message")
        going_on = True
        while not asking.done():
            signalled = keyboard.signalled()
            await asyncio.wait((asking, signalled), return_when=asyncio.FIRST_COMPLETED)
            if signalled.done():
                going_on = going_on and signalled.result() == "stop"
                await self._session.root.interrupt()
        await self._show_end(asking)
        self._out.line()
        return going_on

    async def _show_end(self, asking: asyncio.Task[Reply]) -> None:
        try:
            reply = asking.result()
        except TertuliaError as error:
            self._out.line(("refused", "red"), f" {error.message}")
            return
        await self.caught_up(reply.last_seq)
        self._view.end(MessageOutcome(reply.status, reply))
