"""How a server stands, for all who want to know: its status, why, and word of every change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tertulia.mcp.server_connection import ServerStatus


class StatusMonitor:
    """A status that can be waited for and watched. `starting` never lasts longer than the patience with it."""

    def __init__(self, patience_s: float, lose_patience: Callable[[], None]) -> None:
        self.status: ServerStatus = "stopped"
        self.error: str | None = None
        self.deadline: float | None = None
        """Of the start that is under way, by the loop's time."""
        self._patience_s = patience_s
        self._lose_patience = lose_patience
        self._late: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._listeners: dict[object, Callable[[], None]] = {}

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call this after any change. The answer ends it."""
        ticket = object()
        self._listeners[ticket] = listener

        def unwatch() -> None:
            self._listeners.pop(ticket, None)

        return unwatch

    async def settled(self) -> None:
        """Until it is not starting."""
        while self.status == "starting":
            await self._settled.wait()

    def become(self, status: ServerStatus, error: str | None = None, *, changed: bool = False) -> None:
        """The one way to another status. `changed`: something else is new, so tell them in any case."""
        changed |= (status, error) != (self.status, self.error)
        self.status, self.error = status, error
        if self._late is not None:
            self._late.cancel()
            self._late = self.deadline = None
        if status == "starting":
            self._settled.clear()
            # Not left to the timeout of whoever starts it: tidying up after that may take longer still.
            self._late = asyncio.get_running_loop().call_later(self._patience_s, self._lose_patience)
            self.deadline = self._late.when()
        else:
            self._settled.set()
        if changed:
            for listener in tuple(self._listeners.values()):
                listener()
