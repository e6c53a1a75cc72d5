"""One MCP server of the pool: started, connected, listed, called, restarted and stopped.

It knows neither sessions nor conversations nor how a connection is made: `dial` makes it, the caller comes with each
call, and `session_server` says what a session sees of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

from tertulia.errors import McpError
from tertulia.events.clock import Clock
from tertulia.mcp.client.error_text import server_error
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.pool.server_statistics import ServerStatistics
from tertulia.mcp.pool.server_status import StatusMonitor
from tertulia.mcp.pool.tool_cache import RelistSchedule, ToolCache
from tertulia.mcp.server_connection import (
    Caller,
    CallResult,
    OnProgress,
    RemoteTool,
    ServerConnection,
    ServerStatus,
    Spawn,
)

CLOSE_TRIES_S = (6.0, 1.5)
"""Time limits of the attempts to close a connection; together less than the pool has for closing all servers."""
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 60.0
MAX_FAILURES = 8
"""After so many failures in a row the server is started again only when a caller needs it."""

_log = logging.getLogger(__name__)

Dial = Callable[[Callable[[], None]], Awaitable[ServerConnection]]
"""Opens a connection or raises McpError; cancelled, it leaves nothing behind. Its argument is to be called whenever the
server announces that its tools have changed."""


class PooledServer:
    """starting → ready → failed or stopped, and from these two back to starting.

    One task owns a start, the connection that results and its end. Callers only wait for it, so cancelling one caller
    does not affect the others. There are never two connections at once. The tools of the last listing are known in
    every state.
    """

    def __init__(
        self, definition: ServerDefinition, key: str, *, dial: Dial, spawn: Spawn, clock: Clock, tool_cache: ToolCache
    ) -> None:
        self.definition = definition
        """The definition of the first lease. Another definition with the same key may let other tools through."""
        self.key = key
        self.leases: list[ServerDefinition] = []
        """The definitions under which it is leased, one for each lease. An eager one restarts it after a failure."""
        self.idle_timer: asyncio.TimerHandle | None = None
        """Runs while there is no lease."""
        self.calls = 0
        """How many calls are in progress."""
        self.statistics = ServerStatistics(clock)
        self.tool_cache = tool_cache
        self.connection: ServerConnection | None = None
        """The connection that is open and listed."""
        self._patience_s = definition.startup_timeout_s
        self._late = f"it did not start within {self._patience_s:g} s (startup_timeout_sec)"
        self.monitor = StatusMonitor(self._patience_s, lambda: self._fail(self._late))
        self._dial, self._spawn, self._clock = dial, spawn, clock
        self.backoff = Backoff(clock)
        """Counts failed starts: after one a further start may well fail, too."""
        self._relisting = RelistSchedule(spawn, clock, definition.name)
        self._owner: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._nudge = asyncio.Event()
        self._sealed = False

    @property
    def status(self) -> ServerStatus:
        """Whether it runs, starts, failed or was stopped."""
        return self.monitor.status

    @property
    def error(self) -> str | None:
        """Why it does not run; for one that is ready, why its last listing failed."""
        return self.monitor.error

    @property
    def tools(self) -> tuple[RemoteTool, ...]:
        """The tools of the last listing, by name."""
        return self.tool_cache.toolset.tools

    def is_stale(self, now: float) -> bool:
        """Whether it runs and its listing has expired; `now` is monotonic."""
        return self.connection is not None and self.tool_cache.is_stale(now)

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        caller: Caller,
        *,
        timeout_s: float,
        on_progress: OnProgress,
        pinned: RemoteTool | None = None,
    ) -> CallResult:
        """Call a tool; starts the server if necessary, or says in an McpError why not and when the next try is.

        A tool whose definition is no longer `pinned`, or no longer that at the time of this call, is not called (C1).
        """
        expected = pinned or self.tool_cache.find(tool)
        self.calls += 1
        try:
            connection = await self._reach()
            if self._relisting.due:
                # The server has announced a change. If the listing fails, the old tools stay.
                with suppress(McpError):
                    await self._relisting.now()
            offered = self.tool_cache.find(tool)
            if offered is None:
                raise server_error(self.definition.name, "refused", f"the server has no tool {tool!r:.80}")
            if expected is not None and offered is not expected and offered != expected:
                sentence = f"the server defines {tool!r:.80} otherwise than before; refresh the view first"
                raise server_error(self.definition.name, "refused", sentence)
            return await self.statistics.measured(
                connection.call(tool, arguments, caller, timeout_s=timeout_s, on_progress=on_progress)
            )
        finally:
            self.calls -= 1

    async def refresh(self) -> None:
        """List the tools again; starts the server at once if it does not run. McpError: failed, the old tools stay."""
        if self.connection is None:
            self.backoff.waive()
            await self._reach()
        else:
            await self._relisting.now()

    def start(self) -> None:
        """Begin to start it, unless it runs or starts; one that has just failed is started after its backoff."""
        if self._sealed or self._owner is not None:
            return
        if self.status != "failed" or self.backoff.left_s() == 0:
            self._begin()
        elif self._restarts():
            self._own()

    def halt(self, *, for_good: bool = False) -> None:
        """Begin to stop it. A later call starts it again, unless this is for good."""
        self._sealed |= for_good
        if self._owner is not None:
            self._ending.add(self._owner)
            self._owner.cancel()
            self._owner = None
        self.connection = None
        self._relisting.stop()
        self.monitor.become("stopped")

    async def stop(self) -> None:
        """Stop it and wait until it has ended, for a few seconds at most."""
        self.halt()
        if self._ending:
            await asyncio.wait(set(self._ending))

    async def _reach(self) -> ServerConnection:
        name = self.definition.name
        if self.connection is not None:
            if not self.connection.gone.is_set():
                return self.connection
            self._fail(self.connection.why or "the connection ended")
        if self._sealed:
            raise server_error(name, "closed", "the server was closed with those who used it")
        left = self.backoff.left_s()
        if self.status == "failed" and left > 0:
            again = f"{name}: {self.error}; the next try is in {left:.1f} s"
            raise McpError(again, server=name, reason="not_started", retry_after_s=left)
        if self.status != "starting":
            self._begin()
        await self.monitor.wait_until_known()
        if self.connection is None:
            raise server_error(name, "not_started", self.error or "it was stopped")
        return self.connection

    def _begin(self) -> None:
        self.monitor.become("starting")
        if self._owner is None:
            self._own()
        else:
            self._nudge.set()

    def _own(self) -> None:
        self._owner = self._spawn(self._live(), f"MCP server {self.definition.name}")
        self._owner.add_done_callback(self._owner_done)

    def _owner_done(self, owner: asyncio.Task[None]) -> None:
        self._ending.discard(owner)
        if owner is self._owner:
            # It was ended by neither `halt` nor itself.
            self._owner = None
            if owner.cancelled():
                self.halt()
            else:
                self._fail("a fault of ours ended it; it is in the log")

    # ── what the owner does ──────────────────────────────────────────────────────────────────────────────────

    async def _live(self) -> None:
        me = asyncio.current_task()
        while self._owner is me and (self.status == "starting" or self._restarts()):
            if self.status == "failed" and not await self._pause():
                break
            async with AsyncExitStack() as opened:
                connection = await self._open(opened)
                if connection is not None:
                    await self.tool_cache.write_down()
                    await connection.gone.wait()
                    self._fail(connection.why or "the connection ended")
        if self._owner is me:
            # Now, not when the task is over: a start that begins in between must not nudge a task that has left.
            self._owner = None

    def _restarts(self) -> bool:
        return not self.backoff.hopeless and any(definition.start == "eager" for definition in self.leases)

    async def _pause(self) -> bool:
        """Wait until the next try is allowed, or a caller has begun one. Whether it is to be made."""
        self._nudge.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.backoff.left_s()):
                await self._nudge.wait()
        if self.status == "failed" and self._restarts():
            self.monitor.become("starting")
        return self.status == "starting"

    async def _open(self, opened: AsyncExitStack) -> ServerConnection | None:
        """Connect and list the tools; None: that failed."""
        name, deadline = self.definition.name, self.monitor.deadline
        relisting = RelistSchedule(self._spawn, self._clock, name)
        try:
            async with asyncio.timeout_at(deadline):
                if self._ending:
                    await asyncio.wait(set(self._ending))
                began = self._clock.monotonic()
                connection = await self._dial(relisting.want)
                opened.push_async_callback(_close, connection, name, self.monitor)
                changed = await self.tool_cache.take(connection, began)
        except (TimeoutError, McpError) as error:
            # Another start may have begun by now: this one was given up, and cleaning up after it took so long.
            if deadline == self.monitor.deadline:
                self._fail(_reason(error, name) if isinstance(error, McpError) else self._late)
            return None
        if deadline != self.monitor.deadline:
            return None
        self.connection, self._relisting = connection, relisting
        self.backoff.started()
        self.statistics.starts += 1
        relisting.begin(partial(self._list_again, connection))
        self.monitor.become("ready", changed=changed)
        return connection

    async def _list_again(self, connection: ServerConnection) -> McpError | None:
        name = self.definition.name
        changed, error = False, None
        try:
            async with asyncio.timeout(self._patience_s):
                changed = await self.tool_cache.take(connection, self._clock.monotonic())
        except TimeoutError:
            error = server_error(name, "timeout", f"it did not list its tools within {self._patience_s:g} s")
        except McpError as failure:
            error = failure
        if connection is self.connection and not connection.gone.is_set():
            if error is not None:
                self.statistics.note_error()
            self.monitor.become("ready", error and _reason(error, name), changed=changed)
            await self.tool_cache.write_down()
        return error

    def _fail(self, why: str) -> None:
        if self.status in ("starting", "ready"):
            self.connection = None
            self._relisting.stop()
            self.backoff.failed()
            self.statistics.note_error()
            self.monitor.become("failed", why)


async def close_connection(connection: ServerConnection, name: str) -> str | None:
    """Close it. None, or why it did not end even at the second attempt; that is logged too (S002-41)."""
    problem = None
    for bound_s in CLOSE_TRIES_S:
        try:
            async with asyncio.timeout(bound_s):
                await connection.close()
        except TimeoutError:
            problem = f"it did not end within {bound_s:g} s"
        except McpError as error:
            problem = error.message
        else:
            return None
        _log.warning("MCP server %s could not be stopped: %s", name, problem)
    return problem


async def _close(connection: ServerConnection, name: str, monitor: StatusMonitor) -> None:
    problem = await close_connection(connection, name)
    if problem is not None and monitor.status == "stopped":
        monitor.become("stopped", f"it could not be stopped: {problem}")


def _reason(error: McpError, server: str) -> str:
    """The error without the server's name, which every reader of a status knows."""
    return error.message.removeprefix(f"{server}: ")


class Backoff:
    """Counts failures in a row, and says when the next start is allowed.

    A life that lasted longer than the longest wait begins the count again.
    """

    __slots__ = ("_alive_since", "_clock", "_until", "failures")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic()
        self._alive_since: float | None = None
        self.failures = 0

    def started(self) -> None:
        """It runs. That resets the count only if it lasts: some servers die right after each start."""
        self._alive_since = self._clock.monotonic()

    def failed(self) -> None:
        """It did not start, or it ended by itself."""
        now = self._clock.monotonic()
        if self._alive_since is not None and now - self._alive_since > LONGEST_BACKOFF_S:
            self.failures = 0
        self._alive_since = None
        # The exponent is bounded: a server that stays broken would overflow it some day.
        self._until = now + min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(self.failures, 10))
        self.failures += 1

    def waive(self) -> None:
        """The client asks for the server: the next try need not wait. If it fails too, the one after waits longer."""
        self._until = self._clock.monotonic()

    @property
    def hopeless(self) -> bool:
        """Whether it has failed too often to be restarted without a caller."""
        return self.failures > MAX_FAILURES

    def left_s(self) -> float:
        """Seconds until the next try is allowed; 0.0: now."""
        return max(0.0, self._until - self._clock.monotonic())
