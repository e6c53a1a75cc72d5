"""The socket of a session with agents: who is let in, what is heard, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.session.agents import agent_socket, callback_server
from tertulia.session.agents.agent_socket import AgentSocket
from tertulia.session.agents.private_socket import short_path
from tests.deadlines import HANG_S
from tests.session.agents_stage import EMPLOYEE, HTML
from tests.session.lives import until
from tests.session.staging import Stage, stage
from tests.tables import each_row


class Caller:
    """A client that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def say(self, line: Any) -> Any:
        """What is heard on it; None where the other side hangs up."""
        self.writer.write(line if isinstance(line, bytes) else msgspec.json.encode(line) + b"\n")
        return await self.hear()

    async def hear(self) -> Any:
        async with asyncio.timeout(HANG_S):
            try:
                heard = await self._reader.readline()
            except ConnectionResetError:
                return None
        return msgspec.json.decode(heard) if heard else None


@asynccontextmanager
async def calling(callback_socket: AgentSocket) -> AsyncIterator[Caller]:
    with short_path(callback_socket.path) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=2**24)
    try:
        yield Caller(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[tuple[Stage, AgentSocket, str]]:
    async with stage(**settings) as acting:
        agent = await acting.session.open(agent=EMPLOYEE)
        yield acting, acting.parts.agent_registry.callback_socket, str(acting.parts.agent_registry.token(agent.id))


def error(heard: Any) -> str:
    assert heard["result"] is None
    return heard["error"]["code"]


async def test_it_is_there_with_the_first_agent_for_this_user_alone_and_gone_with_the_session() -> None:
    """Issue 9, item 6: 0600, in a directory of mode 0700."""
    async with stage() as acting:
        callback_socket = acting.parts.agent_registry.callback_socket
        assert (callback_socket.is_open, callback_socket.path.exists()) == (False, False)
        await acting.session.open()
        assert not callback_socket.path.exists()
        agent = await acting.session.open(agent=EMPLOYEE)
        await acting.session.open(agent={"name": "eva"})
        assert callback_socket.path.name == f"{acting.session.id}.sock"
        assert stat.S_IMODE(callback_socket.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(callback_socket.path.parent.stat().st_mode) == 0o700
        variables = acting.parts.agent_registry.environment(agent.id)
        assert variables == {
            "TERTULIA_TOKEN": acting.parts.agent_registry.token(agent.id), "TERTULIA_SOCKET": str(callback_socket.path),
        }  # fmt: skip
    assert not callback_socket.path.exists()
    callback_socket.close()


async def test_a_token_is_looked_at_then_a_call_is_answered_and_audited_with_its_process() -> None:
    """S001-47, S001-50."""
    async with opened() as (acting, callback_socket, token), calling(callback_socket) as caller:
        agent_registry = acting.parts.agent_registry
        owner = await caller.say({"token": token})
        session_id = agent_registry.internal.validate_token(token).session_id
        assert owner == {"result": {"agent_name": "ada", "session_id": session_id}, "error": None}
        assert list(agent_registry.audit) == []
        answer = await caller.say({"tool": "canvas_update", "arguments": {"html": HTML}})
        assert answer["result"] == {"ok": True, "revision": 1}
        assert await caller.hear() is None, "one call, then it is over"
        (record,) = agent_registry.audit
        assert (record.source, record.pid, record.ok, record.token_prefix) == ("cli", os.getpid(), True, token[:8])


@each_row(
    "line",
    [
        b"\n", b"{}\n", b"[]\n", b"nonsense\n", b'{"token": 3}\n', b'{"token": "x", "more": 1}\n', b"\xff\xfe\n",
        b'{"token": "' + b"0" * 63 + b'"}\n', b'{"token": "' + b"0" * 64 + b'"}\n', b"[" * 100_000 + b"\n",
    ],
)  # fmt: skip
async def test_what_is_no_token_is_refused_in_a_sentence_and_hung_up_on(line: bytes) -> None:
    """HARDENING D6, A: nothing is called, and the next one is served."""
    async with opened() as (acting, callback_socket, token):
        async with calling(callback_socket) as caller:
            assert error(await caller.say(line)) == "invalid_params"
            assert await caller.hear() is None
        async with calling(callback_socket) as caller:
            assert (await caller.say({"token": token}))["error"] is None
        assert list(acting.parts.agent_registry.audit) == []


@each_row(
    ("request", "code"),
    [
        ({"tool": "canvas_update", "arguments": {}}, "invalid_params"),
        ({"tool": "canvas_update", "arguments": {"html": "x" * (512 * 1024 + 1)}}, "invalid_params"),
        ({"tool": "canvas_update", "arguments": []}, "invalid_params"),
        ({"tool": "no_such_tool"}, "not_found"),
        ({"tool": 3}, "invalid_params"),
        (b"nonsense\n", "invalid_params"),
    ],
)
async def test_a_call_that_cannot_be_is_refused_and_changes_nothing(request: Any, code: str) -> None:
    async with opened() as (acting, callback_socket, token), calling(callback_socket) as caller:
        await caller.say({"token": token})
        assert error(await caller.say(request)) == code
        assert acting.parts.agent_registry.canvases.list() == {}


async def test_a_line_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded in length and in time."""
    monkeypatch.setattr(callback_server, "CLIENT_TIMEOUT_S", 0.05)
    async with opened() as (_, callback_socket, token), calling(callback_socket) as silent:
        assert await silent.hear() is None
        async with calling(callback_socket) as caller:
            await caller.say({"token": token})
            assert await caller.hear() is None


async def test_a_line_that_is_too_long_is_refused() -> None:
    async with opened() as (_, callback_socket, token), calling(callback_socket) as caller:
        heard = await caller.say(b"x" * (callback_server.MAX_LINE + 70_000) + b"\n")
        assert heard is None or error(heard) == "invalid_params"
        async with calling(callback_socket) as other:
            assert (await other.say({"token": token}))["error"] is None


async def test_the_largest_page_passes_however_it_is_escaped() -> None:
    async with opened() as (acting, callback_socket, token), calling(callback_socket) as caller:
        html = "\x01" * (512 * 1024)
        await caller.say({"token": token})
        assert (await caller.say({"tool": "canvas_update", "arguments": {"html": html}}))["error"] is None
        assert [len(canvas.html) for canvas in acting.parts.agent_registry.canvases.list().values()] == [512 * 1024]


async def test_one_too_many_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_socket, "MAX_CLIENTS", 1)
    async with opened() as (_acting, callback_socket, token), calling(callback_socket) as first:
        await first.say({"token": token})
        async with calling(callback_socket) as second:
            assert error(await second.hear()) == "busy"


async def test_another_user_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """SO_PEERCRED: even where the file's mode would allow it."""
    async with opened() as (_, callback_socket, token):
        monkeypatch.setattr(agent_socket, "is_same_user", lambda connection: False)
        async with calling(callback_socket) as stranger:
            assert await stranger.say({"token": token}) is None


async def test_who_goes_away_in_the_middle_hurts_nobody() -> None:
    async with opened() as (_acting, callback_socket, token):
        async with calling(callback_socket) as caller:
            await caller.say({"token": token})
        async with calling(callback_socket):
            pass
        await until(lambda: not callback_socket._clients)
        async with calling(callback_socket) as caller:
            assert (await caller.say({"token": token}))["error"] is None


def breaking(error: BaseException | None) -> Any:
    async def broken(call: Any, arguments: Any) -> str:
        if error is not None:
            raise error
        return "\ud800"

    known: Any = {"description": "Breaks.", "parameters": None, "rpc_method": "break.down", "scope": "all"}
    tool = tertulia.ToolDefinition(name="break", **known, handler=broken)
    return type("Provider", (), {"name": "breaking", "get_tools": lambda self, agent, meta: [tool]})()


@each_row("broken", [ValueError("secret"), FileNotFoundError("secret"), SystemExit(3), None], ids=repr)
async def test_a_tool_that_breaks_down_is_an_answer_too(broken: BaseException | None) -> None:
    """S001-50, HARDENING H6: whatever it raises, and whatever it answers; the session goes on."""
    async with opened(providers=[breaking(broken)]) as (acting, callback_socket, token):
        for _ in range(2):
            async with calling(callback_socket) as caller:
                assert (await caller.say({"token": token}))["error"] is None
                heard = await caller.say({"tool": "break"})
            assert error(heard) == "internal"
            assert "secret" not in heard["error"]["message"]
        assert [record.result for record in acting.parts.agent_registry.audit] == ["internal", "internal"]


def endless(called: asyncio.Event) -> Any:
    async def waits(call: Any, arguments: Any) -> None:
        called.set()
        await asyncio.Event().wait()

    known: Any = {"description": "Waits.", "parameters": None, "rpc_method": "wait.on", "scope": "all"}
    tool = tertulia.ToolDefinition(name="wait", **known, handler=waits)
    return type("Provider", (), {"name": "endless", "get_tools": lambda self, agent, meta: [tool]})()


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_call_that_the_session_ends_is_told_so_and_ends_as_cancelled(is_gone: bool) -> None:
    """S001-50, HARDENING H1: nothing broke down, and nobody who is gone turns it into an error."""
    called = asyncio.Event()
    async with (
        opened(providers=[endless(called)]) as (acting, callback_socket, token),
        calling(callback_socket) as caller,
    ):
        await caller.say({"token": token})
        caller.writer.write(b'{"tool": "wait"}\n')
        async with asyncio.timeout(HANG_S):
            await called.wait()
        [serving] = [task for task in asyncio.all_tasks() if task.get_name() == "a program of an agent"]
        assert not serving.done()
        if is_gone:
            caller.writer.transport.abort()
        await acting.session.close()
        assert serving.cancelled()
        assert [record.result for record in acting.parts.agent_registry.audit] == ["cancelled"]
        if not is_gone:
            assert error(await caller.hear()) == "cancelled"
            assert await caller.hear() is None


async def test_a_token_that_is_revoked_between_the_lines_is_refused() -> None:
    """S001-44: what was valid a moment ago is looked at again."""
    async with opened() as (acting, callback_socket, token), calling(callback_socket) as caller:
        owner = await caller.say({"token": token})
        await acting.session.conversation(owner["result"]["session_id"]).close()
        assert error(await caller.say({"tool": "canvas_clear"})) == "invalid_params"


async def test_sockets_of_the_dead_are_swept_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    home = Path(os.environ["TERTULIA_HOME"]) / "internal"
    home.mkdir(parents=True, mode=0o700)
    dead, alive = home / "dead.sock", home / "alive.sock"
    (home / "notes.txt").write_text("kept")
    with socket.socket(socket.AF_UNIX) as left, socket.socket(socket.AF_UNIX) as listening:
        for listener, path in ((left, dead), (listening, alive)):
            with short_path(path) as address:
                listener.bind(address)
        listening.listen()
        left.close()
        async with opened() as (_, callback_socket, _token):
            assert {path.name for path in home.iterdir()} == {"alive.sock", "notes.txt", callback_socket.path.name}


async def test_where_no_socket_can_be_an_agent_starts_all_the_same() -> None:
    """It is told, once."""
    home = Path(os.environ["TERTULIA_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    (home / "internal").write_text("a file, not a directory")
    async with stage("hi") as acting:
        for name in ("ada", "eva"):
            agent = await acting.session.open(agent={"name": name})
            assert acting.parts.agent_registry.environment(agent.id).keys() == {"TERTULIA_TOKEN"}
        warnings = [event.data.message for event in acting.events.drain() if event.type == "warning"]
        assert len(warnings) == 1
        assert "`tertulia internal` cannot reach this session" in warnings[0]


async def test_what_a_killed_process_left_of_this_very_session_is_in_nobodys_way() -> None:
    """S001-44, crash: the session is resumed under the same id."""
    async with stage() as acting:
        callback_socket = acting.parts.agent_registry.callback_socket
        callback_socket.path.parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as left, short_path(callback_socket.path) as address:
            left.bind(address)
        agent = await acting.session.open(agent=EMPLOYEE)
        async with calling(callback_socket) as caller:
            token = acting.parts.agent_registry.token(agent.id)
            assert (await caller.say({"token": token}))["error"] is None
