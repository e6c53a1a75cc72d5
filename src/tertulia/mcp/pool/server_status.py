"""The status of an MCP server: kept while it lives, watched by those who depend on it, and reported to clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from tertulia.mcp.server_connection import ServerStatus


class ServerReport(msgspec.Struct, frozen=True):
    """The status of a configured server as clients see it."""

    name: str
    status: ServerStatus
    error: str | None
    tools: int
    """How many of its tools the session offers."""
    latency_ms: int | None = None
    """Of the last start or listing."""
    protocol_version: str | None = None


class StatusMonitor:
    """A status that can be waited for and watched. `starting` never lasts longer than `patience_s`."""

    def __init__(self, patience_s: float, lose_patience: Callable[[], None]) -> None:
        self.status: ServerStatus = "stopped"
        self.error: str | None = None
        self.deadline: float | None = None
        """Of the start in progress, by the loop's time."""
        self._patience_s = patience_s
        self._lose_patience = lose_patience
        self._late: asyncio.TimerHandle | None = None
        self._known = asyncio.Event()
        self._known.set()
        self._listeners: dict[object, Callable[[], None]] = {}

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call this on the loop after any change of status, error or tools; returns a function that ends it."""
        ticket = object()
        self._listeners[ticket] = listener

        def unwatch() -> None:
            self._listeners.pop(ticket, None)

        return unwatch

    async def wait_until_known(self) -> None:
        """Wait until it is known whether the server runs: until the status is not `starting`."""
        while self.status == "starting":
            await self._known.wait()

    def become(self, status: ServerStatus, error: str | None = None, *, changed: bool = False) -> None:
        """Set the status; the only way to do so. `changed`: the tools are new, so listeners are called in any case."""
        changed |= (status, error) != (self.status, self.error)
        self.status, self.error = status, error
        if self._late is not None:
            self._late.cancel()
            self._late = self.deadline = None
        if status == "starting":
            self._known.clear()
            # Not left to the timeout inside the start: cleaning up after that may take longer still.
            self._late = asyncio.get_running_loop().call_later(self._patience_s, self._lose_patience)
            self.deadline = self._late.when()
        else:
            self._known.set()
        if changed:
            for listener in tuple(self._listeners.values()):
                listener()
