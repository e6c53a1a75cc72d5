"""The one MCP server that an executor gets, as that program sees it."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import McpError, NotRunningError
from tertulia.mcp.serve.sources import ServedCall
from tertulia.session.agents import agent_socket, tool_server
from tests.executors.acp_stage import acp_stage, answer_of, received
from tests.executors.agents import table, until
from tests.session.mcp_stage import server
from tests.session.staging import Stage, stage

CALLER = table("caller", server=["--server", "{command}", "{args}"])


@asynccontextmanager
async def visited(**fields: Any) -> AsyncIterator[Stage]:
    """A session with an agent that calls the tools that its prompt names, and a server with two tools."""
    config = {"mcp_servers": {"fs": server("pid", "env")}, "executors": {"caller": CALLER}, **fields}
    async with stage(*config.pop("replies", ()), **config) as acting:
        yield acting


async def call_results(conversation: Any, *names: str) -> dict[str, Any]:
    reply = await conversation.message(json.dumps([{"name": name, "arguments": {}} for name in names]))
    assert reply.status == "completed", reply.error
    return json.loads(reply.text)


async def test_it_has_the_view_of_its_conversation_and_can_look_around() -> None:
    """DESIGN: exactly one MCP server, ours; conv_create and conv_send are not there, conv_list works."""
    async with visited() as acting:
        conversation = await acting.session.open(backend="command:caller", mcp_tool_allowlist=["fs__pid"])
        answer = await call_results(conversation, "fs__pid", "conv_list", "fs__env", "conv_create", "conv_destroy")
        assert answer["tools"] == ["conv_list", "conv_history", "fs__pid"]
        read, listed, *refused = answer["results"]
        assert read
        assert json.loads(listed)["ok"] is True
        codes = [json.loads(text)["code"] for text in refused]
        assert codes[1:] == ["unsupported_by_backend", "unsupported_by_backend"]
        assert codes[0] != "unsupported_by_backend"
        assert answer["code"] == 0
        assert acting.outputs(conversation) == []


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_program_that_asks_before_it_acts_gets_the_answer_of_the_session(decision: Any) -> None:
    """Issue 25, 6: by the approval policy, its scopes and rights; every question is an approval event."""
    asking = {"tool_name": "Bash", "input": {"command": "rm -r x"}, "tool_use_id": "toolu-1"}
    calls = [
        {"name": "approve_own_tool", "arguments": arguments} for arguments in (asking, {"tool_name": "Bash"}, asking)
    ]
    agent = table("caller", server=["--server", "{command}", "{args}"], can_ask=True, output="text", resume=[])
    rights = {"sandbox": "danger-full-access", "approval_policy": "untrusted"}
    async with stage(mcp_servers={}, executors={"claude": agent, "caller": CALLER}, **rights) as acting:
        conversation = await acting.session.open(backend="claude")
        questions: list[Any] = []

        async def decide(request: Any) -> Any:
            questions.append(request)
            return decision

        async with acting.session.approvals.answer_with(decide):
            answer = json.loads((await conversation.message(json.dumps(calls))).text or "")
        first, refused, again = map(json.loads, answer["results"])
        assert first == again
        assert first["behavior"] == decision
        assert first.get("updatedInput") == (asking["input"] if decision == "allow" else None)
        assert refused["code"] == "invalid_params"
        assert [(question.title, question.kind) for question in questions] == [("claude: Bash: rm -r x", "exec")] * 2
        kinds = [event.type for event in acting.events.drain()]
        assert kinds.count("approval_request") == kinds.count("approval_resolved") == 2
    rights = {"sandbox": "danger-full-access", "approval_policy": "on-request"}
    async with stage(mcp_servers={}, executors={"claude": agent}, **rights) as acting:
        conversation = await acting.session.open(backend="claude")
        answer = json.loads((await conversation.message(json.dumps(calls[:1]))).text or "")
        assert json.loads(answer["results"][0])["behavior"] == "allow"


async def test_a_program_that_does_not_ask_that_way_has_no_such_tool() -> None:
    """Issue 25, 6: a question to nobody is refused."""
    call = {"name": "approve_own_tool", "arguments": {"tool_name": "Bash", "input": {}}}
    async with stage(mcp_servers={}, executors={"caller": CALLER}) as acting:
        conversation = await acting.session.open(backend="command:caller")
        answer = json.loads((await conversation.message(json.dumps([call]))).text or "")
        assert "approve_own_tool" not in answer["tools"]
        assert json.loads(answer["results"][0])["ok"] is False


def _double(number: int) -> str:
    """Twice a number."""
    return str(2 * number)


async def test_functions_of_the_user_are_offered_like_tools_of_servers() -> None:
    """Issue 25, 5: under the conversation's rights, which are checked at the call; with the events of any call."""
    calls = [{"name": "_double", "arguments": {"number": number}} for number in (21, "x")]
    async with stage(mcp_servers={}, executors={"caller": CALLER}) as acting:
        conversation = await acting.session.open(backend="command:caller", tools=[_double])
        reply = await conversation.message(json.dumps(calls))
        answer = json.loads(reply.text or "")
        assert "_double" in answer["tools"]
        doubled, refused = answer["results"]
        assert doubled == "42"
        assert json.loads(refused)["code"] == "invalid_params"
        ends = [event.data for event in acting.events.drain() if event.type == "tool_call_end"]
        assert [(end.name, end.success) for end in ends] == [("_double", True), ("_double", False)]
        other = await acting.session.open(backend="command:caller")
        answer = json.loads((await other.message(json.dumps(calls))).text or "")
        assert "_double" not in answer["tools"]
        assert all(json.loads(text)["ok"] is False for text in answer["results"])


async def test_a_function_that_hands_over_is_refused_and_its_call_ends() -> None:
    """Issue 25, 5: no task of a foreign agent waits for another conversation."""
    from tertulia.tools.tool import Handoff, Result

    def passed(note: str) -> Handoff:
        """Passes it on."""
        return Handoff(acting.session.root.id, (), lambda result: Result("never"))

    async with stage(mcp_servers={}, executors={"caller": CALLER}, tools=[passed]) as acting:
        conversation = await acting.session.open(backend="command:caller")
        reply = await conversation.message(json.dumps([{"name": "passed", "arguments": {"note": "x"}}]))
        (refused,) = json.loads(reply.text or "")["results"]
        assert json.loads(refused)["code"] == "unsupported_by_backend"
        kinds = [event.type for event in acting.events.drain()]
        assert kinds.count("tool_call_begin") == kinds.count("tool_call_end") == 1


async def test_tools_that_come_later_are_offered_in_the_next_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Issue 25, 5: an agent that lists once is started again with its own session, and an event says so."""
    monkeypatch.setenv("HOME", str(tmp_path))
    later = {
        "tools": [
            {"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("define", "later")
        ]
    }
    define = json.dumps({"name": "fs__define", "arguments": later})
    async with acp_stage("load", mcp_servers={"fs": server("define")}) as acting:
        conversation = await acting.session.open(backend="acp:fake")
        first = json.loads(await answer_of(conversation, f"call {define}"))
        assert "fs__later" not in first["tools"]
        await acting.session.mcp.refresh()
        memory = json.loads(await answer_of(conversation, "hello"))
        assert memory["heard"] == [f"call {define}", "hello"]
        events = acting.events.drain()
        texts = [event.data.message for event in events if event.type == "background_event"]
        assert [text for text in texts if "starts again, because the tools" in text]
        assert not [event for event in events if event.type == "warning"]
        assert "fs__later" in json.loads(await answer_of(conversation, f"call {define}"))["tools"]
        before = len(received(tmp_path, "session/load"))
        await answer_of(conversation, "hello")
        assert len(received(tmp_path, "session/load")) == before


async def test_the_strictest_of_the_chain_holds_for_it() -> None:
    """No confused deputy: who asks it through a conversation that may less gets no more from it."""
    brief = {"user_instruction": json.dumps([{"name": "fs__env", "arguments": {}}]), "backend": "command:caller"}
    call = {"name": "conv_create", "arguments": brief}
    async with visited(replies=[{"tool_calls": [call]}, "done"]) as acting:
        narrow = await acting.session.open(mcp_tool_allowlist=["fs__pid"])
        await narrow.message("have it written")
        (output,) = acting.outputs(narrow)
        answer = json.loads(json.loads(output.text)["last_assistant_message"])
        assert "fs__env" not in answer["tools"]
        assert json.loads(answer["results"][0])["ok"] is False


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
            answer = await call_results(conversation, "fs__pid")
        assert len(titles) == 1
        assert ('"ok":false' in answer["results"][0]) == (decision == "deny")


async def test_it_has_its_server_also_where_the_session_has_no_other_tools() -> None:
    """Issue 17, item 15; DESIGN: executors get exactly one MCP server, ours, and always."""
    async with visited(mcp_servers={}) as acting:
        conversation = await acting.session.open(backend="command:caller")
        answer = await call_results(conversation, "conv_list")
        assert answer["tools"] == ["conv_list", "conv_history"]
        assert json.loads(answer["results"][0])["ok"] is True


async def test_where_mcp_is_not_installed_it_works_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session without that extra has no servers to serve, and its agents no reason to fail."""

    def missing() -> None:
        raise McpError("serving MCP needs the `mcp` extra")

    monkeypatch.setattr(tool_server, "load_sdk", missing)
    async with visited(mcp_servers={}) as acting:
        conversation = await acting.session.open(backend="command:caller")
        assert await call_results(conversation) == {"tools": None}


async def test_the_socket_goes_with_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with visited() as acting:
        conversation = await acting.session.open(backend="command:caller")
        await call_results(conversation)
        assert list(tmp_path.glob("tertulia-agent-*")) == []


INFO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INFO}


NONSENSE = (b"\0\xff\n" * 100, b"x" * 200_000, b"[" * 50_000 + b"\n", b'{"jsonrpc": "2.0", "id"', b"{}\n" * 99)


async def _connected(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(path, limit=1 << 24)


async def _greeted(path: str) -> bool:
    """Whether somebody new is served."""
    reader, writer = await _connected(path)
    try:
        writer.write(json.dumps(HELLO).encode() + b"\n")
        return b"serverInfo" in await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()


async def test_whoever_misbehaves_there_harms_nobody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Issue 11, bad input: nonsense, lines without end, half a request, calls before a greeting, a crowd."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tool_server, "MAX_LINE", 100_000)
    config = table("socket", server=["--server", "{command}", "{args}"])
    async with visited(executors={"told": config}) as acting:
        conversation = await acting.session.open(backend="command:told")
        task = acting.begin(conversation.message("hello"))
        await until(lambda: (tmp_path / "socket").exists() and (tmp_path / "socket").read_text())
        path = (tmp_path / "socket").read_text()
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "fs__pid", "arguments": {}}}
        for data in (
            b"\0\xff\n" * 100,
            b"x" * 200_000,
            b"[" * 50_000 + b"\n",
            b'{"jsonrpc": "2.0", "id"',
            b"{}\n" * 99,
        ):
            _, writer = await _connected(path)
            with suppress(OSError):
                writer.write(data)
                await writer.drain()
            writer.close()
            assert await _greeted(path)
        reader, writer = await _connected(path)
        writer.write(json.dumps(call).encode() + b"\n")
        assert b"error" in await reader.readline()
        writer.close()
        crowd = [await _connected(path) for _ in range(agent_socket.MAX_CLIENTS + 5)]
        for reader, writer in crowd[agent_socket.MAX_CLIENTS :]:
            assert await reader.read() == b""
            writer.close()
        for _, writer in crowd:
            writer.close()
        for _ in range(1_000):
            if await _greeted(path):
                break
        else:
            pytest.fail("those who left still count")
        await asyncio.to_thread((tmp_path / "gate").write_text, "done")
        assert (await task).text == "done"
        assert not Path(path).exists()


# ---- the one MCP server of an agent that stays: a socket for a conversation, open to calls while a task


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = tmp_path / "agent-home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


async def _nobody(*_: object) -> object:
    raise AssertionError


async def test_one_socket_serves_every_task_of_a_conversation_and_goes_with_it(home: Path) -> None:
    """DESIGN: exactly one MCP server. Only this user can reach it; another conversation has another."""
    async with acp_stage() as acting:
        one, two = [await acting.session.open(backend="acp:fake") for _ in range(2)]
        for conversation in (one, two, one):
            answer = json.loads(await answer_of(conversation, 'call {"name": "conv_list", "arguments": {}}'))
            assert answer["answer"]["isError"] is False
        agent_sockets = [Path(params["mcpServers"][0]["args"][-1]) for params in received(home, "session/new")]
        assert len(set(agent_sockets)) == 2
        assert all(stat.S_IMODE(agent_socket.parent.stat().st_mode) == 0o700 for agent_socket in agent_sockets)
        await one.close()
        assert [agent_socket.exists() for agent_socket in agent_sockets] == [False, True]
    assert not agent_sockets[1].parent.exists()


async def test_between_two_tasks_nothing_can_be_called(home: Path) -> None:
    """DESIGN: rights are those of the task, and there is none; tools can be looked at."""
    async with acp_stage() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        await answer_of(conversation, "hello")
        (executor,) = [
            resource for resource in acting.parts.command_services.resources._all if hasattr(resource, "_lasting")
        ]
        (room,) = executor._lasting.values()
        assert [tool.name for tool in await room.tools.tools()] == ["conv_list", "conv_history"]
        call = ServedCall("conv_list", {}, "x", False, _nobody, lambda *_: None)  # type: ignore[arg-type]
        with pytest.raises(NotRunningError):
            await room.tools.call(call)
