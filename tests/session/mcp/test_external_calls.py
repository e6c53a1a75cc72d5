"""Calls from outside: the same checks and events as a model's, and nothing in the history."""

from __future__ import annotations

from typing import Any

import msgspec

from tertulia.protocol.events import EventData
from tertulia.session.mcp.external_calls import call_externally
from tertulia.session.views import refresh_when_shown
from tests.server.brokering import bare_server
from tests.session.staging import Stage, stage


async def call(acting: Stage, name: str, arguments: Any, sources: Any = ("mcp",)) -> tuple[Any, list[EventData]]:
    heard: list[EventData] = []
    conversation = acting.parts.conversations.find("root")
    refresh_when_shown(acting.parts, conversation)
    text = msgspec.json.encode(arguments).decode()
    return await call_externally(acting.parts, conversation, name, text, sources, heard.append), heard


async def test_a_call_is_told_from_beginning_to_end_and_nothing_is_said_in_the_conversation() -> None:
    async with stage(mcp_servers={"fake": bare_server()}) as acting:
        result, heard = await call(acting, "fake__echo", {"text": "hi"})
        assert (result.success, result.text) == (True, "hi")
        types = [data.type for data in heard]
        assert types == ["tool_call_begin", "mcp_tool_call_begin", "mcp_tool_call_end", "tool_call_end"]
        assert acting.root.info.message_count == 0
        assert acting.model.requests == []


async def test_what_comes_from_elsewhere_is_not_there() -> None:
    """A program that may use servers has no shell of ours by that."""
    async with stage(mcp_servers={"fake": bare_server()}) as acting:
        for name in ("shell", "update_plan", "conv_list", "nothing"):
            result, heard = await call(acting, name, {})
            assert not result.success
            assert msgspec.json.decode(result.text)["code"] == "not_found"
            assert [data.type for data in heard] == ["tool_call_begin", "tool_call_end"]
        result, _ = await call(acting, "update_plan", {"plan": []}, ("builtin",))
        assert result.success


async def test_structured_content_comes_along() -> None:
    async with stage(mcp_servers={"fake": bare_server()}) as acting:
        result, _ = await call(acting, "fake__structured", {})
        assert result.structured == {"n": 1, "list": [1, 2]}
