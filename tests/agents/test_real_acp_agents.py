"""Real ACP agents as conversations of a session, offline: codex-acp, Gemini, claude-agent-acp, opencode, Qwen Code.

They talk to a provider on loopback that keeps every request: what an agent knows of a conversation is what it sends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tertulia.session.mcp.external_calls import call_externally
from tests.agents.acp_installed import REAL_ACP, RealAcpAgent
from tests.agents.acp_wires import Wires, conversation_of
from tests.agents.provider import Provider, provider
from tests.executors.agents import until
from tests.session.lives import Lives, durable_events
from tests.session.mcp_stage import server
from tests.session.staging import Stage, stage

BIN = Path(sys.executable).parent
CLOCK = {"command": str(BIN / "mcp-server-time"), "args": ["--local-timezone", "UTC"], "approval": "approve"}
TOOLS = {
    "codex": "mcp__tertulia::clock__get_current_time",
    "gemini": "mcp_tertulia_clock__get_current_time",
    "claude": "mcp__tertulia__clock__get_current_time",
    "opencode": "tertulia_clock__get_current_time",
    "qwen": "mcp__tertulia__clock__get_current_time",
    "copilot": "tertulia-clock__get_current_time",
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(params=list(REAL_ACP))
def agent(request: pytest.FixtureRequest) -> RealAcpAgent:
    found = REAL_ACP[request.param]
    found.program()
    return found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def mock() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def wires(mock: Provider) -> Wires:
    return Wires(mock)


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@asynccontextmanager
async def session(agent: RealAcpAgent, home: Path, work: Path, mock: Provider, **fields: Any) -> AsyncIterator[Stage]:
    table = agent.table(home, mock.url)
    fields = {"sandbox": agent.sandbox, **fields}
    async with stage(acp={agent.name: table}, cwd=str(work), **fields) as acting:
        yield acting


def times(body: str, text: str) -> int:
    return body.count(json.dumps(text)[1:-1])


def processes(work: Path) -> list[int]:
    """Those that were started in this directory."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(work):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


async def kill(acting: Stage, conversation: str, work: Path) -> None:
    """Until we have heard of it."""
    backend: Any = acting.parts.scheduler._runner._find_backend(acting.parts.conversations.find(conversation))
    (seat,) = backend._executor._idle_agents.values()
    for pid in processes(work):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await until(lambda: seat.process.pipe.is_over and not processes(work))


async def test_three_follow_ups_a_kill_and_a_restart(
    agent: RealAcpAgent, home: Path, work: Path, mock: Provider, wires: Wires
) -> None:
    """Issue 11: each earlier question and answer is in the request exactly once, before and after the agent's death."""
    async with session(agent, home, work, mock) as acting:
        conversation = await acting.session.open(backend=agent.backend, base_instructions="always-say-plover")
        answers: list[str] = []
        for number in range(1, 6):
            if number == 5:
                await kill(acting, conversation.id, work)
            before = len(wires.bodies)
            reply = await conversation.message(f"my-question-number-{number}.")
            assert reply.status == "completed", reply.error
            # Some ask for suggestions besides, when they have answered.
            body = next(body for body in wires.bodies[before:] if f"my-question-number-{number}." in body)
            answers.append(reply.text or "")
            texts = [f"my-question-number-{at}." for at in range(1, number + 1)]
            texts += answers[:-1]
            assert {text: times(conversation_of(body), text) for text in texts} == dict.fromkeys(texts, 1)
            assert times(body, "always-say-plover") >= 1
        assert len(set(answers)) == 5
    assert not processes(work)


async def test_after_a_restart_of_the_session_it_takes_its_own_up(
    agent: RealAcpAgent, home: Path, work: Path, wires: Wires, lives: Lives, mock: Provider
) -> None:
    """S003-21, S003-32: resume after restart, by its own session, with each question and answer there once.

    Gemini throws a session away when it leaves: it is told the transcript, and an event says so.
    """
    forgets = agent.name == "gemini"
    settings: dict[str, Any] = {
        "acp": {agent.name: agent.table(home, mock.url)}, "cwd": str(work), "sandbox": agent.sandbox,
    }  # fmt: skip
    async with lives.start(**settings) as first:
        conversation = await first.open(backend=agent.backend)
        answer = (await conversation.message("my-question-number-1.")).text or ""
    assert answer
    async with lives.resumed(first.id, **settings) as second:
        reply = await second.conversation(conversation.id).message("my-question-number-2.")
        assert reply.status == "completed", reply.error
        codes = [event.data.code for event in durable_events(second) if event.type == "warning"]
        assert codes.count("resume_failed") == forgets
    body = next(body for body in wires.bodies if "my-question-number-2." in body)
    assert [times(conversation_of(body), text) for text in ("my-question-number-1.", answer)] == [1, 1]
    assert ("Conversation History" in body) == forgets
    assert not processes(work)


async def test_cancelled_in_mid_run_it_stops_and_goes_on(
    agent: RealAcpAgent, home: Path, work: Path, mock: Provider, wires: Wires
) -> None:
    """Issue 11: cancel in mid-run; the next message is answered."""
    async with session(agent, home, work, mock) as acting:
        conversation = await acting.session.open(backend=agent.backend)
        mock.going.clear()
        task = acting.begin(conversation.message("my-question"))
        await until(lambda: wires.bodies)
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        mock.going.set()
        reply = await conversation.message("again")
        assert reply.status == "completed", reply.error


async def test_an_interrupt_before_its_first_word_throws_no_memory_away_in_silence(
    agent: RealAcpAgent, home: Path, work: Path, mock: Provider, wires: Wires
) -> None:
    """Issue 25, 5: its own session goes on where it confirmed that it stopped; else an event names the transcript."""
    async with session(agent, home, work, mock) as acting:
        conversation = await acting.session.open(backend=agent.backend)
        answer = (await conversation.message("my-question-number-1.")).text or ""
        count = len(wires.bodies)
        mock.going.clear()
        task = acting.begin(conversation.message("my-question-number-2."))
        await until(lambda: len(wires.bodies) > count)
        await conversation.interrupt()
        assert (await task).status == "interrupted"
        mock.going.set()
        count = len(wires.bodies)
        reply = await conversation.message("my-question-number-3.")
        assert reply.status == "completed", reply.error
        codes = [event.data.code for event in acting.events.drain() if event.type == "warning"]
    body = next(body for body in wires.bodies[count:] if "my-question-number-3." in body)
    texts = ["my-question-number-1.", answer, "my-question-number-2."]
    assert {text: times(conversation_of(body), text) for text in texts} == dict.fromkeys(texts, 1)
    assert ("Conversation History" in body) == ("resume_failed" in codes)
    if agent.name == "gemini":
        # It confirms, and drops the question that it was stopped in.
        assert "resume_failed" in codes
    assert not processes(work)


async def test_it_calls_a_tool_of_ours(
    agent: RealAcpAgent, home: Path, work: Path, mock: Provider, wires: Wires
) -> None:
    """DESIGN: its one MCP server is ours, with the conversation's view; what it asks before it calls is asked of us."""
    wires.calls.append((TOOLS[agent.name], {"timezone": "Asia/Tokyo"}))
    async with session(agent, home, work, mock, mcp_servers={"clock": CLOCK}) as acting:
        async with acting.session.events(attend=True) as events:
            conversation = await acting.session.open(backend=agent.backend)
            task = acting.begin(conversation.message("what time is it?"))
            async for event in events:
                if event.type == "approval_request":
                    await acting.session.approvals.resolve(event.data.approval_id, "allow")
                if event.type == "task_complete":
                    break
        reply = await task
        assert reply.status == "completed", reply.error
        ended = [event.data for event in acting.events.drain() if event.type == "tool_call_end"]
        assert ("clock__get_current_time", True) in [(end.name, end.success) for end in ended]
    assert "Asia/Tokyo" in conversation_of(wires.bodies[-1])


async def test_tools_that_come_after_its_session_began_reach_it_in_the_next_task(
    agent: RealAcpAgent, home: Path, work: Path, mock: Provider, wires: Wires
) -> None:
    """Issue 25, 5: whether it lists tools again or not; where it does not, it starts again, with its own memory."""
    if agent.name == "qwen":
        pytest.skip("Qwen Code has its model search for tools of servers, and names none in a request")
    later = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("define", "later")]
    async with session(agent, home, work, mock, mcp_servers={"zoo": server("define")}) as acting:
        conversation = await acting.session.open(backend=agent.backend)
        answer = (await conversation.message("my-question-number-1.")).text or ""
        (listed,) = [tool for tool in conversation.tools() if tool.source == "mcp"]
        assert "zoo__later" not in wires.bodies[-1]
        await call_externally(
            acting.parts, acting.parts.conversations.find(conversation.id), listed.name,
            json.dumps({"tools": later}), ("mcp",), lambda _: None,
        )  # fmt: skip
        await acting.session.mcp.refresh()
        count = len(wires.bodies)
        reply = await conversation.message("my-question-number-2.")
        assert reply.status == "completed", reply.error
        events = acting.events.drain()
        codes = [event.data.code for event in events if event.type == "warning"]
    body = next(body for body in wires.bodies[count:] if "my-question-number-2." in body)
    assert "zoo__later" in body
    assert {text: times(conversation_of(body), text) for text in ("my-question-number-1.", answer)} == {
        "my-question-number-1.": 1, answer: 1,
    }  # fmt: skip
    assert ("Conversation History" in body) == ("resume_failed" in codes)
    assert not processes(work)


COMMANDS = {
    "codex": ("exec_command", {"cmd": "touch made-by-agent", "sandbox_permissions": "require_escalated",
                               "justification": "because"}),
    "gemini": ("run_shell_command", {"command": "touch made-by-agent", "description": "make it"}),
    "claude": ("Bash", {"command": "touch made-by-agent", "description": "make it"}),
    "copilot": ("bash", {"command": "touch made-by-agent", "description": "make it"}),
    "qwen": ("run_shell_command", {"command": "touch made-by-agent", "description": "make it", "is_background": False}),
}  # fmt: skip


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_an_approval_is_answered(
    agent: RealAcpAgent, home: Path, work: Path, mock: Provider, wires: Wires, decision: Any
) -> None:
    """Issue 11: an approval answered yes and no, and the command ran or did not."""
    if agent.name not in COMMANDS:
        pytest.skip(f"{agent.name} asks before no command unless its own settings say so")
    wires.calls.append(COMMANDS[agent.name])
    async with session(agent, home, work, mock, approval_policy="untrusted") as acting:
        async with acting.session.events(attend=True) as events:
            conversation = await acting.session.open(backend=agent.backend)
            task = acting.begin(conversation.message("make it"))
            count = 0
            async for event in events:
                if event.type == "approval_request":
                    count += 1
                    await acting.session.approvals.resolve(event.data.approval_id, decision)
                if event.type in ("task_complete", "error", "turn_aborted"):
                    break
        await task
        assert count == 1
    assert (work / "made-by-agent").exists() == (decision == "allow")


def _own_server(agent: str, home: Path, command: list[str]) -> None:
    """Into the agent's own settings, as a user would write it."""
    program, *arguments = command
    named: dict[str, Any] = {"mcpServers": {"own": {"command": program, "args": arguments}}}
    places = {"gemini": ".gemini/settings.json", "qwen": ".qwen/settings.json", "claude": ".claude.json"}
    places["copilot"] = ".copilot/mcp-config.json"
    if agent == "codex":
        with (home / ".codex" / "config.toml").open("a") as file:
            file.write(f"[mcp_servers.own]\ncommand = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n")
        return
    path = home / places.get(agent, ".config/opencode/opencode.json")
    if agent == "opencode":
        own = {"type": "local", "command": command, "enabled": True}
        # One that is called like ours must not be started either, and not keep ours from being used.
        named = {"mcp": {"own": own, "tertulia": own}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | named))


async def test_no_mcp_server_but_ours_is_ever_started(
    agent: RealAcpAgent, home: Path, work: Path, mock: Provider, wires: Wires
) -> None:
    """DESIGN: exactly one MCP server. codex-acp starts those of its own settings whatever it is told."""
    started = work / "started"
    async with session(agent, home, work, mock) as acting:
        _own_server(agent.name, home, ["touch", str(started)])
        conversation = await acting.session.open(backend=agent.backend)
        reply = await conversation.message("hello")
        assert reply.status == "completed", reply.error
        # Qwen has its model search for tools of servers.
        assert ("conv_list" in wires.bodies[0]) == (agent.name != "qwen")
    assert not started.exists()
