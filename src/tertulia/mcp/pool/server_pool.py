"""The servers that run, shared by whoever may: one process for a launch and a scope, however many lease it.

It belongs to a host, or to a session that stands alone. Whether somebody may use a server is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Protocol

from tertulia.errors import ClosedError
from tertulia.events.clock import Clock
from tertulia.mcp.client.connection import connect as connect_really
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.pool.live_server import LiveServer
from tertulia.mcp.pool.tool_cache import ToolDiskCache
from tertulia.mcp.server_connection import ServerConnection, Spawn
from tertulia.sandbox.runner import CommandRunner

_log = logging.getLogger(__name__)
_Key = tuple[str, str, bool, bool]


class Connect(Protocol):
    """`connection.connect`, or its twin."""

    async def __call__(
        self,
        definition: ServerDefinition,
        launch: Launch,
        *,
        runner: CommandRunner,
        spawn: Spawn,
        clock: Clock,
        tools_changed: Callable[[], None],
    ) -> ServerConnection:
        """Reach the server. McpError says why not; a cancellation leaves nothing behind."""
        ...


class Lease:
    """The right to use a server, and what keeps it running."""

    __slots__ = ("_give_back", "definition", "server")

    def __init__(self, server: LiveServer, definition: ServerDefinition, give_back: Callable[[], None]) -> None:
        self.server = server
        self.definition = definition
        """The one that was asked for; the server's own is that of who came first."""
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        """Give it back. Twice does no harm."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


class _PooledServer:
    """A server, and who has it."""

    __slots__ = ("eager", "leases", "server", "timer")

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self.leases = 0
        self.eager = 0
        self.timer: asyncio.TimerHandle | None = None

    def stay(self) -> None:
        """It is not idle any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class ServerPool:
    """Key to server, with leases. A server without leases stops when it has been idle for as long as it may."""

    def __init__(
        self,
        *,
        spawn: Spawn,
        clock: Clock,
        runner: Callable[[], CommandRunner],
        home: Path | None,
        connect: Connect = connect_really,
    ) -> None:
        """`home`: where the tools of lazy servers are kept; None: nowhere."""
        self._spawn = spawn
        self._clock = clock
        self._runner = runner
        self._catalogue = None if home is None else ToolDiskCache(home)
        self._connect = connect
        self._shared: dict[_Key, _PooledServer] = {}
        self._closed = False

    @property
    def servers(self) -> tuple[LiveServer, ...]:
        """All that are leased, or not yet reclaimed."""
        return tuple(shared.server for shared in self._shared.values())

    def leases(self) -> int:
        """How many are out (S000-44)."""
        return sum(shared.leases for shared in self._shared.values())

    def lease(self, definition: ServerDefinition, launch: Launch, scope: str) -> Lease:
        """Never waits: an eager server, and one of which nothing is known, begins to start.

        `scope`: within which it is shared; a session's id, a conversation's, or nothing for the whole host. Raises
        Closed after `close`.
        """
        if self._closed:
            raise ClosedError("the pool of MCP servers is closed")
        # Beside the launch: what the connection itself does or leaves by its definition.
        key = (launch.key, scope, definition.elicitation, definition.sampling)
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _PooledServer(self._make(definition, launch))
        eager = definition.start == "eager"
        shared.stay()
        shared.leases += 1
        shared.eager += eager
        if eager:
            shared.server.start(insist=True)
        elif not shared.server.known:
            shared.server.start()
        return Lease(shared.server, definition, partial(self._give_back, key, shared, definition))

    async def end(self, scope: str, timeout_s: float = 8.0) -> None:
        """Stop all servers of a scope that is over, whoever still leases them; they are not started again."""
        await self._part([key for key in self._shared if key[1] == scope], timeout_s)

    async def close(self, timeout_s: float = 8.0) -> None:
        """Stop all, side by side and for good; returns after so long at the latest. Idempotent."""
        self._closed = True
        await self._part(list(self._shared), timeout_s)

    def _make(self, definition: ServerDefinition, launch: Launch) -> LiveServer:
        async def dial(tools_changed: Callable[[], None]) -> ServerConnection:
            return await self._connect(
                definition,
                launch,
                runner=self._runner(),
                spawn=self._spawn,
                clock=self._clock,
                tools_changed=tools_changed,
            )

        shelf = self._catalogue if definition.start == "lazy" else None
        return LiveServer(
            definition,
            launch.key,
            dial=dial,
            spawn=self._spawn,
            clock=self._clock,
            known=shelf and shelf.recall(launch.key),
            keep=shelf and partial(shelf.keep, launch.key),
        )

    def _give_back(self, key: _Key, shared: _PooledServer, definition: ServerDefinition) -> None:
        shared.leases -= 1
        shared.eager -= definition.start == "eager"
        if not shared.eager:
            shared.server.relax()
        if not shared.leases and definition.idle_timeout_s is not None and self._shared.get(key) is shared:
            loop = asyncio.get_running_loop()
            shared.timer = loop.call_later(definition.idle_timeout_s, self._reclaim, key, shared)

    def _reclaim(self, key: _Key, shared: _PooledServer) -> None:
        shared.timer = None
        self._spawn(self._stop_idle(key, shared), f"reclaim MCP server {shared.server.definition.name}")

    async def _stop_idle(self, key: _Key, shared: _PooledServer) -> None:
        # It stays in the pool while it stops: who leases it meanwhile gets this one, which waits for its own end
        # before it starts again, and not a second process beside a first that still holds its files.
        await shared.server.stop()
        if not shared.leases and self._shared.get(key) is shared:
            del self._shared[key]
            shared.server.halt(for_good=True)

    async def _part(self, keys: Iterable[_Key], timeout_s: float) -> None:
        parting = [self._shared[key] for key in keys]
        for shared in parting:
            shared.stay()
            shared.server.halt(for_good=True)
        stops = {self._spawn(shared.server.stop(), f"stop {shared.server.definition.name}") for shared in parting}
        if stops:
            _, late = await asyncio.wait(stops, timeout=timeout_s)
            for stop in late:
                _log.warning("an MCP server did not stop within %g s: %s", timeout_s, stop.get_name())
                stop.cancel()
        for key in keys:
            self._shared.pop(key, None)
