"""What a server offers, as it last said: taken from a connection, and written down for the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tertulia.events.clock import Clock
from tertulia.mcp.server import Connection, Listing, RemoteTool
from tertulia.mcp.toolset import Toolset

LEAST_TTL_S = 5.0
"""A server that gave it no thought says that its list holds for 0 s."""
_SMALL_BYTES = 64 * 1024


class Offer:
    """The tools of the last listing that went well. A failed one changes nothing but when to try again."""

    def __init__(self, clock: Clock, known: Toolset | None, keep: Callable[[Toolset], None] | None) -> None:
        """`known`: from an earlier run. `keep`: writes down what is new; blocks."""
        self.toolset = known or Toolset.of(())
        self.known = known is not None
        """Whether it has ever been listed, in this run or an earlier one."""
        self.revision = 0
        """Goes up whenever the tools become other ones."""
        self.latency_ms: int | None = None
        """Of the last listing, and of the start if it was the first."""
        self._clock = clock
        self._keep = keep
        self._written = known and known.digest
        self._ttl_s: float | None = None
        self._listed_at = 0.0
        self._by_name = {tool.name: tool for tool in self.toolset.tools}

    def find(self, name: str) -> RemoteTool | None:
        """The tool of that name."""
        return self._by_name.get(name)

    def stale(self, now: float) -> bool:
        """Whether the time is over for which the list was said to hold; `now` is monotonic."""
        return self._ttl_s is not None and now >= self._listed_at + self._ttl_s

    async def take(self, connection: Connection, began: float) -> bool:
        """List the tools. Whether they are others than before; McpError, and they are what they were.

        `began`: when somebody began to wait for it.
        """
        try:
            listing = await connection.list_tools()
        finally:
            self._listed_at = self._clock.monotonic()
        self.latency_ms = round((self._listed_at - began) * 1000)
        self._ttl_s = None if listing.ttl_s is None else max(listing.ttl_s, LEAST_TTL_S)
        self.known = True
        toolset = await self._toolset(listing)
        if toolset == self.toolset:
            return False
        self.revision += toolset.digest != self.toolset.digest
        self.toolset = toolset
        self._by_name = {tool.name: tool for tool in toolset.tools}
        return True

    async def _toolset(self, listing: Listing) -> Toolset:
        if listing.size <= _SMALL_BYTES:
            return Toolset.of(listing.tools, listing.left_out, self.toolset)
        # The schemas of a large one take a while, and others have the loop to use.
        return await asyncio.to_thread(Toolset.of, listing.tools, listing.left_out, self.toolset)

    async def write_down(self) -> None:
        """Unless it stands there already."""
        if self._keep is not None and self._written != self.toolset.digest:
            self._written = self.toolset.digest
            # Done even if the server is stopped right now: a short session would else never come to it.
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._keep, self.toolset))
