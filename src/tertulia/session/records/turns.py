"""Takes turns in reading: few threads read records at a time, and the other reads wait in line."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from tertulia.errors import BusyError, TertuliaError
from tertulia.scheduler.nursery import Nursery
from tertulia.tools.threads import run_in_thread

T = TypeVar("T")
MAX_AT_ONCE = 2
"""More would not be faster: reading is work for the processor, and tools need threads too."""
MAX_WAITING = 1_000


class ReadingTurns:
    """Reads in threads. A caller that is cancelled leaves at once; its read ends by itself, and keeps its turn."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._reading = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """What the function returns or raises. BusyError where too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            raise BusyError("too many records are being read; ask again", retry_after_s=1)
        await self._enter()
        # A task of its own, which a cancelled caller does not end: the thread could not be ended either.
        reading = self._nursery.start(self._read(function, args), "read a record")
        await asyncio.wait((reading,))
        outcome = reading.result()
        if isinstance(outcome, TertuliaError):
            raise outcome
        return outcome

    async def _enter(self) -> None:
        if self._reading < MAX_AT_ONCE:
            self._reading += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    async def _read(self, function: Callable[..., T], args: tuple[Any, ...]) -> T | TertuliaError:
        try:
            return await run_in_thread(function, *args)
        except TertuliaError as error:
            # For the caller, if that is still there, and not for the log.
            return error
        finally:
            self._leave()

    def _leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                # The turn is handed on: as many read as before.
                turn.set_result(None)
                return
        self._reading -= 1
