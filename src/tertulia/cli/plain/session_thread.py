"""The session of a plain terminal, in a thread of its own: shows its events, and takes calls from the main thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, TypeVar

from tertulia.cli.exec.terminal_approver import terminal_of
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.plain.approver import NumberedApprover
from tertulia.cli.plain.commands import PlainCommands
from tertulia.cli.plain.exchanges import Exchanges
from tertulia.cli.plain.keyboard import PlainKeyboard
from tertulia.cli.plain.lines import PlainLines
from tertulia.events.debug_trace import event_trace
from tertulia.protocol.events import Event
from tertulia.protocol.storage import NoStorage, storage_from_wire
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.terminal.local_port import LocalPort
from tertulia.view.board import Board

_LOST = "  not taken: this line was typed for a question that is gone, or before it was shown"
T = TypeVar("T")


class SessionThread:
    """Runs a session in a thread of its own, shows its events, and takes calls from the main thread."""

    def __init__(self, entering: AbstractAsyncContextManager[Session], out: TerminalOutput) -> None:
        self._entering = entering
        self._lines = PlainLines()
        self._out = out
        self._keyboard = self._open_keyboard()
        self._approver = None if self._keyboard is None else NumberedApprover(self._keyboard, out, self._lines)
        self._exchanges: Exchanges | None = None
        self._commands: PlainCommands | None = None
        self._loop = asyncio.new_event_loop()
        self._entered: Future[Session] = Future()
        self._leaving = asyncio.Event()
        self._held: list[Event] = []
        """Events that came while a line is being typed."""
        self._at_prompt = False
        self._shown = 0
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self._serving: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="session")

    @property
    def entered(self) -> Session:
        """The session; raises what kept it from starting."""
        return self._entered.result()

    def __enter__(self) -> SessionThread:
        self._thread.start()
        try:
            self._entered.result()
        except BaseException:
            # The session did not fail: a signal interrupted its start.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._give_up)
            self._thread.join()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join()
        if self._keyboard is not None:
            self._keyboard.restore()
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

    @property
    def board(self) -> Board:
        """What the session looks like."""
        return self._lines.board

    @property
    def stored(self) -> bool:
        """Whether the session can be resumed."""
        if not self._entered.done() or self._entered.exception() is not None:
            return False
        return not isinstance(storage_from_wire(self.entered.settings.storage_policy), NoStorage)

    @property
    def exchanges(self) -> Exchanges:
        """What is sent to the session; it has started."""
        if self._exchanges is None:
            screen = (self._out, self._lines, self._keyboard)
            self._exchanges = Exchanges(self.entered, self.commands, screen, self._caught_up)
        return self._exchanges

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
            session.activity.go_on()
            await self._leaving.wait()
            await session.close()
            await watching

    def _open_keyboard(self) -> PlainKeyboard | None:
        terminal = terminal_of((sys.stdin, sys.stderr))
        if terminal is None:
            return None
        return PlainKeyboard(
            terminal,
            asks=lambda: self._approver is not None and self._approver.asks,
            on_idle=self._show_held,
            on_lost=lambda: self._out.line((_LOST, "dim")),
        )

    async def _watch(self, session: Session) -> None:
        approver, trace = self._approver, event_trace()
        async for event in session.events(after=self._shown, attend=approver is not None):
            if trace is not None:
                trace.take(event)
            self._held.append(event)
            self._show_held()
            if approver is not None:
                approver.take(session, event)
            if event.seq is not None:
                self._shown = event.seq
                self._news.set()

    def _show_held(self) -> None:
        if self._at_prompt or (self._keyboard is not None and self._keyboard.half_typed):
            return
        events, self._held = self._held, []
        for event in events:
            for line in self._lines.take(event):
                self._out.line(*line)

    async def _hold(self) -> None:
        self._at_prompt = True

    async def _release(self) -> None:
        self._at_prompt = False
        self._show_held()

    async def _caught_up(self, seq: int) -> None:
        """Wait until this event was shown."""
        while self._shown < seq:
            self._news.clear()
            await self._news.wait()
