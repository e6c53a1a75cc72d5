"""The life of one MCP server, from start to start: the state machine, and the task that owns the connection.

Knows neither who calls nor how a connection is made: `dial` does that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

from tertulia.errors import McpError
from tertulia.events.clock import Clock
from tertulia.mcp.client.error_text import server_error
from tertulia.mcp.pool.status import StatusMonitor
from tertulia.mcp.pool.tool_cache import RelistSchedule, ToolCache
from tertulia.mcp.server_connection import ServerConnection, Spawn

CLOSE_TRIES_S = (6.0, 1.5)
"""Together less than what a pool has for closing all of them."""

_log = logging.getLogger(__name__)


async def close_connection(connection: ServerConnection, name: str) -> str | None:
    """Close it. None, or why it would not end even when asked again; that is logged too (S002-41)."""
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


Dial = Callable[[Callable[[], None]], Awaitable[ServerConnection]]
"""Opens a connection, or raises McpError; cancelled, it leaves nothing behind. What it is given is to be called when
the server says that its tools have changed."""


class Lifecycle:
    """starting → ready → failed or stopped, and from these two back to starting.

    One task owns a start, the connection that comes of it and its end. Callers only wait, so the cancellation of one
    takes nothing from the others. There are never two connections at once.
    """

    def __init__(
        self, name: str, patience_s: float, *, dial: Dial, spawn: Spawn, clock: Clock, offer: ToolCache
    ) -> None:
        """`patience_s`: with a start, and with a listing."""
        self.name = name
        self.standing = StatusMonitor(patience_s, lambda: self._fail(self._slowness()))
        self.offer = offer
        self.connection: ServerConnection | None = None
        """The one that is open and listed."""
        self.restarts = False
        """Whether it comes back by itself when it fails."""
        self._patience_s = patience_s
        self._dial, self._spawn, self._clock = dial, spawn, clock
        self._backoff = Backoff(clock)
        self._relisting = RelistSchedule(spawn, clock, name)
        self._owner: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._nudge = asyncio.Event()
        self._sealed = False

    def start(self) -> None:
        """Begin to start it, unless it runs or starts already; one that has just failed when its time has come."""
        if self._sealed or self._owner is not None:
            return
        if self.standing.status != "failed" or self._backoff.left_s() == 0:
            self._begin()
        elif self._persists():
            self._own()

    async def list_again(self) -> None:
        """Ask it what it offers; starts it if need be, and at once. McpError: that failed, and what was known stays."""
        if self.connection is None:
            self._backoff.waive()
            await self.reach()
        else:
            await self._relisting.now()

    async def catch_up(self) -> None:
        """Where it has said that its tools changed: until they are listed. A listing that fails keeps the old ones."""
        if self._relisting.due:
            with suppress(McpError):
                await self._relisting.now()

    def halt(self, *, for_good: bool = False) -> None:
        """Begin to stop it. It can be started again, unless this is for good."""
        self._sealed |= for_good
        if self._owner is not None:
            self._ending.add(self._owner)
            self._owner.cancel()
            self._owner = None
        self._drop()
        self.standing.become("stopped")

    async def ended(self) -> None:
        """Until nothing is left of what was halted, as far as it ends within some seconds."""
        if self._ending:
            await asyncio.wait(set(self._ending))

    async def reach(self) -> ServerConnection:
        """The connection; starts it if need be, or says in an McpError why it does not and when it will."""
        name, standing = self.name, self.standing
        if self.connection is not None:
            if not self.connection.gone.is_set():
                return self.connection
            self._fail(self.connection.why or "the connection ended")
        if self._sealed:
            raise server_error(name, "closed", "the server was closed with those who used it")
        left = self._backoff.left_s()
        if standing.status == "failed" and left > 0:
            again = f"{name}: {standing.error}; the next try is in {left:.1f} s"
            raise McpError(again, server=name, reason="not_started", retry_after_s=left)
        if standing.status != "starting":
            self._begin()
        await standing.settled()
        if self.connection is None:
            raise server_error(name, "not_started", standing.error or "it was stopped")
        return self.connection

    def _begin(self) -> None:
        self.standing.become("starting")
        if self._owner is None:
            self._own()
        else:
            self._nudge.set()

    def _own(self) -> None:
        self._owner = self._spawn(self._live(), f"MCP server {self.name}")
        self._owner.add_done_callback(self._ended)

    def _ended(self, owner: asyncio.Task[None]) -> None:
        self._ending.discard(owner)
        if owner is self._owner:
            # Nobody here ended it.
            self._owner = None
            if owner.cancelled():
                self.halt()
            else:
                self._fail("a fault of ours ended it; it is in the log")

    # ── what the owner does ──────────────────────────────────────────────────────────────────────────────────

    async def _live(self) -> None:
        me = asyncio.current_task()
        while self._owner is me and (self.standing.status == "starting" or self._persists()):
            if self.standing.status == "failed" and not await self._pause():
                break
            async with AsyncExitStack() as opened:
                connection = await self._open(opened)
                if connection is not None:
                    await self.offer.write_down()
                    await connection.gone.wait()
                    self._fail(connection.why or "the connection ended")
        if self._owner is me:
            # Now, not when the task is over: whoever begins in between must find that nobody is there to be nudged.
            self._owner = None

    def _persists(self) -> bool:
        return self.restarts and not self._backoff.hopeless

    async def _pause(self) -> bool:
        """Until the next try is allowed, or somebody else has begun it. Whether it is to be made."""
        self._nudge.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.left_s()):
                await self._nudge.wait()
        if self.standing.status == "failed" and self.restarts:
            self.standing.become("starting")
        return self.standing.status == "starting"

    async def _open(self, opened: AsyncExitStack) -> ServerConnection | None:
        """Connect and list; None: that failed."""
        relisting = RelistSchedule(self._spawn, self._clock, self.name)
        deadline = self.standing.deadline
        try:
            async with asyncio.timeout_at(deadline):
                await self.ended()
                began = self._clock.monotonic()
                connection = await self._dial(relisting.want)
                opened.push_async_callback(self._close, connection)
                changed = await self.offer.take(connection, began)
        except (TimeoutError, McpError) as error:
            # Another start may be wanted by now: this one was given up, and it took so long to tidy up after it.
            if deadline == self.standing.deadline:
                self._fail(self._reason(error) if isinstance(error, McpError) else self._slowness())
            return None
        if deadline != self.standing.deadline:
            return None
        self.connection, self._relisting = connection, relisting
        self._backoff.started()
        relisting.begin(partial(self._list_again, connection))
        self.standing.become("ready", changed=changed)
        return connection

    async def _list_again(self, connection: ServerConnection) -> McpError | None:
        changed, error = False, None
        try:
            async with asyncio.timeout(self._patience_s):
                changed = await self.offer.take(connection, self._clock.monotonic())
        except TimeoutError:
            error = server_error(self.name, "timeout", f"it did not list its tools within {self._patience_s:g} s")
        except McpError as failure:
            error = failure
        if connection is self.connection and not connection.gone.is_set():
            self.standing.become("ready", error and self._reason(error), changed=changed)
            await self.offer.write_down()
        return error

    async def _close(self, connection: ServerConnection) -> None:
        problem = await close_connection(connection, self.name)
        if problem is not None and self.standing.status == "stopped":
            self.standing.become("stopped", f"it could not be stopped: {problem}")

    def _reason(self, error: McpError) -> str:
        """Without the name: whoever asks how a server stands knows which."""
        return error.message.removeprefix(f"{self.name}: ")

    def _slowness(self) -> str:
        return f"it did not start within {self._patience_s:g} s (startup_timeout_sec)"

    def _fail(self, why: str) -> None:
        if self.standing.status in ("starting", "ready"):
            self._drop()
            self._backoff.failed()
            self.standing.become("failed", why)

    def _drop(self) -> None:
        self.connection = None
        self._relisting.stop()


FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 60.0
MAX_FAILURES = 8
"""After so many failures in a row only somebody who wants something of the server has it tried again."""


class Backoff:
    """Counts the failures in a row. A life that lasted longer than the longest wait begins the count anew."""

    __slots__ = ("_alive_since", "_clock", "_until", "failures")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic()
        self._alive_since: float | None = None
        self.failures = 0

    def started(self) -> None:
        """It runs. Whether that is worth anything is seen when it ends: one may die right after each start."""
        self._alive_since = self._clock.monotonic()

    def failed(self) -> None:
        """It did not start, or it ended by itself."""
        now = self._clock.monotonic()
        if self._alive_since is not None and now - self._alive_since > LONGEST_BACKOFF_S:
            self.failures = 0
        self._alive_since = None
        # The exponent is bounded, or a server that nobody repairs would some day overflow it.
        self._until = now + min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(self.failures, 10))
        self.failures += 1

    def waive(self) -> None:
        """A person asks for it: the next try need not wait. If it fails too, the one after that waits longer."""
        self._until = self._clock.monotonic()

    @property
    def hopeless(self) -> bool:
        """Whether it is of no use to go on trying unasked."""
        return self.failures > MAX_FAILURES

    def left_s(self) -> float:
        """Until the next try is allowed; 0.0: now."""
        return max(0.0, self._until - self._clock.monotonic())
