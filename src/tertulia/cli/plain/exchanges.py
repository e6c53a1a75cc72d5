"""What a person types at a plain terminal goes to the session from here, also while a task runs.

While one runs, each line goes into it: the model reads it before its next request. `/queue` sends one as a message of
its own afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tertulia.cli.exec.run_message import MessageOutcome
from tertulia.cli.output.terminal import TerminalOutput, shorten
from tertulia.cli.plain.commands import LEAVING, PlainCommands, message_text
from tertulia.cli.plain.keyboard import PlainKeyboard
from tertulia.cli.plain.lines import PlainLines, end_lines
from tertulia.errors import NotRunningError, TertuliaError
from tertulia.session.session import Session


class Exchanges:
    """Runs one line at a time with all that is typed meanwhile. Its methods run in the session's thread."""

    def __init__(
        self,
        session: Session,
        commands: PlainCommands,
        screen: tuple[TerminalOutput, PlainLines, PlainKeyboard | None],
        caught_up: Callable[[int], Awaitable[None]],
    ) -> None:
        """`screen`: where lines are written and typed. `caught_up`: comes back when an event was shown."""
        self._session = session
        self._commands = commands
        self._out, self._lines, self._keyboard = screen
        self._caught_up = caught_up
        self._tasks: asyncio.TaskGroup | None = None
        self.left = False
        """Whether the person has left while a task ran."""

    def left_over(self) -> list[str]:
        """Lines that were typed while a task ran and came too late for it."""
        return [] if self._keyboard is None else self._keyboard.left_over()

    async def work(self, line: str) -> None:
        """Do what a line says, and come back when nothing runs for it any more.

        Raises:
            TertuliaError: It was refused.
        """
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._attend({self._tasks.create_task(self._begin(line))})
        except* TertuliaError as several:
            raise several.exceptions[0] from None
        finally:
            self._tasks = None

    async def _attend(self, running: set[asyncio.Task[None]]) -> None:
        """Take what is typed until all of these have ended, and those that it starts."""
        if self._keyboard is None or self._tasks is None:
            return
        with self._keyboard.typing():
            reading = self._tasks.create_task(self._keyboard.message())
            try:
                while running:
                    done, _ = await asyncio.wait({*running, reading}, return_when=asyncio.FIRST_COMPLETED)
                    if reading in done:
                        running |= await self._put_in(reading.result())
                        reading = self._tasks.create_task(self._keyboard.message())
                    running -= done
            finally:
                reading.cancel()

    async def _begin(self, line: str) -> None:
        if not line.startswith("/") or line.startswith("//"):
            self._lines.sent(message_text(line))
            await self._exchange(message_text(line))
            return
        for answer in await self._commands.run(line):
            self._out.line(answer)
        await self._caught_up(self._session.activity.last_seq)

    async def _put_in(self, typed: str | None) -> set[asyncio.Task[None]]:
        """Do what a line says that was typed while a task runs; returns what it has started."""
        line = None if typed is None else typed.strip()
        name, _, rest = ("", "", "") if line is None else line.partition(" ")
        if line is None or line in LEAVING:
            self.left = True
            await self.interrupt()
        elif name == "/stop":
            await self.interrupt()
        elif name == "/queue" and rest.strip():
            self._out.line(("queued: ", "dim"), shorten(rest.strip()))
            self._lines.sent(rest.strip())
            return self._start(self._exchange(rest.strip()))
        elif line.startswith("/") and not line.startswith("//"):
            return self._start(self._begin(line))
        elif line:
            return await self._steer(message_text(line))
        return set()

    def _start(self, work: Coroutine[Any, Any, None]) -> set[asyncio.Task[None]]:
        async def guarded() -> None:
            try:
                await work
            except TertuliaError as error:
                self._out.line(("refused: ", "red"), error.message)

        if self._tasks is None:
            work.close()
            return set()
        return {self._tasks.create_task(guarded())}

    async def _steer(self, text: str) -> set[asyncio.Task[None]]:
        self._lines.sent(text)
        try:
            await self._session.conversation(self._commands.conversation_id).steer(text)
        except NotRunningError:
            # Its task has just ended.
            return self._start(self._exchange(text))
        return set()

    async def _exchange(self, text: str) -> None:
        """Send a message, show its answer, and come back when all of it was shown."""
        reply = await self._session.conversation(self._commands.conversation_id).message(text)
        await self._caught_up(reply.last_seq)
        if self._keyboard is not None:
            await self._keyboard.idle()
        for line in end_lines(MessageOutcome(reply.status, reply)):
            self._out.line(*line)
        self._out.bell()

    async def interrupt(self) -> None:
        """Stop what runs for the conversation that is talked to."""
        await self._session.conversation(self._commands.conversation_id).interrupt()
