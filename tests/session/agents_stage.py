"""Agents for tests: providers that say what the test wants, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tertulia
from tertulia.context.definitions import InternalCaller
from tertulia.protocol.items import UserMessage
from tests.session.staging import Stage

EMPLOYEE = {"name": "ada", "archetype": "employee"}
HTML = "<h1>Hello</h1>"


class Porter:
    """A provider that answers with what its attributes hold at that moment."""

    def __init__(self, name: str = "porter", *, text: str | None = None, **changes: Any) -> None:
        self.name = name
        self.priority = changes.get("priority", 30)
        self.text: str | None = text
        self.tools: list[Any] = list(changes.get("tools", ()))
        self.servers: list[Any] = list(changes.get("servers", ()))
        self.before: Callable[[], Any] = changes.get("before", lambda: None)

    async def get_mcp_servers(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> list[Any]:
        return self.servers

    async def get_tools(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> list[Any]:
        return self.tools

    async def get_system_context(self, agent_name: str, meta: tertulia.AgentInstanceMeta) -> str | None:
        waited = self.before()
        if waited is not None:
            await waited
        return self.text


def bell(name: str = "ring", scope: Any = "all") -> tertulia.ToolDefinition:
    """A tool that says who rang."""

    def ring(call: InternalCaller, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"by": call.agent_name, "with": arguments}

    return tertulia.ToolDefinition(
        name, "Rings a bell.", {"times": {"type": "integer"}}, "bell.ring", scope, None, ring
    )


def told(acting: Stage, conversation: tertulia.Conversation) -> list[str]:
    """All that was put in for it and by nobody, in order."""
    history = acting.parts.conversations.find(conversation.id).history
    return [item.text for item in history.snapshot() if isinstance(item, UserMessage) and item.injected]


def providers_of(text: list[Any]) -> list[str]:
    """Who the additions come from."""
    return [addition["provider"] for addition in text]


def names(conversation: tertulia.Conversation, source: str) -> list[str]:
    """The tools it is offered, of one source."""
    return [tool.name for tool in conversation.tools() if tool.source == source]
