"""An editor that leaves, at whatever step: nothing of what it started is left."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from acp import schema as s

from tertulia.server import client_surface
from tertulia.server.acp import agent
from tertulia.server.acp.agent import serve_acp_client
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.testing import ScriptedModel, call, say
from tests.mcp.fakes.number import lives
from tests.server.acp.test_client_servers import FAKE, pids
from tests.server.acp_editor import DEADLINE_S, EditorStage, Silence, editor_stage, scripted

FOREVER = {"command": ["sh", "-c", "echo $$; exec sleep 3600"]}


async def left(at: EditorStage, *running: asyncio.Task[Any]) -> None:
    """Hang up, and wait until the agent has noticed and is done."""
    at.hang_up()
    async with asyncio.timeout(DEADLINE_S):
        await at.serving
    for task in running:
        task.cancel()
        await asyncio.wait((task,))


@pytest.mark.parametrize("step", ["connected", "initialized", "a session", "a prompt answered"])
async def test_leaving_between_two_requests_closes_everything(tmp_path: Path, step: str) -> None:
    """Issue 10 (4), HARDENING H7."""
    async with editor_stage(scripted("hi"), tmp_path, hello=step != "connected") as at:
        if step in ("a session", "a prompt answered"):
            session = await at.new()
            if step == "a prompt answered":
                await at.prompt(session, "hello")
        await left(at)
        assert not at.host.sessions


async def test_leaving_while_the_model_speaks_stops_it(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    silence = Silence()
    async with editor_stage(scripted(say("never", gate=silence)), tmp_path) as at:
        session = await at.new()
        running = asyncio.create_task(at.prompt(session, "hello"))
        await silence.reached()
        await left(at, running)
        assert not at.host.sessions


async def test_leaving_while_a_command_runs_kills_it(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    script = Settings(
        model=ScriptedModel([call("shell", FOREVER, "c1")]), sandbox="danger_full_access", close_timeout_s=1
    )
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        running = asyncio.create_task(at.prompt(session, "run it"))
        shown = await at.editor.until(lambda: at.editor.call(session, "c1").get("content"))
        pid = int(shown[0]["content"]["text"].strip("`\n"))
        assert lives(pid)
        await left(at, running)
        assert not lives(pid)


async def test_leaving_while_an_mcp_server_works_ends_the_server(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    record = tmp_path / "record"
    server = s.McpServerStdio(
        name="slow", command=sys.executable, args=[FAKE, "stdio", "--record", str(record)], env=[]
    )
    script = scripted(call("slow__slow", {"seconds": 3600}, "c1"), approval_policy="never")
    async with editor_stage(script, tmp_path) as at:
        at.editor.answers = ["once"]
        session = await at.new(mcp_servers=[server])
        at.session(session).parts.servers.approvals[at.session(session).root.id] = "approve"
        running = asyncio.create_task(at.prompt(session, "call it"))
        await at.editor.until(lambda: at.editor.call(session, "c1").get("status") == "in_progress")
        (pid,) = pids(record)
        await left(at, running)
        assert not lives(pid)


async def test_leaving_while_a_session_is_being_made_leaves_neither_it_nor_its_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 10 (4): the answer to `session/new` finds nobody."""
    record = tmp_path / "record"
    args = [FAKE, "stdio", "--record", str(record)]
    server = s.McpServerStdio(name="fake", command=sys.executable, args=args, env=[])
    async with editor_stage(scripted("hi"), tmp_path) as at:
        begun, start = asyncio.Event(), at.host.start

        async def starting(settings: Settings | None = None) -> Session:
            begun.set()
            return await start(settings)

        monkeypatch.setattr(at.host, "start", starting)
        making = asyncio.create_task(at.new(mcp_servers=[server]))
        await begun.wait()
        await left(at, making)
        assert not at.host.sessions
        assert not [pid for pid in (pids(record) if record.exists() else []) if lives(pid)]


@pytest.mark.parametrize("end", ["input", "signal"])
async def test_a_client_that_reads_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """HARDENING H7, D11: however long the settings let things take."""
    monkeypatch.setattr(agent, "PATIENCE_S", 0.2)
    monkeypatch.setattr(client_surface, "PATIENCE_S", 0.2)
    settings = Settings(model=ScriptedModel([say("word " * 200_000)]), close_timeout_s=3600)
    factory = SessionFactory(Host(settings), lambda cwd: DirectorySettings(settings), current_environment())
    (source, feed), (drain, target) = os.pipe(), os.pipe()
    stop = asyncio.Event()
    serving = asyncio.create_task(serve_acp_client(factory, source, target, stop))
    fields = {"cwd": str(tmp_path), "mcpServers": []}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": fields}
    os.write(feed, HELLO + json.dumps(begin).encode() + b"\n")
    async with asyncio.timeout(DEADLINE_S):
        with open(drain, "rb", buffering=0, closefd=False) as out:
            while "sessionId" not in (made := json.loads(await asyncio.to_thread(out.readline)))["result"]:
                pass
        prompt = [{"type": "text", "text": "talk"}]
        ask = {"method": "session/prompt", "params": {"sessionId": made["result"]["sessionId"], "prompt": prompt}}
        os.write(feed, json.dumps({"jsonrpc": "2.0", "id": 2, **ask}).encode() + b"\n")
        while _waiting(drain) < 50_000:  # noqa: ASYNC110  the pipe is as good as full, whoever filled it
            await asyncio.sleep(0)
        os.close(feed)
        if end == "signal":
            stop.set()
        await serving
    assert not factory.host.sessions
    for fd in (source, drain, target):
        os.close(fd)


def _waiting(fd: int) -> int:
    """Bytes that nobody has read."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────────


async def answers(value: bytes, tmp_path: Path) -> list[Any]:
    """What comes back for these bytes, after which the input ends."""
    settings = scripted("hi")
    factory = SessionFactory(Host(settings), lambda cwd: DirectorySettings(settings), current_environment())
    (source, feed), (drain, target) = os.pipe(), os.pipe()
    os.set_blocking(feed, True)
    writing = asyncio.create_task(asyncio.to_thread(_write, feed, value))
    async with asyncio.timeout(DEADLINE_S):
        reading = asyncio.create_task(asyncio.to_thread(_drain, drain))
        await serve_acp_client(factory, source, target, asyncio.Event())
        os.close(target)
        await writing
        output = await reading
    os.close(source)
    assert not factory.host.sessions
    return [json.loads(line) for line in output.splitlines()]


def _write(fd: int, data: bytes) -> None:
    with open(fd, "wb") as file:
        file.write(data)


def _drain(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


HELLO = b'{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}\n'


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b"nonsense", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "x"}', -32700),
        (b"[" * 100_000, -32700),
        (b'{"a": NaN}', -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "session/list"}]', -32600),
        (b"42", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "session/list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "session/list"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": [1]}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {"cwd": "\\ud800"}}', -32602),
    ],
)
async def test_a_line_that_is_no_request_is_refused_and_the_next_one_is_served(
    tmp_path: Path, line: bytes, number: int
) -> None:
    """HARDENING D: the SDK's own reader would drop it, or die of it."""
    lines = await answers(HELLO + line + b"\n" + HELLO.replace(b'"id": 0', b'"id": 7'), tmp_path)
    codes = {message["id"]: message.get("error", {}).get("code") for message in lines}
    assert codes.pop(0) is None
    assert codes.pop(7) == -32600
    assert list(codes.values()) == [number]


async def test_what_was_asked_before_the_input_ended_is_answered(tmp_path: Path) -> None:
    """HARDENING H7: a shell's pipe; late answers to nothing and notifications for nobody change nothing."""
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}},
        {"jsonrpc": "2.0", "id": 99, "result": {"outcome": {"outcome": "selected", "optionId": "once"}}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "nobody"}},
        {"jsonrpc": "2.0", "method": "_vendor/thing"},
        {"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}},
    ]
    replies = await answers(HELLO + b"\n".join(json.dumps(line).encode() for line in lines), tmp_path)
    assert sorted(message["id"] for message in replies) == [0, 1, 2]
    assert not [message for message in replies if "error" in message]
