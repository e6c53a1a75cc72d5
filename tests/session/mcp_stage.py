"""A session with real MCP servers: small programs of ours, started as any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import tertulia
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel, call, check_invariants, say
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare, hostile


def server(*tools: str, **fields: Any) -> dict[str, Any]:
    """The table of a bare server with these tools; it may be called without asking.

    The session waits for it, however slowly it starts on a busy machine.
    """
    command, *args = bare("--tools", ",".join(tools)) if tools else bare()
    waited = {"required": True, "startup_timeout_sec": HANG_S}
    return {"command": command, "args": args, "approval": "approve", **waited, **fields}


def bad(mode: str, **fields: Any) -> dict[str, Any]:
    """The table of one with a bad habit."""
    command, *args = hostile(mode)
    return {"command": command, "args": args, "approval": "approve", **fields}


def calls(name: str, arguments: dict[str, Any] | None = None) -> list[Any]:
    """Two replies: a call, and a word after it."""
    return [call(name, arguments or {}), say("done")]


@asynccontextmanager
async def served(servers: dict[str, Any], *replies: Any, **settings: Any) -> AsyncIterator[Session]:
    """A session with these servers and a script; its invariants are checked at the end."""
    fields = {"approval_policy": "never", **settings}
    async with tertulia.Session.start(
        tertulia.Settings(model=ScriptedModel(list(replies)), mcp_servers=servers, **fields)
    ) as session:
        events = session.events(after=0)
        yield session
    check_invariants([event async for event in events])


def names(conversation: Any) -> list[str]:
    """The MCP tools that it is offered."""
    return [tool.name for tool in conversation.tools() if tool.source == "mcp"]


async def outputs(session: Session, conversation: Any) -> list[tuple[bool, str]]:
    """Of all its calls so far: whether they worked, and what came back."""
    ends = [event for event in await so_far(session) if event.type == "tool_call_end"]
    return [(end.data.success, end.data.output) for end in ends if end.conversation_id == conversation.id]


async def so_far(session: Session) -> list[Any]:
    """All durable events until now."""
    await session.parts.bus.flush()
    last, found = session.parts.bus.last_seq, []
    async with session.events(after=0) as news:
        async for event in news:
            found.append(event)
            if event.seq == last:
                break
    return found
