"""The one session that all clients of a surface share; it starts with the first request that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from tertulia.errors import NotFoundError
from tertulia.mcp.server_connection import Spawn
from tertulia.session.host import Host
from tertulia.session.session import Session


class SharedSession:
    """One session of a host. Where it was closed because no client used it, it is resumed, or another one begins."""

    def __init__(self, host: Host, spawn: Spawn, name: str, on_begun: Callable[[Session], None] | None = None) -> None:
        """`name`: of the task that starts it. `on_begun`: called with each session that begins here."""
        self._host = host
        self._spawn = spawn
        self._name = name
        self._on_begun = on_begun
        self._own: asyncio.Task[Session] | None = None

    async def get(self) -> Session:
        """The session; it is started, or resumed, where it is not open."""
        if self._own is None or (self._own.done() and not _is_usable(self._own)):
            self._own = self._spawn(self._begin(self._own), self._name)
        return await asyncio.shield(self._own)

    async def _begin(self, before: asyncio.Task[Session] | None) -> Session:
        session = None
        if before is not None and not before.cancelled() and before.exception() is None:
            with suppress(NotFoundError):
                session = await self._host.resume(before.result().id)
        session = session or await self._host.start()
        if self._on_begun is not None:
            self._on_begun(session)
        return session


def _is_usable(own: asyncio.Task[Session]) -> bool:
    return not own.cancelled() and own.exception() is None and not own.result().closed
