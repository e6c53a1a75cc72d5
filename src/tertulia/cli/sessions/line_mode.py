"""Talking to a session line by line on a terminal: no windows, no colours of its own, the kernel edits the line."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

from tertulia.cli.exec.run_message import MessageOutcome, MessageView
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.errors import TertuliaError
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.reply import Reply
from tertulia.session.session import Session

INTERRUPTED = 130
_Signal = Literal["stop", "end"]
_HINT = "Ctrl-D leaves; Ctrl-C once more does, too"


class Keyboard:
    """Lines of a terminal, and the signals that its keys send. Reads only while somebody waits for a line."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._typed = b""
        self._ended = False
        self._signalled: asyncio.Future[_Signal] | None = None

    @contextmanager
    def listening(self) -> Generator[None]:
        """SIGINT is `stop`, SIGTERM and a terminal that goes away are `end`."""
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
        """Done at the next signal."""
        if self._signalled is None or self._signalled.done():
            self._signalled = asyncio.get_running_loop().create_future()
        return self._signalled

    async def line(self) -> str | _Signal | None:
        """The next line, with its end; None at the end of all; or what a signal meant."""
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
        line, found, self._typed = self._typed.partition(b"\n")
        return f"{line.decode('utf-8', 'replace')}\n" if found or line else None

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
    """Reads a line, sends it to the root, shows the answer, and again."""

    def __init__(self, session: Session, view: MessageView, out: TerminalOutput) -> None:
        self._session = session
        self._view = view
        self._out = out
        self._nursery = Nursery()
        self._shown = session.parts.began_after
        self._news = asyncio.Event()

    async def watch(self) -> None:
        """Show every event since the session came back, until it closes."""
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
        """Until somebody leaves; the exit code."""
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
        """Whether to go on."""
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
