"""What one client of the broker gets: a conversation in the session that has the servers, with a named view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import asdict

from tertulia.mcp.config.named_view import NamedView
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.policy.limits import NO_LIMITS
from tertulia.session.mcp.served_tools import ServedConversation
from tertulia.session.session import Session

_INSTRUCTIONS = (
    "Tools of several MCP servers that are shared with other programs. A name is the server's, two underscores and the "
    "tool's own. A refusal is JSON with `code` and `reason`."
)


@asynccontextmanager
async def client_broker(session: Session, view: NamedView, title: str) -> AsyncGenerator[McpEndpoint]:
    """What one client gets, as long as the block lasts. InvalidParams for a view that names what there is not."""
    await asyncio.to_thread(load_sdk)
    fields: dict[str, Any] = {"title": title[:200]}
    if view.mcp_tool_allowlist is not None:
        fields["mcp_tool_allowlist"] = list(view.mcp_tool_allowlist)
    limits = {name: value for name, value in asdict(view.limits).items() if value != getattr(NO_LIMITS, name)}
    if limits:
        fields["limits"] = limits
    conversation = await session.open(**fields)
    parts = session.parts
    talk = parts.conversations.find(conversation.id)
    if view.approval is not None:
        parts.servers.approvals[talk.id] = view.approval
    broker = McpEndpoint(
        ServedConversation(parts, talk), name="tertulia", spawn=parts.nursery.start, instructions=_INSTRUCTIONS
    )
    try:
        yield broker
    finally:
        broker.close()
        await asyncio.shield(conversation.close())
