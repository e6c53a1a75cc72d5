"""Something to be served by a broker, without a session behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from tertulia.mcp.server import Answer, Hints
from tertulia.mcp.serving import ServedCall, ServedTool


class Shop:
    """Something served: a test says what a call does."""

    def __init__(self) -> None:
        self.list = [ServedTool("b", "Does b.", '{"type":"object"}', "The B", Hints(read_only=True))]
        self.act: Callable[[ServedCall], Awaitable[Answer]] = self._echo
        self.calls: list[ServedCall] = []
        self.listeners: list[Callable[[], None]] = []
        self.cancelled = asyncio.Event()

    async def tools(self) -> Sequence[ServedTool]:
        return self.list

    async def call(self, call: ServedCall) -> Answer:
        self.calls.append(call)
        try:
            return await self.act(call)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        self.listeners.append(changed)
        return lambda: self.listeners.remove(changed)

    def change(self) -> None:
        for listener in list(self.listeners):
            listener()

    @staticmethod
    async def _echo(call: ServedCall) -> Answer:
        return Answer(msgspec.json.encode(call.arguments).decode())
