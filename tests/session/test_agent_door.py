"""The one MCP server that another agent gets, as that agent sees it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.executors.agents import table
from tests.session.mcp_stage import server
from tests.session.staging import Stage, stage

CALLER = table("caller", server=["--server", "{command}", "{args}"])


@asynccontextmanager
async def visited(**fields: Any) -> AsyncIterator[Stage]:
    """A session with an agent that calls the tools that its prompt names, and a server with two tools."""
    given = {"mcp_servers": {"fs": server("pid", "env")}, "executors": {"caller": CALLER}, **fields}
    async with stage(*given.pop("replies", ()), **given) as acting:
        yield acting


async def asked(conversation: Any, *names: str) -> dict[str, Any]:
    reply = await conversation.message(json.dumps([{"name": name, "arguments": {}} for name in names]))
    assert reply.status == "completed", reply.error
    return json.loads(reply.text)


async def test_it_has_the_view_of_its_conversation_and_can_look_around() -> None:
    """DESIGN: exactly one MCP server, ours; conv_create and conv_send are not there, conv_list works."""
    async with visited() as acting:
        conversation = await acting.session.open(backend="command:caller", mcp_tool_allowlist=["fs__pid"])
        answer = await asked(conversation, "fs__pid", "conv_list", "fs__env", "conv_create", "conv_destroy")
        assert answer["tools"] == ["conv_list", "conv_history", "fs__pid"]
        read, listed, *refused = answer["results"]
        assert read
        assert json.loads(listed)["ok"] is True
        codes = [json.loads(text)["code"] for text in refused]
        assert codes[1:] == ["unsupported_by_backend", "unsupported_by_backend"]
        assert codes[0] != "unsupported_by_backend"
        assert answer["code"] == 0
        assert acting.outputs(conversation) == []


async def test_the_strictest_of_the_chain_holds_for_it() -> None:
    """No confused deputy: who asks it through a conversation that may less gets no more from it."""
    brief = {"user_instruction": json.dumps([{"name": "fs__env", "arguments": {}}]), "backend": "command:caller"}
    call = {"name": "conv_create", "arguments": brief}
    async with visited(replies=[{"tool_calls": [call]}, "done"]) as acting:
        narrow = await acting.session.open(mcp_tool_allowlist=["fs__pid"])
        await narrow.message("have it written")
        (output,) = acting.outputs(narrow)
        told = json.loads(json.loads(output.text)["last_assistant_message"])
        assert "fs__env" not in told["tools"]
        assert json.loads(told["results"][0])["ok"] is False


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_what_has_to_be_asked_is_asked_of_the_sessions_people(decision: str) -> None:
    """Issue 11: an approval answered yes and no."""
    servers = {"fs": server("pid", approval="prompt")}
    async with visited(mcp_servers=servers) as acting:
        conversation = await acting.session.open(backend="command:caller")
        titles: list[str] = []

        async def decide(request: Any) -> str:
            titles.append(request.title)
            return decision

        async with acting.session.approvals.answer_with(decide):
            answer = await asked(conversation, "fs__pid")
        assert len(titles) == 1
        assert ('"ok":false' in answer["results"][0]) == (decision == "deny")


async def test_where_there_is_nothing_to_serve_there_is_no_server() -> None:
    """What costs nothing is not started."""
    async with visited(mcp_servers={}) as acting:
        conversation = await acting.session.open(backend="command:caller")
        assert await asked(conversation) == {"tools": None}


async def test_the_door_goes_with_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with visited() as acting:
        conversation = await acting.session.open(backend="command:caller")
        await asked(conversation)
        assert list(tmp_path.glob("tertulia-door-*")) == []
