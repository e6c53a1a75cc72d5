"""A tool of a context provider, as the model of a native conversation calls it."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.mcp.external_calls import is_external
from tertulia.tools.tool import CallContext, Result


class InternalToolDispatcher(Protocol):
    """Runs internal tools in the name of agents."""

    async def call(self, call: CallContext, tool: str, arguments: Any, source: str) -> Any:
        """In the name of the agent that the call's conversation is; the scope is checked now."""
        ...


class InternalTool:
    """Calls the dispatcher of internal tools from within the session, and for the broker."""

    parallel_safe = False
    read_only = False

    __slots__ = ("_agent_registry", "spec")

    def __init__(self, spec: ToolSpec, agent_registry: InternalToolDispatcher) -> None:
        self.spec = spec
        self._agent_registry = agent_registry

    def check(self, arguments: Any, call: CallContext) -> None:
        """Nothing to refuse here: whose token it is, and what that may do, is looked up when it is called."""

    async def run(self, arguments: Any, call: CallContext) -> Result:
        """As the agent that this conversation is."""
        source = "mcp" if is_external(call) else "native"
        answer = await self._agent_registry.call(call, self.spec.name, arguments, source)
        return Result(answer if isinstance(answer, str) else msgspec.json.encode(answer).decode())
