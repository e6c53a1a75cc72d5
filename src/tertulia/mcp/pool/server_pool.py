"""The MCP servers that run, shared by sessions and conversations: one process for a launch and a scope, with leases.

A pool belongs to a host, or to a session without one. It does not decide who may use a server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tertulia.errors import ClosedError
from tertulia.events.clock import Clock
from tertulia.mcp.client.connection import connect as connect_by_sdk
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.pool.pooled_server import PooledServer
from tertulia.mcp.pool.tool_cache import ToolCache, ToolDiskCache
from tertulia.mcp.server_connection import ConnectionServices, ServerConnection, Spawn
from tertulia.sandbox.runner import CommandRunner

if TYPE_CHECKING:
    from tertulia.mcp.login.login_store import LoginStore

_log = logging.getLogger(__name__)
_Key = tuple[str, str, bool, bool]

Connect = Callable[[ServerDefinition, Launch, ConnectionServices], Awaitable[ServerConnection]]
"""Connects to a server: `client.connection.connect`, or that of a `FakeMcpServer`. McpError says why not; a
cancellation leaves nothing behind."""


class Lease:
    """The right to use a server; while it is held, the server is not stopped as idle."""

    __slots__ = ("_give_back", "server")

    def __init__(self, server: PooledServer, give_back: Callable[[], None]) -> None:
        self.server = server
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        """Give it back to the pool. Idempotent."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


class ServerPool:
    """Servers by key, with leases. A server without leases stops when its idle timeout is over."""

    def __init__(
        self,
        *,
        spawn: Spawn,
        clock: Clock,
        runner: Callable[[], CommandRunner],
        home: Path | None,
        connect: Connect = connect_by_sdk,
        logins: Callable[[], LoginStore | None] = lambda: None,
    ) -> None:
        """
        Args:
            spawn: Starts a task under a name.
            clock: Of all servers.
            runner: What starts programs; called with the first server.
            home: Where the tools of lazy servers are cached on disk, and which servers were late; None: nowhere.
            connect: Makes a connection.
            logins: Where logins to servers are kept; called with each connection.
        """
        self._spawn = spawn
        self._clock = clock
        self._runner = runner
        self.home = home
        """Where what is known of servers is kept from run to run; None: nowhere."""
        self._connect, self._logins = connect, logins
        self._servers: dict[_Key, PooledServer] = {}
        self._closed = False

    @property
    def servers(self) -> tuple[PooledServer, ...]:
        """All that are leased, or not yet reclaimed."""
        return tuple(self._servers.values())

    def leases(self) -> int:
        """How many leases there are (S000-44)."""
        return sum(len(server.leases) for server in self._servers.values())

    def lease(self, definition: ServerDefinition, launch: Launch, scope: str) -> Lease:
        """Never waits: an eager server, and one whose tools are not known, begins to start.

        `scope`: within which it is shared: the id of a session or conversation, or empty for the whole host. Raises
        ClosedError after `close`.
        """
        if self._closed:
            raise ClosedError("the pool of MCP servers is closed")
        # Besides the launch: the settings of the definition that the connection itself obeys.
        key = (launch.key, scope, definition.elicitation, definition.sampling)
        server = self._servers.get(key)
        if server is None:
            server = self._servers[key] = self._make(definition, launch)
        _stop_timer(server)
        server.leases.append(definition)
        if definition.start == "eager" or not server.tool_cache.was_listed:
            server.start()
        return Lease(server, partial(self._give_back, key, server, definition))

    async def end(self, scope: str, timeout_s: float = 8.0) -> None:
        """Stop all servers of a scope that is over, leased or not; they are not started again."""
        await self._end([key for key in self._servers if key[1] == scope], timeout_s)

    async def close(self, timeout_s: float = 8.0) -> None:
        """Stop all servers, side by side and for good; returns after `timeout_s` at the latest. Idempotent."""
        self._closed = True
        await self._end(list(self._servers), timeout_s)

    def _make(self, definition: ServerDefinition, launch: Launch) -> PooledServer:
        async def dial(tools_changed: Callable[[], None]) -> ServerConnection:
            services = ConnectionServices(self._runner(), self._spawn, self._clock, tools_changed, self._logins())
            return await self._connect(definition, launch, services)

        disk = ToolDiskCache(self.home) if self.home is not None and definition.start == "lazy" else None
        tool_cache = ToolCache(self._clock, disk and disk.recall(launch.key), disk and partial(disk.keep, launch.key))
        return PooledServer(
            definition, launch.key, dial=dial, spawn=self._spawn, clock=self._clock, tool_cache=tool_cache
        )

    def _give_back(self, key: _Key, server: PooledServer, definition: ServerDefinition) -> None:
        server.leases.remove(definition)
        if not server.leases and definition.idle_timeout_s is not None and self._servers.get(key) is server:
            loop = asyncio.get_running_loop()
            server.idle_timer = loop.call_later(definition.idle_timeout_s, self._reclaim, key, server)

    def _reclaim(self, key: _Key, server: PooledServer) -> None:
        server.idle_timer = None
        self._spawn(self._stop_idle(key, server), f"reclaim MCP server {server.definition.name}")

    async def _stop_idle(self, key: _Key, server: PooledServer) -> None:
        # It stays in the pool while it stops. A lease made meanwhile gets this one, which waits for its own end before
        # it starts again, and not a second process beside a first that still holds its files.
        await server.stop()
        if not server.leases and self._servers.get(key) is server:
            del self._servers[key]
            server.halt(for_good=True)

    async def _end(self, keys: Iterable[_Key], timeout_s: float) -> None:
        servers = [self._servers[key] for key in keys]
        for server in servers:
            _stop_timer(server)
            server.halt(for_good=True)
        stops = {self._spawn(server.stop(), f"stop {server.definition.name}") for server in servers}
        if stops:
            _, late = await asyncio.wait(stops, timeout=timeout_s)
            for stop in late:
                _log.warning("an MCP server did not stop within %g s: %s", timeout_s, stop.get_name())
                stop.cancel()
        for key in keys:
            self._servers.pop(key, None)


def _stop_timer(server: PooledServer) -> None:
    if server.idle_timer is not None:
        server.idle_timer.cancel()
        server.idle_timer = None
