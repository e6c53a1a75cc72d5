"""A hostile editor: whatever it sends and whenever, each request gets one clear answer and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema as s
from msgspec.structs import replace

from tertulia.server.acp.agent import serve_acp_client
from tertulia.server.jsonrpc import request_runner
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.testing import ScriptedModel, call, say
from tests.mcp.fakes.number import lives
from tests.server.acp.test_agent import refused
from tests.server.acp.test_approval_requests import MARK, asking
from tests.server.acp.test_client_servers import FAKE, pids
from tests.server.acp_editor import DEADLINE_S, Silence, _streams, editor_stage, scripted

Message = dict[str, Any]


class Raw:
    """Writes what it likes; keeps all that it reads."""

    def __init__(self, reader: Any, writer: Any, host: Host) -> None:
        self._reader = reader
        self._writer = writer
        self.host = host
        self.seen: list[Message] = []

    def send(self, **message: Any) -> None:
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def until(self, wanted: Callable[[Message], Any]) -> Message:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                self.seen.append(message := json.loads(await self._reader.readline()))
                if wanted(message):
                    return message

    async def ask(self, id: Any, method: str, **params: Any) -> Message:
        self.send(id=id, method=method, params=params)
        return await self.until(lambda message: message.get("id") == id and "method" not in message)

    async def new(self, cwd: Path, id: Any = "new") -> str:
        return (await self.ask(id, "session/new", cwd=str(cwd), mcpServers=[]))["result"]["sessionId"]

    def prompt(self, id: Any, session: str, text: str = "go") -> None:
        prompt = [{"type": "text", "text": text}]
        self.send(id=id, method="session/prompt", params={"sessionId": session, "prompt": prompt})


@asynccontextmanager
async def raw(settings: Settings) -> AsyncIterator[Raw]:
    """One that has said `initialize`."""
    host = Host(settings)
    factory = SessionFactory(
        host, lambda cwd: DirectorySettings(replace(settings, cwd=str(cwd))), current_environment(), model=True
    )
    (source, client_out), (client_in, target) = os.pipe(), os.pipe()
    serving = asyncio.create_task(serve_acp_client(factory, source, target, asyncio.Event()))
    reader, writer = await _streams(client_in, client_out)
    at = Raw(reader, writer, host)
    try:
        await at.ask("hello", "initialize", protocolVersion=1)
        yield at
    finally:
        writer.close()
        async with asyncio.timeout(DEADLINE_S):
            await serving
        reader._transport.close()
        os.close(source)
        os.close(target)
        for _ in range(3):
            await asyncio.sleep(0)
    assert not host.sessions


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────


def choice(option: str) -> Message:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@pytest.mark.parametrize(
    ("first", "second", "done"),
    [
        ({"result": choice("reject")}, {"result": choice("session")}, False),
        ({"result": choice("once")}, {"result": choice("reject")}, True),
        ({"error": {"code": 1, "message": "no"}}, {"result": choice("once")}, False),
        ({"result": {"outcome": "once"}}, {"result": choice("once")}, False),
        ({"result": choice("always and everything")}, {"result": choice("once")}, False),
        ({"result": {"outcome": {"outcome": "selected", "optionId": ["once"]}}}, {"result": choice("once")}, False),
        ({}, {"result": choice("once")}, False),
    ],
)
async def test_a_permission_is_answered_once(tmp_path: Path, first: Message, second: Message, done: bool) -> None:
    """HARDENING B6: the first answer counts, nonsense is a no, and a second one grants nothing."""
    async with raw(asking(call("shell", MARK, "c1"), "ok")) as at:
        session = await at.new(tmp_path)
        at.prompt(1, session)
        question = await at.until(lambda message: message.get("method") == "session/request_permission")
        for answer in (first, second):
            at.send(id=question["id"], **answer)
        ended = await at.until(lambda message: message.get("id") == 1)
        assert ended["result"]["stopReason"] == "end_turn"
        assert (tmp_path / "mark").exists() is done
        assert not await at.host[session].approvals.grants()
        assert not await at.host[session].approvals.pending()


async def test_a_permission_that_is_never_answered_ends_with_the_clock(tmp_path: Path) -> None:
    """HARDENING B6, B9: the editor need not show it any longer, and an answer that comes after all changes nothing."""
    async with raw(asking(call("shell", MARK, "c1"), "ok", approval_timeout_s=0.05)) as at:
        session = await at.new(tmp_path)
        at.prompt(1, session)
        question = await at.until(lambda message: message.get("method") == "session/request_permission")
        withdrawn = await at.until(lambda message: message.get("method") == "$/cancel_request")
        assert withdrawn["params"] == {"requestId": question["id"]}
        assert (await at.until(lambda message: message.get("id") == 1))["result"]["stopReason"] == "end_turn"
        at.send(id=question["id"], result=choice("session"))
        assert "result" in await at.ask(2, "session/list")
        assert not (tmp_path / "mark").exists()
        assert not await at.host[session].approvals.grants()


# ── prompts ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", range(12))
async def test_a_cancellation_at_any_point_is_answered_once_and_the_session_goes_on(tmp_path: Path, after: int) -> None:
    """X-35: after each number of messages that the editor has seen of a prompt with words, a thought and two calls."""
    plan = {"plan": [{"step": "one", "status": "pending"}]}
    model = [
        say("First a word.", call("update_plan", plan, "c1"), match="go", reasoning="hm"),
        say("", call("nothing_of_the_kind", {}, "c2")),
        say("And the end."),
        say("Still here.", match="again", repeat=True),
    ]
    async with raw(Settings(model=ScriptedModel(model), close_timeout_s=5)) as at:
        session = await at.new(tmp_path)
        at.prompt(1, session)
        for _ in range(after):
            if (await at.until(lambda message: True)).get("id") == 1:
                break
        at.send(method="session/cancel", params={"sessionId": session})
        if not [message for message in at.seen if message.get("id") == 1]:
            await at.until(lambda message: message.get("id") == 1)
        at.prompt(2, session, "again")
        await at.until(lambda message: message.get("id") == 2)
        answers = [message for message in at.seen if message.get("id") in (1, 2)]
        assert [answer["id"] for answer in answers] == [1, 2]
        assert answers[0]["result"]["stopReason"] in ("cancelled", "end_turn")
        calls = {m["params"]["update"]["toolCallId"]: m["params"]["update"] for m in at.seen if _status(m)}
        assert all(update["status"] in ("completed", "failed") for update in calls.values())


def _status(message: Message) -> str | None:
    return message.get("params", {}).get("update", {}).get("status")


async def test_prompts_side_by_side_in_one_session_run_one_and_refuse_the_rest(tmp_path: Path) -> None:
    """X-35, HARDENING D10: sent in one breath, with the same id even; each is answered."""
    gate = asyncio.Event()
    async with raw(scripted(say("one", gate=gate))) as at:
        session = await at.new(tmp_path)
        for id in (1, 2, 2, 3):
            at.prompt(id, session)
        for _ in range(3):
            assert (await at.until(lambda message: message.get("id") in (1, 2, 3)))["error"]["code"] == -32001
        gate.set()
        assert (await at.until(lambda message: message.get("id") == 1))["result"]["stopReason"] == "end_turn"
        assert len(await at.host[session].root.history()) == 2


async def test_a_session_that_is_loaded_while_it_answers_goes_on_answering(tmp_path: Path) -> None:
    """Issue 10 (4), X-35: what was said is told, the prompt is answered once, and a call that runs still ends."""
    gate = asyncio.Event()
    script = scripted(say("", call("nothing_of_the_kind", {}, "c1")), say("At last.", gate=gate))
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        running = asyncio.create_task(at.prompt(session, "go"))
        await at.editor.until(lambda: at.editor.call(session, "c1").get("status") == "failed")
        for _ in range(2):
            at.editor.updates.clear()
            await at.conn.load_session(cwd=str(tmp_path), session_id=session)
            assert at.editor.said(session, "user_message_chunk") == "go"
            assert not running.done()
        gate.set()
        assert (await running).stop_reason == "end_turn"
        assert at.editor.said(session) == "At last."
        assert len(at.host.sessions) == 1


async def test_two_loads_in_one_breath_open_one_session_with_an_editor(tmp_path: Path) -> None:
    """Issue 10 (4): and whichever of them opened it, the editor is asked about files of that session."""
    script = scripted("one", call("read_file", {"path": "a"}, "c1"), "two", sandbox="danger_full_access")
    (tmp_path / "a").write_text("saved\n")
    async with editor_stage(script, tmp_path, hello=False) as at:
        await at.initialize(fs=s.FileSystemCapabilities(read_text_file=True))
        session = await at.new()
        await at.prompt(session, "first")
        await at.conn.close_session(session_id=session)
        loads = (at.conn.load_session(cwd=str(tmp_path), session_id=session) for _ in range(3))
        await asyncio.gather(*loads)
        assert len(at.host.sessions) == 1
        await at.prompt(session, "second")
        assert at.editor.files == [("read", str(tmp_path / "a"))]


# ── requests taken back ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("id", [1, "one"])
async def test_a_prompt_can_be_taken_back_by_its_number(tmp_path: Path, id: Any) -> None:
    """Issue 10 (4): `$/cancel_request`; the prompt ends as any that is cancelled, once."""
    async with raw(scripted(say("never", gate=Silence()))) as at:
        session = await at.new(tmp_path)
        at.prompt(id, session)
        for other in (7, "1", None, "new", {"a": 1}):
            at.send(method="$/cancel_request", params={"requestId": other})
        assert "result" in await at.ask("list", "session/list")
        assert not [message for message in at.seen if message.get("id") == id]
        at.send(method="$/cancel_request", params={"requestId": id})
        at.send(method="$/cancel_request", params={"requestId": id})
        answered = await at.until(lambda message: message.get("id") == id)
        assert answered["result"]["stopReason"] == "cancelled"


async def test_a_session_that_is_being_made_can_be_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10 (4), X-35: the request is answered as cancelled, and there is no session that nobody knows."""
    silence = Silence()
    async with raw(scripted("hi")) as at:

        async def never(settings: Settings) -> None:
            await silence.wait()

        monkeypatch.setattr(at.host, "start", never)
        at.send(id=1, method="session/new", params={"cwd": str(tmp_path), "mcpServers": []})
        await silence.reached()
        at.send(method="$/cancel_request", params={"requestId": 1})
        answered = await at.until(lambda message: message.get("id") == 1)
        assert (answered["error"]["code"], answered["error"]["data"]["code"]) == (-32800, "cancelled")
        assert not at.host.sessions


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────

IDS = ["", "nobody", "../../etc/passwd", "\0", "x" * 100_000, "01890000-0000-7000-8000-000000000000", 7, None, {}, []]


@pytest.mark.parametrize("id", IDS, ids=lambda id: repr(id)[:20])
async def test_a_session_id_that_is_none_is_refused_by_every_method(tmp_path: Path, id: Any) -> None:
    """Issue 10 (4), X-70: by name or by type, in few words, and nothing is opened."""
    opening = {"cwd": str(tmp_path), "mcpServers": []}
    methods = {
        "session/prompt": {"prompt": [{"type": "text", "text": "hi"}]},
        "session/cancel": {},
        "_session/steering": {"prompt": [{"type": "text", "text": "hi"}]},
        "session/close": {},
        "session/set_mode": {"modeId": "read-only"},
        "session/set_config_option": {"configId": "mode", "value": "read-only"},
        "session/load": opening,
        "session/resume": opening,
        "session/fork": opening,
    }
    async with editor_stage(scripted("hi"), tmp_path) as at:
        for method, params in methods.items():
            number, code, sentence = await refused(at.raw(method, {"sessionId": id, **params}))
            assert (number, code) in ((-32002, "not_found"), (-32602, "invalid_params")), method
            assert len(sentence) < 500
        assert not at.host.sessions


async def test_closing_and_deleting_at_once_end_in_one_way_or_the_other(tmp_path: Path) -> None:
    """X-35: a clear answer to each, and no session at the end."""
    async with editor_stage(scripted(say("never", gate=Silence())), tmp_path) as at:
        session = await at.new()
        running = asyncio.create_task(at.prompt(session, "go"))
        await at.editor.until(lambda: at.editor.of(session, "session_info_update"))
        requests = [at.raw(method, {"sessionId": session}) for method in ("session/close", "session/delete") * 2]
        answers = await asyncio.gather(*requests, return_exceptions=True)
        assert all(not isinstance(answer, Exception) or isinstance(answer, acp.RequestError) for answer in answers)
        assert (await running).stop_reason == "cancelled"
        assert not at.host.sessions
        await at.raw("session/delete", {"sessionId": session})
        assert not (await at.conn.list_sessions()).sessions


async def test_requests_that_come_as_notifications_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HARDENING D10: nobody is answered, there are no more of them than there may be, a cancellation finds room."""
    monkeypatch.setattr(request_runner, "MAX_REQUESTS", 4)
    async with raw(scripted(say("never", gate=Silence()))) as at:
        session = await at.new(tmp_path)
        at.prompt(1, session)
        for _ in range(20):
            at.send(method="session/new", params={"cwd": str(tmp_path), "mcpServers": []})
        at.send(method="session/cancel", params={"sessionId": session})
        answered = await at.until(lambda message: message.get("id") == 1)
        assert answered["result"]["stopReason"] == "cancelled"
        assert len(at.host.sessions) < 20


# ── the editor's own ─────────────────────────────────────────────────────────────────────────────────────────


BROKEN: list[Message] = [
    {"command": "", "args": [], "env": []},
    {"command": "/", "args": [], "env": []},
    {"command": "false", "args": [], "env": []},
    {"command": "cat", "args": ["\0"], "env": []},
    {"command": "cat", "args": [], "env": [{"name": "A=B", "value": "c"}]},
    {"command": "cat", "args": [], "env": [{"name": "A", "value": "\0"}]},
    {"command": "cat", "args": [], "env": []},
    {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": []},
    {"type": "http", "url": "http://[::bad", "headers": []},
    {"type": "http", "url": "http://127.0.0.1:1/", "headers": [{"name": "A", "value": "b\r\nC: d"}]},
    {"type": "sse", "url": "http://127.0.0.1:1/", "headers": []},
]


async def test_servers_that_do_not_work_are_named_and_the_session_works(tmp_path: Path) -> None:
    """Issue 10 (4), LIBRARIES: one that fails hurts no other and no turn; the one beside them is there."""
    record = tmp_path / "record"
    fake = {"name": "good", "command": sys.executable, "args": [FAKE, "stdio", "--record", str(record)], "env": []}
    definitions = [{"name": f"bad{number}", **server} for number, server in enumerate(BROKEN)]
    async with editor_stage(scripted(say("hi", repeat=True)), tmp_path) as at:
        session = (await at.raw("session/new", {"cwd": str(tmp_path), "mcpServers": [*definitions, fake]}))["sessionId"]
        for member in at.session(session).parts.servers.members:
            if member.server is not None:
                await member.server.monitor.wait_until_known()
        assert (await at.prompt(session, "hello")).stop_reason == "end_turn"

        def said() -> list[str]:
            return at.editor.said(session, "agent_thought_chunk").splitlines()

        await at.editor.until(lambda: len(said()) >= len(BROKEN))
        assert {line.split()[2].strip("'") for line in said()} == {server["name"] for server in definitions}
        assert all(" is left out: " in line or " failed: " in line for line in said())
        assert "good__echo" in {tool.name for tool in at.session(session).root.tools()}
        (pid,) = pids(record)
    assert not lives(pid)


@pytest.mark.parametrize("server", [{}, {"name": "a"}, {"name": 7, "command": "x", "args": [], "env": []}, "cat", None])
async def test_a_server_that_cannot_be_read_is_left_out_and_that_is_said(tmp_path: Path, server: Any) -> None:
    """Issue 10 (4), X-69: the protocol skips it, so that a newer editor can begin; in silence nobody would know."""
    async with editor_stage(scripted("hi"), tmp_path) as at:
        fields = {"cwd": str(tmp_path), "mcpServers": [server], "additionalDirectories": [7]}
        session = (await at.raw("session/new", fields))["sessionId"]
        await at.prompt(session, "hello")
        thought = at.editor.said(session, "agent_thought_chunk")
        assert "mcpServers: what cannot be read of it is left out" in thought
        assert "additionalDirectories: what" in thought
        for wrong in (7, "all", {"a": 1}):
            number, code, _ = await refused(at.raw("session/new", {"cwd": str(tmp_path), "mcpServers": wrong}))
            assert (number, code) == (-32602, "invalid_params")
        assert len(at.host.sessions) == 1


async def test_servers_are_read_only_where_a_session_is_opened(tmp_path: Path) -> None:
    """Issue 10 (4), X-69: elsewhere they are a field that nobody knows, and change no answer."""
    stray = {"mcpServers": [{}], "additionalDirectories": [7]}
    async with editor_stage(scripted("hi"), tmp_path) as at:
        session = await at.new()
        assert "sessions" in await at.raw("session/list", stray)
        assert len(at.host.sessions) == 1
        assert await at.raw("session/close", {"sessionId": session, **stray}) == {}
        assert not at.host.sessions
        assert await at.raw("session/delete", {"sessionId": session, **stray}) == {}


@pytest.mark.parametrize("how", ["leaves", "closes the session", "cancels"])
async def test_an_editor_that_never_says_what_is_in_a_file_holds_up_nobody(tmp_path: Path, how: str) -> None:
    """X-35, HARDENING D12: it is asked about a file, and goes away, closes or cancels instead of answering."""
    (tmp_path / "a").write_text("saved\n")
    script = scripted(call("read_file", {"path": "a"}, "c1"), "done", sandbox="danger_full_access")
    async with editor_stage(script, tmp_path, hello=False) as at:
        await at.initialize(fs=s.FileSystemCapabilities(read_text_file=True))
        silence = Silence()
        at.editor.buffers[str(tmp_path / "a")] = silence.wait
        session = await at.new()
        running = asyncio.create_task(at.prompt(session, "read it"))
        await silence.reached()
        if how == "leaves":
            at.hang_up()
            async with asyncio.timeout(DEADLINE_S):
                await at.serving
            running.cancel()
            await asyncio.wait((running,))
        elif how == "cancels":
            await at.conn.cancel(session_id=session)
            assert (await running).stop_reason == "cancelled"
        else:
            await at.conn.close_session(session_id=session)
            assert (await running).stop_reason == "cancelled"
        assert len(at.host.sessions) == (how == "cancels")
