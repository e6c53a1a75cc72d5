"""The shared broker's socket: for this user's programs alone, whatever they send, and gone when nobody is there."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.mcp.view import NamedView
from tertulia.policy.limits import Limits
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import McpToolCallBegin, McpToolCallEnd, ToolCallEnd
from tertulia.server.mcp import broker_server
from tertulia.server.mcp.broker_address import broker_settings, private_directory, short_path
from tertulia.server.mcp.broker_server import BrokerSocket, open_client_broker
from tertulia.session.session import Session
from tests.deadlines import HANG_S
from tests.mcp.connected import recorded, until
from tests.server.brokering import bare_server, client, over_socket, served_to, text
from tests.session.stored import lines, stored_bytes

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
eras = pytest.mark.parametrize("era", ["old", "new"])


class Daemon:
    def __init__(self, session: Session, broker: BrokerSocket, path: Path, serving: asyncio.Task[None]) -> None:
        self.session, self.broker, self.path, self.serving = session, broker, path, serving

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        with short_path(self.path) as address:
            return await asyncio.open_unix_connection(address)

    async def greet(self, line: bytes) -> dict[str, Any]:
        """What is answered to this first line."""
        reader, writer = await self.connect()
        writer.write(line)
        spoken_text = await asyncio.wait_for(reader.readline(), HANG_S)
        writer.close()
        return msgspec.json.decode(spoken_text)


@asynccontextmanager
async def daemon(folder: Path, *options: str, idle_exit_s: float = 60, **settings: Any) -> AsyncIterator[Daemon]:
    """One that serves until the block ends; then nothing of it is left."""
    private_directory(folder / "broker")
    path = folder / "broker" / "x.sock"
    config = {"mcp_servers": {"fake": bare_server(*options)}, **settings}
    async with tertulia.Session.start(tertulia.Settings(model="scripted/tour", **config)) as session:
        broker = BrokerSocket(session, path, idle_exit_s=idle_exit_s)
        serving = asyncio.create_task(broker.serve())
        await until(lambda: path.exists() or serving.done())
        yield Daemon(session, broker, path, serving)
        broker.stop()
        await asyncio.wait_for(serving, HANG_S)
        assert broker.clients == 0
        assert not path.exists()
        assert len(session.conversations()) == 1


@eras
async def test_programs_share_the_servers_each_with_its_own_view(tmp_path: Path, era: str) -> None:
    """Issue 8, item 6."""
    views = {"one": {"mcp_tool_allowlist": ["fake__pid"]}}
    async with daemon(tmp_path, mcp_views=views) as here:
        async with client(over_socket(here.path), era) as first, client(over_socket(here.path, "one"), era) as second:
            assert len((await first.list_tools()).tools) > 10
            assert [tool.name for tool in (await second.list_tools()).tools] == ["fake__pid"]
            assert text(await first.call_tool("fake__pid", {})) == text(await second.call_tool("fake__pid", {}))
            titles = [conversation.info.title for conversation in here.session.conversations()]
            assert titles[1:] == ["all: test", "one: test"]
        await until(lambda: here.broker.clients == 0)
        assert len(here.session.conversations()) == 1


async def test_only_the_user_can_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path) as here:
        assert stat.S_IMODE(here.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(here.path.parent.stat().st_mode) == 0o700
        connections: list[object] = []
        monkeypatch.setattr(broker_server, "is_same_user", lambda connection: bool(connections.append(connection)))
        reader, writer = await here.connect()
        writer.write(b"{}\n")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert len(connections) == 1
        assert len(here.session.conversations()) == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "this is no greeting"),
        (b"\n", "this is no greeting"),
        (b"null\n", "this is no greeting"),
        (b"\xff\xff\n", "this is no greeting"),
        (b'{"view":1}\n', "this is no greeting"),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n', "this is no greeting"),
        (b'{"client":"' + b"x" * 10_000 + b'"}\n', "at most 4,096 bytes"),
        (b"x" * 1_000_000, "at most 4,096 bytes"),
        (b'{"view":"nobody"}\n', "there is no view"),
    ],
)
async def test_what_is_no_greeting_is_told_so(tmp_path: Path, line: bytes, why: str) -> None:
    async with daemon(tmp_path) as here:
        line_back = await here.greet(line)
        assert line_back["ok"] is False
        assert why in line_back["error"]
        await until(lambda: here.broker.clients == 0)
        assert len(here.session.conversations()) == 1


@pytest.mark.parametrize("name", ["\x1b[31m", "\u202e", "a\nb", "\0", "🙂" * 300, ""])
async def test_a_client_may_call_itself_anything(tmp_path: Path, name: str) -> None:
    async with daemon(tmp_path) as here:
        assert await here.greet(msgspec.json.encode({"client": name}) + b"\n") == {"ok": True}


async def test_one_that_says_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_server, "GREETING_S", 0.05)
    async with daemon(tmp_path) as here:
        assert "no greeting came" in (await here.greet(b""))["error"]
        assert "no greeting came" in (await here.greet(b'{"view"'))["error"]
        reader, writer = await here.connect()
        writer.close()
        await until(lambda: here.broker.clients == 0)
        assert await reader.read() == b""


async def test_a_view_that_names_what_there_is_not_is_refused(tmp_path: Path) -> None:
    views = {"odd": {"mcp_tool_allowlist": ["fake__nothing"]}}
    async with daemon(tmp_path, mcp_views=views) as here:
        line_back = await here.greet(b'{"view":"odd"}\n')
        assert line_back["ok"] is False
        assert "fake__nothing" in line_back["error"]


async def test_more_programs_than_there_is_room_for_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_server, "MAX_CLIENTS", 3)
    async with daemon(tmp_path) as here, client(over_socket(here.path), "new") as one:
        _, silent = await here.connect()
        _, other = await here.connect()
        await until(lambda: here.broker.clients == 3)
        assert "3 programs use this broker already" in (await here.greet(b"{}\n"))["error"]
        silent.close()
        await until(lambda: here.broker.clients == 2)
        assert (await here.greet(b"{}\n"))["ok"]
        assert text(await one.call_tool("fake__echo", {"text": "hi"})) == "hi"
        other.close()


@pytest.mark.slow
async def test_hundreds_of_programs_are_served_by_one_process(tmp_path: Path) -> None:
    """256 at once; the 257th is refused, and each gets its own answer."""
    record = tmp_path / "record"
    async with daemon(tmp_path, "--record", str(record)) as here:
        connections = [await here.connect() for _ in range(256)]
        for reader, writer in connections:
            writer.write(b"{}\n")
            assert (await asyncio.wait_for(reader.readline(), HANG_S)) == b'{"ok":true}\n'
        assert (await here.greet(b"{}\n"))["ok"] is False
        for number, (_, writer) in enumerate(connections):
            for message in (
                {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": HELLO},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": "b", "method": "tools/call",
                 "params": {"name": "fake__echo", "arguments": {"text": f"I am {number}"}}},
            ):  # fmt: skip
                writer.write(msgspec.json.encode(message) + b"\n")
        for number, (reader, writer) in enumerate(connections):
            answers = {}
            while "b" not in answers:
                answer = msgspec.json.decode(await asyncio.wait_for(reader.readline(), HANG_S))
                answers[answer.get("id")] = answer
            assert answers["b"]["result"]["content"][0]["text"] == f"I am {number}"
            writer.close()
        await until(lambda: here.broker.clients == 0)
        assert [line for line in recorded(record) if line.startswith("start")].__len__() == 1


async def test_a_program_that_dies_in_a_call_takes_only_that_call_with_it(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with daemon(tmp_path, "--record", str(record)) as here, client(over_socket(here.path), "old") as other:
        with pytest.raises(BaseExceptionGroup):
            async with client(over_socket(here.path), "old") as dying:
                signal = asyncio.Event()

                async def hear(*_: object) -> None:
                    signal.set()

                async with asyncio.TaskGroup() as group:
                    group.create_task(dying.call_tool("fake__slow", {"seconds": 30}, progress_callback=hear))
                    await signal.wait()
                    raise OSError("killed")
        await until(lambda: "cancelled slow" in recorded(record))
        await until(lambda: here.broker.clients == 1)
        assert text(await other.call_tool("fake__echo", {"text": "hi"})) == "hi"


async def test_it_ends_when_nobody_has_been_there_for_a_while(tmp_path: Path) -> None:
    async with daemon(tmp_path, idle_exit_s=0.2) as here:
        async with client(over_socket(here.path), "new") as connected:
            for _ in range(3):
                await connected.call_tool("fake__slow", {"seconds": 0.2})
            assert not here.serving.done()
        await asyncio.wait_for(here.serving, HANG_S)
        assert not here.path.exists()


@pytest.mark.parametrize("planted", ["stale socket", "file", "link", "dangling link"])
async def test_what_lies_in_the_sockets_place_is_replaced_and_a_link_not_followed(tmp_path: Path, planted: str) -> None:
    private_directory(tmp_path / "broker")
    path, other = tmp_path / "broker" / "x.sock", tmp_path / "precious"
    other.write_text("precious")
    match planted:
        case "stale socket":
            os.mknod(path, stat.S_IFSOCK | 0o777)
        case "file":
            path.write_text("")
        case "link":
            path.symlink_to(other)
        case _:
            path.symlink_to(tmp_path / "nothing")
    async with daemon(tmp_path) as here:
        await until(lambda: stat.S_ISSOCK(path.lstat().st_mode))
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600 or planted == "stale socket"
        async with client(over_socket(here.path), "new") as connected:
            assert text(await connected.call_tool("fake__echo", {"text": "hi"})) == "hi"
    assert other.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()


async def test_stopping_lets_clients_go_and_ends_their_calls(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with daemon(tmp_path, "--record", str(record)) as here:
        reader, writer = await here.connect()
        slow = {"name": "fake__slow", "arguments": {"seconds": 30}}
        writer.write(b"{}\n")
        for message in (
            {"id": "a", "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
            {"id": "b", "method": "tools/call", "params": slow},
        ):
            writer.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")
        await until(lambda: "call slow" in recorded(record))
        here.broker.stop()
        await asyncio.wait_for(here.serving, HANG_S)
        await until(lambda: "cancelled slow" in recorded(record))
        assert (await reader.read()).startswith(b'{"ok":true}\n')
        writer.close()


@pytest.mark.parametrize("concurrency", [None, 8, 2])
async def test_a_program_with_eight_hanging_calls_leaves_room_for_another(
    tmp_path: Path, concurrency: int | None
) -> None:
    """L3: also at a server that takes only so many calls at once."""
    record = tmp_path / "record"
    fields = {} if concurrency is None else {"concurrency": concurrency}
    server = bare_server(f"--record={record}", **fields)
    async with (
        daemon(tmp_path, mcp_servers={"fake": server}, is_broker=True) as here,
        client(over_socket(here.path), "old") as greedy,
        client(over_socket(here.path), "old") as other,
        asyncio.TaskGroup() as group,
    ):
        hanging = [group.create_task(greedy.call_tool("fake__slow", {"seconds": 300})) for _ in range(8)]
        begun = 8 if concurrency is None else concurrency // 2
        await until(lambda: record.exists() and recorded(record).count("call slow") >= begun)
        async with asyncio.timeout(HANG_S):
            assert text(await other.call_tool("fake__echo", {"text": "here"})) == "here"
        assert recorded(record).count("call slow") == begun
        for call in hanging:
            call.cancel()


async def test_servers_behind_the_broker_are_told_of_no_directory(tmp_path: Path) -> None:
    """L8: a program that calls has no workspace here, least of all the home."""
    config = {"fake": bare_server(), "told": bare_server(roots=["/srv", "~/notes"])}
    settings = broker_settings(tertulia.Settings(mcp_servers=config), tmp_path)
    async with (
        daemon(tmp_path, mcp_servers=config, cwd=settings.cwd, is_broker=settings.is_broker) as here,
        client(over_socket(here.path), "old") as program,
    ):
        assert "file:" not in text(await program.call_tool("fake__roots", {}))
        output = text(await program.call_tool("told__roots", {}))
        assert "file:///srv" in output
        assert f"{Path.home().as_uri()}/notes" in output


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
    config = tertulia.Settings(mcp_servers={"fake": bare_server()})
    async with tertulia.Session.start(broker_settings(config, Path("/"))) as session:
        async with served_to(session, "new") as client:
            assert text(await client.call_tool("fake__echo", {"text": SECRET})) == SECRET
            await client.call_tool("fake__nothing", {"text": SECRET})
        session_id = session.id
    records = [line.what for line in lines(session_id) if isinstance(line.what, Event)]
    calls = [event for event in records if event.type.startswith(("tool_call", "mcp_tool_call"))]
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
