"""The broker as a service: one session with its servers, and a conversation with a named view for each client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from tertulia.errors import InvalidParams
from tertulia.mcp.broker import Broker, load_sdk
from tertulia.mcp.named_view import NamedView, view_from_wire
from tertulia.policy.limits import NO_LIMITS
from tertulia.protocol.storage import HeadersOnly, strictest
from tertulia.session.brokerage import Brokerage
from tertulia.session.session import Session
from tertulia.session.settings import Settings

_INSTRUCTIONS = (
    "Tools of several MCP servers that are shared with other programs. A name is the server's, two underscores and the "
    "tool's own. A refusal is JSON with `code` and `reason`."
)


def broker_settings(settings: Settings, user_home: Path) -> Settings:
    """The user's own servers, shared by whoever comes: not a project's, and in nobody's project directory.

    What is called is written down, what is said is not: it belongs to other programs.
    """
    return replace(
        settings,
        cwd=str(user_home),
        model="scripted/tour",
        project_servers=(),
        storage_policy=strictest(settings.rights().storage_policy, HeadersOnly()),
    )


def find_view(settings: Settings, name: str | None) -> NamedView:
    """The view of that name, or the one with everything; InvalidParams says which there are."""
    if name is None:
        return NamedView(name="all")
    view = settings.mcp_views.get(name)
    if view is None:
        known = ", ".join(sorted(settings.mcp_views)) or "none"
        raise InvalidParams(f"there is no view {name[:64]!r}, [mcp_views] of the configuration has {known}")
    return view if isinstance(view, NamedView) else view_from_wire(name, view)


@asynccontextmanager
async def client_broker(session: Session, view: NamedView, title: str) -> AsyncGenerator[Broker]:
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
    broker = Broker(Brokerage(parts, talk), name="tertulia", spawn=parts.nursery.start, instructions=_INSTRUCTIONS)
    try:
        yield broker
    finally:
        broker.close()
        await asyncio.shield(conversation.close())
