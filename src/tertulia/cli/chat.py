"""The plain terminal: a session line by line, for `tertulia --plain`, and where there is no screen to draw on.

Lines are only ever appended. The session runs in a thread of its own; the main thread has the keyboard, because only
there the standard library's readline edits lines and Ctrl-C reaches it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from tertulia.cli.exec.run_message import MessageOutcome
from tertulia.cli.exec.terminal_approver import TerminalInput
from tertulia.cli.exec.text_output import session_header
from tertulia.cli.line_history import LineHistory
from tertulia.cli.output.tables import format_count
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.plain.approver import NumberedApprover
from tertulia.cli.plain.commands import LEAVING, PlainCommands
from tertulia.cli.plain.lines import PlainLines, end_lines
from tertulia.cli.stop_signals import INTERRUPTED
from tertulia.errors import TertuliaError
from tertulia.protocol.events import Event
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.session.host import Host
from tertulia.session.members import require_model, require_sandbox
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings
from tertulia.terminal.local_port import LocalPort

_PROMPT = "› "
_LEAVING = "Ctrl-D or /exit leaves; Ctrl-C once more does, too"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNAL_AGAIN_S = 0.1
T = TypeVar("T")


class _LeaveSignal(BaseException):
    """SIGTERM, or the terminal is gone. Not an Exception: nothing on the way may catch it."""


def run_chat(
    entering: AbstractAsyncContextManager[Session],
    loaded: LoadedSettings,
    greet: Callable[[Session, TerminalOutput], Coroutine[Any, Any, None]],
) -> int:
    """Hold a conversation with the root of a session until the person leaves; returns the exit code.

    Args:
        entering: The session, closed at the end.
        loaded: The settings, for colours, warnings, and whether lines may be stored.
        greet: Shows what the session is, before the first line is read.
    """
    variables = loaded.environment.variables
    out = TerminalOutput(sys.stdout, variables)
    for warning in loaded.warnings:
        out.line(("warning: ", "yellow"), warning)
    session = _SessionThread(entering, out)
    try:
        with _Signals(), session:
            session.call(greet(session.entered, out))
            # Readline draws the line that is typed anew; a screen reader would read it anew.
            history = LineHistory.of(loaded) if edits_lines(variables) else None
            try:
                return _Chat(session, out).run()
            finally:
                if history is not None:
                    history.save()
    except _LeaveSignal:
        out.line()
        return INTERRUPTED


def edits_lines(variables: Mapping[str, str]) -> bool:
    """Whether the line that a person types may be drawn anew while they type it."""
    return not variables.get("ACCESSIBLE") and variables.get("TERM") not in (None, "", "dumb")


class _Signals:
    """Raises KeyboardInterrupt at SIGINT and, once, `_LeaveSignal` at SIGTERM or when the terminal is gone.

    In the main thread, also while readline waits for a key: a signal that comes just before it waits does not wake it,
    so a thread sends one again until it was taken.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._closing = threading.Event()
        self._taken = 0
        self._left = False

    def __enter__(self) -> None:
        for number in (self._reading, self._writing):
            os.set_blocking(number, number == self._reading)
        self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(target=self._send_again, name="signals", daemon=True).start()

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._writing)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: object) -> None:
        self._taken += 1
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self._left:
            self._left = True
            raise _LeaveSignal

    def _send_again(self) -> None:
        main, seen, echoes = threading.main_thread().ident or 0, 0, 0
        while number := os.read(self._reading, 1):
            if echoes:
                # What is sent again is written here too.
                echoes -= 1
                continue
            while not self._closing.wait(_SIGNAL_AGAIN_S) and self._taken <= seen:
                signal.pthread_kill(main, number[0])
                echoes += 1
            seen += 1
        os.close(self._reading)


# ---- a new session


def start_chat(loaded: LoadedSettings, instructions: str | None = None) -> int:
    """Begin a new session and talk with it; earlier ones are only counted. NoModelError where no model would answer.

    `instructions`: the base instructions of its root.
    """
    require_model(loaded.settings, loaded.environment)
    require_sandbox(loaded.settings)
    earlier = sum(entry.purpose is None for entry in list_sessions(loaded.environment.home))

    async def greet(session: Session, out: TerminalOutput) -> None:
        out.line((session_header(session), "dim"))
        if earlier:
            stored = format_count(earlier, "earlier session")
            out.line(
                (
                    f"{stored}: `tertulia resume --last` goes on with the newest, `tertulia sessions ls` lists them",
                    "dim",
                )
            )
        out.line(("/help shows what can be typed; Ctrl-C stops an answer, Ctrl-D leaves.", "dim"))

    return run_chat(_instructed(Session(loaded.settings, waits=False), instructions), loaded, greet)


@asynccontextmanager
async def _instructed(
    entering: AbstractAsyncContextManager[Session], instructions: str | None
) -> AsyncGenerator[Session]:
    async with entering as session:
        if instructions is not None:
            await session.root.set_context(base_instructions=instructions)
        yield session


# ---- the main thread: the keyboard


class _Chat:
    """Reads lines and sends each to the conversation that is talked to."""

    def __init__(self, session: _SessionThread, out: TerminalOutput) -> None:
        self._session = session
        self._out = out

    def run(self) -> int:
        """Until the person leaves; returns the exit code."""
        warned = False
        while True:
            try:
                line = self._read()
            except EOFError:
                self._out.line()
                return 0
            except KeyboardInterrupt:
                self._out.line()
                if warned:
                    return INTERRUPTED
                warned = True
                self._out.line((_LEAVING, "dim"))
                continue
            warned = False
            if line in LEAVING:
                return 0
            if line.startswith("/") and not line.startswith("//"):
                self._do(self._session.command(line))
            elif line:
                self._do(self._session.ask(line.removeprefix("/") if line.startswith("//") else line))

    def _read(self) -> str:
        with self._session.held():
            return input(f"{self._session.commands.name or ''}{_PROMPT}").strip()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for the end of it; Ctrl-C stops the task, not the program."""
        working = self._session.begin(work)
        while True:
            try:
                working.result()
            except KeyboardInterrupt:
                self._session.begin(self._session.interrupt())
            except TertuliaError as error:
                self._out.line(("refused: ", "red"), error.message)
                break
            else:
                break


# ---- the session's thread


class _SessionThread:
    """Runs a session in a thread of its own, shows its events, and takes calls from the main thread."""

    def __init__(self, entering: AbstractAsyncContextManager[Session], out: TerminalOutput) -> None:
        self._entering = entering
        self._lines = PlainLines()
        self._out = out
        self._commands: PlainCommands | None = None
        self._loop = asyncio.new_event_loop()
        self._entered: Future[Session] = Future()
        self._leaving = asyncio.Event()
        self._held: list[Event] | None = None
        """Events that came while a line is being typed; None while none is."""
        self._shown = 0
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self._serving: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="session")

    @property
    def entered(self) -> Session:
        """The session; raises what kept it from starting."""
        return self._entered.result()

    def __enter__(self) -> _SessionThread:
        self._thread.start()
        try:
            self._entered.result()
        except BaseException:
            # Where it was not the session that failed, a signal came while it starts.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._give_up)
            self._thread.join()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join()
        if self._failure is not None and exc[0] is None:
            raise self._failure

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start something in the session's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the session's thread, and wait for it."""
        return self.begin(work).result()

    @contextmanager
    def held(self) -> Generator[None]:
        """Nothing is shown while the block lasts: a person is typing a line."""
        self.call(self._hold())
        try:
            yield
        finally:
            self.call(self._release())

    @property
    def commands(self) -> PlainCommands:
        """The slash commands; the session has started."""
        if self._commands is None:
            self._commands = PlainCommands(LocalPort(Host(self.entered.settings), self.entered), self._lines.board)
        return self._commands

    async def ask(self, text: str) -> None:
        """Send a message, show its answer, and come back when all of it was shown."""
        self._lines.sent(text)
        reply = await self.entered.conversation(self.commands.conversation_id).message(text)
        await self._caught_up(reply.last_seq)
        for line in end_lines(MessageOutcome(reply.status, reply)):
            self._out.line(*line)
        self._out.bell()

    async def command(self, line: str) -> None:
        """Run a slash command and show its answer."""
        for answer in await self.commands.run(line):
            self._out.line(answer)
        await self._caught_up(self.entered.activity.last_seq)

    async def interrupt(self) -> None:
        """Stop what runs for the conversation that is talked to."""
        await self.entered.conversation(self.commands.conversation_id).interrupt()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        serving = self._serving = self._loop.create_task(self._serve())
        self._loop.run_until_complete(asyncio.wait((serving,)))
        self._failure = None if serving.cancelled() else serving.exception()
        if self._failure is not None and not self._entered.done():
            self._entered.set_exception(self._failure)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _give_up(self) -> None:
        if self._serving is not None:
            self._serving.cancel()

    async def _serve(self) -> None:
        async with self._entering as session, asyncio.TaskGroup() as group:
            self._shown = session.activity.began_after
            watching = group.create_task(self._watch(session))
            await session.mcp.ready(required_only=True)
            await self._caught_up(session.activity.last_seq)
            self._entered.set_result(session)
            await self._leaving.wait()
            await session.close()
            await watching

    async def _watch(self, session: Session) -> None:
        keyboard = TerminalInput.open((sys.stdin, sys.stderr))
        approver = None if keyboard is None else NumberedApprover(keyboard, self._out, self._lines)
        async for event in session.events(after=self._shown, attend=approver is not None):
            self._show(event)
            if approver is not None:
                approver.take(session, event)
            if event.seq is not None:
                self._shown = event.seq
                self._news.set()

    def _show(self, event: Event) -> None:
        if self._held is not None:
            self._held.append(event)
            return
        for line in self._lines.take(event):
            self._out.line(*line)

    async def _hold(self) -> None:
        self._held = []

    async def _release(self) -> None:
        held, self._held = self._held, None
        for event in held or ():
            self._show(event)

    async def _caught_up(self, seq: int) -> None:
        """Wait until this event was shown."""
        while self._shown < seq:
            self._news.clear()
            await self._news.wait()
