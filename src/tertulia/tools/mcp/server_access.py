"""The interface between a tool of an MCP server and those who reach the server, and the people, for it."""

from __future__ import annotations

from typing import Any, Protocol

from tertulia.errors import McpError
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.server_connection import Caller, CallResult, OnProgress, RemoteTool
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.tools.tool import CallContext


def withheld_error(name: str) -> McpError:
    """Why a call is refused whose tool is not what was shown."""
    return McpError(f"{name} is withheld: its definition changed; call set_context with refresh_mcp_view")


class RemoteToolState(Protocol):
    """A tool as it is now, whatever a view has pinned."""

    @property
    def definition(self) -> ServerDefinition:
        """Its server's."""
        ...

    @property
    def tool(self) -> RemoteTool:
        """Under the server's own name for it."""
        ...

    @property
    def digest(self) -> str:
        """Comparable with the one that a spec carries."""
        ...

    @property
    def shared(self) -> str | None:
        """What its server is called among all sessions that share it; None: this one has it for itself."""
        ...


class ReachableServers(Protocol):
    """The session's MCP servers.

    Contract: McpError and nothing else but a cancellation. A cancelled call is cancelled at the server too.
    """

    def current(self, spec: ToolSpec) -> RemoteToolState:
        """What the server says of it now; McpError when the server is not there, or the tool is gone."""
        ...

    async def call(
        self, spec: ToolSpec, arguments: dict[str, Any], caller: Caller, *, timeout_s: float, on_progress: OnProgress
    ) -> CallResult:
        """One call, whoever may see it: that was checked."""
        ...


class CallerFactory(Protocol):
    """Whoever asks people and models in the name of a call."""

    def caller(self, definition: ServerDefinition, call: CallContext) -> Caller:
        """How this server can ask back while this call lasts."""
        ...
