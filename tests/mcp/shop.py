"""Something to be served by a broker, without a session behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from tertulia.mcp.serve.sources import ServedCall, ServedTool
from tertulia.mcp.server_connection import CallResult, ToolHints


class Shop:
    """Something served: a test says what a call does."""

    def __init__(self) -> None:
        self.list = [ServedTool("b", "Does b.", '{"type":"object"}', "The B", ToolHints(read_only=True))]
        self.act: Callable[[ServedCall], Awaitable[CallResult]] = self._echo
        self.calls: list[ServedCall] = []
        self.listeners: list[Callable[[], None]] = []
        self.cancelled = asyncio.Event()

    async def tools(self) -> Sequence[ServedTool]:
        return self.list

    async def call(self, call: ServedCall) -> CallResult:
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
    async def _echo(call: ServedCall) -> CallResult:
        return CallResult(msgspec.json.encode(call.arguments).decode())
