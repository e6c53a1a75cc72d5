"""Agents over JSON-RPC, from the public page: opened, told who they are, drawing, and gone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Refused, serving

ADA = {"name": "ada", "archetype": "employee"}
DRAW = {"tool_calls": [{"name": "canvas_update", "arguments": {"html": "<h1>Hi</h1>", "title": "Greeting"}}]}


async def test_an_agent_is_told_who_it_is_and_has_a_canvas(tmp_path: Path) -> None:
    """S001-37, S001-49: `conversation/open` with `agent`, then `canvas/get`, `canvas/list`, `canvas/clear`."""
    async with serving(tmp_path, [DRAW, "drawn"]) as server:
        opened = await server.call("conversation/open", agent=ADA)
        agent = opened["conversation_id"]
        additions = opened["context"]["additions"]
        assert [addition["provider"] for addition in additions] == [
            "core-identity",
            "canvas",
            "workspace",
            "internal-tools",
        ]
        assert all(addition["tokens"] > 0 for addition in additions)
        assert opened["warnings"] == []
        tools = (await server.call("conversation/tools", conversation_id=agent))["tools"]
        assert [tool["name"] for tool in tools if tool["source"] == "injector"] == ["canvas_update", "canvas_clear"]
        assert (await server.say("go", agent))["status"] == "completed"
        updated = await server.event("canvas_updated", conversation_id=agent)
        assert updated["data"] == {"revision": 1, "title": "Greeting", "bytes": 11}
        shown = await server.call("canvas/get", conversation_id=agent)
        assert (shown["html"], shown["title"], shown["revision"]) == ("<h1>Hi</h1>", "Greeting", 1)
        (listed,) = (await server.call("canvas/list"))["canvases"]
        assert (listed["conversation_id"], listed["bytes"], "html" in listed) == (agent, 11, False)
        cleared = [await server.call("canvas/clear", conversation_id=agent) for _ in range(2)]
        assert [event["cleared"] for event in cleared] == [True, False]
        with pytest.raises(Refused) as refused:
            await server.call("canvas/get", conversation_id=agent)
        assert refused.value.code == "not_found"
        assert await server.end() == 0


async def test_nobody_else_is_told_anything(tmp_path: Path) -> None:
    """Without `agent` nothing is injected, for null either."""
    async with serving(tmp_path, ["hi"]) as server:
        await server.call("conversation/open", agent=ADA)
        for fields in ({}, {"agent": None}):
            opened = await server.call("conversation/open", **fields)
            assert opened["context"]["additions"] == []
            tools = (await server.call("conversation/tools", conversation_id=opened["conversation_id"]))["tools"]
            assert not [tool for tool in tools if tool["source"] == "injector"]
            with pytest.raises(Refused) as refused:
                await server.call("canvas/get", conversation_id=opened["conversation_id"])
            assert refused.value.code == "not_found"


@pytest.mark.parametrize(
    "agent",
    [{"name": "../x"}, {"name": "a" * 4096}, {"name": "a\0"}, {}, {"name": "ada", "launch_mode": "x"}, "ada", []],
)
async def test_a_bad_agent_is_refused_and_there_is_no_conversation(tmp_path: Path, agent: Any) -> None:
    """S001-51; issue 9, bad input."""
    async with serving(tmp_path, ["hi"]) as server:
        with pytest.raises(Refused) as refused:
            await server.call("conversation/open", agent=agent)
        assert (refused.value.number, refused.value.code) == (-32602, "invalid_params")
        assert len((await server.call("conversation/list"))["conversations"]) == 1
        assert not [event for event in server.events if event["type"].startswith("session:")]


async def test_what_a_conversation_is_stays(tmp_path: Path) -> None:
    async with serving(tmp_path, ["hi"]) as server:
        with pytest.raises(Refused) as refused:
            await server.call("conversation/set_context", conversation_id="root", agent=ADA)
        assert refused.value.code == "invalid_params"


@pytest.mark.parametrize("token", ["", "0" * 63, "0" * 64, "0" * 65, "F" * 64, 3, None])
async def test_a_token_that_is_none_is_invalid(tmp_path: Path, token: Any) -> None:
    """S001-47, HARDENING D6: for both operations, and nothing is told of it but that."""
    async with serving(tmp_path, ["hi"]) as server:
        await server.call("conversation/open", agent=ADA)
        for method, more in (("internal/validate_token", {}), ("internal/call", {"tool": "canvas_clear"})):
            with pytest.raises(Refused) as refused:
                await server.call(method, token=token, **more)
            assert (refused.value.number, refused.value.code) == (-32602, "invalid_params")


async def test_no_answer_and_no_event_has_a_token(tmp_path: Path) -> None:
    """S001-45: nothing of 64 hexadecimal digits is among them, and that an agent is prepared is told."""
    async with serving(tmp_path, ["hi"]) as server:
        opened = await server.call("conversation/open", agent=ADA)
        await server.say("go", opened["conversation_id"])
        ready = await server.event("session:context-ready")
        assert (ready["data"]["agentName"], ready["data"]["toolCount"]) == ("ada", 2)
        assert re.search(r"[0-9a-f]{64}", json.dumps([*server.events, opened])) is None
