"""News for somebody who may be slow: one piece is under way, and of what comes meanwhile only the newest follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tertulia.mcp.server_connection import Spawn

Send = Callable[[], Awaitable[object]]


class LatestOnlySender:
    """Holds one task at most and one piece of news at most, however much there is to tell."""

    __slots__ = ("_name", "_next", "_spawn", "_task")

    def __init__(self, spawn: Spawn, name: str) -> None:
        self._spawn = spawn
        self._name = name
        self._next: Send | None = None
        self._task: asyncio.Task[Any] | None = None

    def tell(self, send: Send) -> None:
        """Send this, now or as soon as what is under way has arrived."""
        self._next = send
        if self._task is None or self._task.done():
            self._task = self._spawn(self._run(), self._name)

    def close(self) -> None:
        """Nobody has to be told any more."""
        self._next = None
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while (send := self._next) is not None:
            self._next = None
            await send()
