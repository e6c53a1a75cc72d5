"""What one client of the broker gets, and what is written down of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.named_view import NamedView
from tertulia.policy.limits import Limits
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import McpToolCallBegin, McpToolCallEnd, ToolCallEnd
from tertulia.server.mcp.broker_server import open_client_broker
from tertulia.server.mcp.broker_settings import broker_settings
from tests.server.brokering import bare_server, served_to, text
from tests.session.stored import lines, stored_bytes

SECRET = "correct-horse-battery-staple"


async def test_a_client_is_a_conversation_with_its_view_as_long_as_it_is_there() -> None:
    settings = tertulia.Settings(model="scripted/tour", mcp_servers={"fake": bare_server()})
    async with tertulia.Session.start(settings) as session:
        view = NamedView(name="v", mcp_tool_allowlist=("fake__echo",), limits=Limits(mcp_concurrency=2))
        async with open_client_broker(session, view, "v: " + "x" * 1_000):
            [_, mine] = session.conversations()
            assert mine.info.title is not None
            assert len(mine.info.title) == 200
            rights = session.parts.conversations.find(mine.id).terms.rights
            assert rights.mcp_tool_allowlist == frozenset({"fake__echo"})
            assert rights.limits.mcp_concurrency == 2
        assert len(session.conversations()) == 1
        with pytest.raises(InvalidParamsError, match="fake__ech"):
            async with open_client_broker(session, NamedView(name="v", mcp_tool_allowlist=("fake__ech",)), "v"):
                raise AssertionError
        assert len(session.conversations()) == 1


async def test_every_call_is_in_the_record_and_nothing_that_was_said() -> None:
    """Issue 8, item 6, audit: begin and end of each call, no argument and no answer."""
    given = tertulia.Settings(mcp_servers={"fake": bare_server()})
    async with tertulia.Session.start(broker_settings(given, Path("/"))) as session:
        async with served_to(session, "new") as client:
            assert text(await client.call_tool("fake__echo", {"text": SECRET})) == SECRET
            await client.call_tool("fake__nothing", {"text": SECRET})
        session_id = session.id
    told = [line.what for line in lines(session_id) if isinstance(line.what, Event)]
    calls = [event for event in told if event.type.startswith(("tool_call", "mcp_tool_call"))]
    assert [event.type for event in calls] == [
        *("tool_call_begin", "mcp_tool_call_begin", "mcp_tool_call_end", "tool_call_end"),
        *("tool_call_begin", "tool_call_end"),
    ]
    begun, ended, refused = calls[1].data, calls[2].data, calls[5].data
    assert isinstance(begun, McpToolCallBegin)
    assert isinstance(ended, McpToolCallEnd)
    assert isinstance(refused, ToolCallEnd)
    assert (begun.server, begun.tool, ended.success, refused.success) == ("fake", "echo", True, False)
    assert SECRET.encode() not in stored_bytes(session_id)
