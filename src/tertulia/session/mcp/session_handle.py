"""What a user of a session holds of its MCP servers. A handle keeps nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tertulia.session.parts import SessionParts

if TYPE_CHECKING:
    # Loaded when it is used: most sessions have no server.
    from tertulia.session.mcp.answers import McpServerInfo


class McpServers:
    """The MCP servers that a session uses."""

    __slots__ = ("_parts",)

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    async def status(self) -> list[McpServerInfo]:
        """Every server with its status, figures, users and withheld tools, once none is starting any more."""
        await self._parts.servers.settle()
        return self._infos()

    async def ready(self, *, required_only: bool = False) -> None:
        """Wait for the servers that are required, and within their grace for all others; events tell what it waits for.

        Args:
            required_only: Not for the others: the first task waits for them.

        Raises:
            McpError: A server that is required did not start.
        """
        from tertulia.session.assembly import wait_for_servers

        await wait_for_servers(self._parts, required_only=required_only)

    async def refresh(self, names: Sequence[str] | None = None) -> list[McpServerInfo]:
        """Have all servers, or these, list their tools again; one that failed is tried again."""
        await self._parts.servers.refresh(names)
        return self._infos()

    def _infos(self) -> list[McpServerInfo]:
        from tertulia.session.mcp.server_infos import server_infos

        return server_infos(self._parts)
