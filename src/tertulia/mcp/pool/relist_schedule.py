"""When to ask a server again what it offers: a storm of notices costs no more than a few listings.

Knows neither the server nor its tools, only that there is something to be done and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tertulia.errors import McpError
from tertulia.events.clock import Clock
from tertulia.mcp.client.error_text import server_error
from tertulia.mcp.server_connection import Spawn

MIN_INTERVAL_S = 0.2
"""Between the listings that a server causes. What somebody of ours asks for is done at once."""


ListAgain = Callable[[], Awaitable[McpError | None]]
"""Says what went wrong, and raises nothing but a cancellation."""


class RelistSchedule:
    """For as long as one connection lasts: at most one listing under way, and one more to come.

    What is wanted before `begin` is done after it.
    """

    __slots__ = (
        *("_asked", "_began", "_clock", "_list_again", "_name", "_over", "_spawn", "_task", "_waiting", "_wanted"),
    )

    def __init__(self, spawn: Spawn, clock: Clock, name: str) -> None:
        self._list_again: ListAgain | None = None
        self._spawn = spawn
        self._clock = clock
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._wanted = False
        self._asked = asyncio.Event()
        self._waiting: list[asyncio.Future[McpError | None]] = []
        self._began = 0.0
        self._over = False

    def begin(self, list_again: ListAgain) -> None:
        """It has just been listed for the first time; from now on, this lists it again."""
        self._list_again = list_again
        self._began = self._clock.monotonic()
        if self._wanted:
            self.want()

    @property
    def due(self) -> bool:
        """Whether something changed that is not listed yet."""
        return self._wanted or self._task is not None

    def want(self) -> None:
        """Something changed: list again before long."""
        self._wanted = not self._over
        if self._wanted and self._task is None and self._list_again is not None:
            self._task = self._spawn(self._run(self._list_again), f"list the tools of {self._name}")
            self._task.add_done_callback(self._ended)

    async def now(self) -> None:
        """Until a listing that began after this call is done. McpError: it failed."""
        if self._over or self._list_again is None:
            raise self._too_late()
        mine: asyncio.Future[McpError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._asked.set()
        self.want()
        # The future is this caller's alone: who leaves takes nothing away from the others.
        error = await mine
        if error is not None:
            raise McpError(error.message, **error.detail)

    def stop(self) -> None:
        """The connection is over. Whoever waits hears so."""
        self._over = True
        self._wanted = False
        if self._task is not None:
            self._task.cancel()

    async def _run(self, list_again: ListAgain) -> None:
        while self._wanted:
            await self._apart()
            self._wanted = False
            self._asked.clear()
            waiting, self._waiting = self._waiting, []
            self._began = self._clock.monotonic()
            error: McpError | None = server_error(self._name, "closed", "the listing was broken off")
            try:
                error = await list_again()
            finally:
                _answer(waiting, error)

    async def _apart(self) -> None:
        left = self._began + MIN_INTERVAL_S - self._clock.monotonic()
        if left <= 0:
            return
        try:
            async with asyncio.timeout(left):
                await self._asked.wait()
        except TimeoutError:
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._over |= task.cancelled()
        if self._wanted and not self._over:
            # Wanted after the last look at it.
            self.want()
            return
        waiting, self._waiting = self._waiting, []
        _answer(waiting, self._too_late())

    def _too_late(self) -> McpError:
        return server_error(self._name, "closed", "the connection ended before its tools were listed")


def _answer(waiting: list[asyncio.Future[McpError | None]], error: McpError | None) -> None:
    for each in waiting:
        if not each.done():
            each.set_result(error)
