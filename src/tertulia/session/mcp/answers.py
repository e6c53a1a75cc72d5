"""What `mcp/status` and `mcp/refresh` answer."""

from __future__ import annotations

from tertulia.mcp.server_connection import ServerStatus
from tertulia.protocol.ids import ConversationId
from tertulia.session.answers import Answer


class WithheldTool(Answer, frozen=True):
    """A tool that a server offers and some conversation does not get."""

    tool: str
    """Its full name; of a tool that cannot have one, the server's own name for it."""
    because: str


class McpServerInfo(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """One MCP server of a session. What is not known is left out."""

    name: str
    status: ServerStatus
    error: str | None = None
    tools: int
    """How many of its tools the session offers."""
    latency_ms: int | None = None
    """Of the last start or listing."""
    protocol_version: str | None = None
    restarts: int
    """How often it was started again after it had been ready."""
    in_flight: int
    """Calls that it has to answer now, those of other sessions included where they share it."""
    waiting: int
    """Calls of this session that a limit holds back."""
    p50_ms: float | None = None
    """Half of its last 256 calls were answered within this time."""
    p95_ms: float | None = None
    """95 of 100 of them were."""
    users: list[ConversationId]
    """The conversations that have called it, then those that see a tool of it; at most 200."""
    user_count: int
    """How many such conversations there are."""
    withheld: list[WithheldTool]
    last_error_at: str | None = None
    """When a start, a listing or a call failed last, or it ended by itself."""


class ServerList(Answer, frozen=True):
    """`mcp/status` and `mcp/refresh`: MCP servers by name."""

    servers: list[McpServerInfo]
