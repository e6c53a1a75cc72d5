"""The tools behind definitions of MCP servers and of context providers, made for the conversation that calls them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import msgspec

from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.approvals.server_requests import ServerRequests
from tertulia.session.mcp.external_calls import is_external
from tertulia.session.parts import SessionParts
from tertulia.tools.mcp_tool import McpCallServices, McpTool
from tertulia.tools.tool import CallContext, ChangingTool, Result, Tool


class RemoteTools:
    """Makes these tools, and holds what all calls share, such as the object that answers servers' requests."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        services, has_workspace = parts.command_services, not parts.settings.is_broker
        self._requests = ServerRequests(services.approvals, services.elicitations, has_workspace=has_workspace)

    def make(self, spec: ToolSpec, conversation: ConversationId) -> Tool:
        """The tool of this definition, as the conversation may call it."""
        parts = self._parts
        if spec.source == "injector":
            return InternalTool(spec, parts.agent_registry)
        return McpTool(spec, conversation, self._services)

    @cached_property
    def _services(self) -> McpCallServices:
        parts = self._parts
        approvals, timeout_s = parts.command_services.approvals, parts.settings.tool_timeout_s
        return McpCallServices(parts.servers, approvals, parts.mcp_limiter, self._requests, timeout_s)


class InternalToolDispatcher(Protocol):
    """Runs internal tools in the name of agents."""

    async def call(self, call: CallContext, tool: str, arguments: Any, source: str) -> Any:
        """Run it for the agent of the call's conversation; the scope is checked now."""
        ...


class InternalTool(ChangingTool):
    """Calls the dispatcher of internal tools from within the session, and for the broker."""

    __slots__ = ("_agent_registry", "spec")

    def __init__(self, spec: ToolSpec, agent_registry: InternalToolDispatcher) -> None:
        self.spec = spec
        self._agent_registry = agent_registry

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse nothing: the token and its scope are looked up when the tool is called."""

    async def run(self, arguments: Any, call: CallContext) -> Result:
        """Run the call as the agent of this conversation."""
        source = "mcp" if is_external(call) else "native"
        answer = await self._agent_registry.call(call, self.spec.name, arguments, source)
        return Result(answer if isinstance(answer, str) else msgspec.json.encode(answer).decode())
