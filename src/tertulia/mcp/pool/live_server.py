"""One MCP server that is shared, as others see it: whether it runs, what it offers, and how to call its tools.

Knows no conversation, view or lease. What becomes of it when, and who waits for whom, is `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tertulia.events.clock import Clock
from tertulia.mcp.client.error_text import server_error
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.pool.lifecycle import Dial, Lifecycle
from tertulia.mcp.pool.tool_cache import ToolCache
from tertulia.mcp.server_connection import Caller, CallResult, OnProgress, RemoteTool, ServerStatus, Spawn
from tertulia.mcp.toolset import Toolset


class LiveServer:
    """Belongs to a pool. What its tools were is known in any state."""

    def __init__(
        self,
        definition: ServerDefinition,
        key: str,
        *,
        dial: Dial,
        spawn: Spawn,
        clock: Clock,
        known: Toolset | None = None,
        keep: Callable[[Toolset], None] | None = None,
    ) -> None:
        """`known`: what it offered when it last ran. `keep`: writes that down; blocks."""
        self.definition = definition
        """Of whoever leased it first: another one of the same key may differ in what it lets through."""
        self.key = key
        self.calls = 0
        """How many are under way."""
        self.offer = ToolCache(clock, known, keep)
        """What it says that it offers, and how often that became something else."""
        patience_s = definition.startup_timeout_s
        self._life = Lifecycle(definition.name, patience_s, dial=dial, spawn=spawn, clock=clock, offer=self.offer)

    # ── how it stands ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def status(self) -> ServerStatus:
        """Whether it runs."""
        return self._life.standing.status

    @property
    def error(self) -> str | None:
        """Why it does not run; of one that is ready, why its last listing failed."""
        return self._life.standing.error

    @property
    def protocol_version(self) -> str | None:
        """What was agreed on; None: it does not run."""
        return None if self._life.connection is None else self._life.connection.protocol_version

    @property
    def dropped(self) -> tuple[str, ...]:
        """What it sent, since it was started, that nobody asked for; each kind once."""
        return () if self._life.connection is None else tuple(self._life.connection.dropped)

    @property
    def asked_roots(self) -> bool:
        """Whether it has asked for our roots since it was started."""
        return self._life.connection is not None and self._life.connection.asked_roots

    def watch(self, listener: Callable[[LiveServer], None]) -> Callable[[], None]:
        """Call this on the loop after any change of status, error or tools. The answer ends it."""
        return self._life.standing.watch(lambda: listener(self))

    async def settled(self) -> None:
        """Until it is not starting; `startup_timeout_s` bounds that."""
        await self._life.standing.settled()

    # ── what it offers ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def tools(self) -> tuple[RemoteTool, ...]:
        """As it last said; by name."""
        return self.offer.toolset.tools

    @property
    def known(self) -> bool:
        """Whether it has ever said what it offers, in this run or an earlier one."""
        return self.offer.known

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of its list was left out or cut, and why."""
        return self.offer.toolset.warnings

    @property
    def digest(self) -> str:
        """Of all tools: equal for equal ones, over restarts too (C18)."""
        return self.offer.toolset.digest

    @property
    def latency_ms(self) -> int | None:
        """Of the last start or listing."""
        return self.offer.latency_ms

    def stale(self, now: float) -> bool:
        """Whether the time is over for which it said that its list holds; `now` is monotonic."""
        return self._life.connection is not None and self.offer.stale(now)

    async def refresh(self) -> None:
        """Ask it again what it offers; starts it if need be. McpError: that failed, and what was known stays."""
        await self._life.list_again()

    # ── to use ───────────────────────────────────────────────────────────────────────────────────────────────

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
        """Call a tool; starts the server if need be, or says in an McpError why it does not and when it will.

        A tool that is another one by then than `pinned`, or than when this was called, is not called (C1).
        """
        seen = pinned or self.offer.find(tool)
        self.calls += 1
        try:
            connection = await self._life.reach()
            await self._life.catch_up()
            offered = self.offer.find(tool)
            if offered is None:
                raise server_error(self.definition.name, "refused", f"the server has no tool {tool!r:.80}")
            if seen is not None and offered is not seen and offered != seen:
                sentence = f"the server defines {tool!r:.80} otherwise than before; refresh the view first"
                raise server_error(self.definition.name, "refused", sentence)
            return await connection.call(tool, arguments, caller, timeout_s=timeout_s, on_progress=on_progress)
        finally:
            self.calls -= 1

    def start(self, *, insist: bool = False) -> None:
        """Begin to start it, unless it runs or starts already. `insist`: and again by itself whenever it fails."""
        self._life.restarts |= insist
        self._life.start()

    def relax(self) -> None:
        """Nobody insists any more."""
        self._life.restarts = False

    def halt(self, *, for_good: bool = False) -> None:
        """Begin to stop it. A later call starts it again, unless this is for good."""
        self._life.halt(for_good=for_good)

    async def stop(self) -> None:
        """Until it has stopped, as far as it does within some seconds."""
        self._life.halt()
        await self._life.ended()
