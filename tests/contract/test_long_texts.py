"""Long and hostile texts on every surface: no step of the loop takes long, and little more memory than they have.

A surface is a way by which a peer's text comes in. Those that speak a protocol are given the bytes of its message by
their own reader, without a client in this process whose steps would count.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
import sys
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import tertulia
from tertulia.mcp.serve.endpoint import load_sdk
from tertulia.protocol.inputs import MAX_TEXT_BYTES
from tertulia.scheduler.nursery import Nursery
from tertulia.server.acp.agent import AcpAgent
from tertulia.server.client_surface import ClientSurface
from tertulia.server.codex.server import CodexServer
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.server.mcp.conversation_server import build_conversation_server
from tertulia.server.mcp.transport import serve_lines
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import current_environment
from tertulia.testing import ScriptedModel
from tests.deadlines import HANG_S
from tests.loop_steps import MOST_S, TRIES, loop_steps
from tests.server.client import MemorySink
from tests.tables import each_row
from tests.thorough import THOROUGH, sample

SIZE = MAX_TEXT_BYTES - 1_000 if THOROUGH else 3_000_000
ESCAPES = SIZE // 2 if THOROUGH else SIZE
CONTROLS = SIZE * 3 // 10 if THOROUGH else SIZE // 2
MEMORY = 4.0
"""Times the message."""
Act = Callable[[], Awaitable[object]]
Surface = Callable[[str, Path], AbstractAsyncContextManager[Act]]


def token(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def _hexadecimal(size: int) -> str:
    return random.Random(1).randbytes(size // 2).hex()


def _base64(size: int) -> str:
    return base64.b64encode(random.Random(2).randbytes(size * 3 // 4)).decode()


BODIES: dict[str, Callable[[], str]] = {
    "letters": lambda: "x" * SIZE,
    "controls": lambda: "\x1b" * CONTROLS,
    "quotes": lambda: '"\\' * (ESCAPES // 2),
    "line ends": lambda: "\n" * ESCAPES,
    "hexadecimal": lambda: _hexadecimal(SIZE),
    "hexadecimal words": lambda: "0123456789 " * (SIZE // 11),
    "parts of a token": lambda: f"{token(1)[:9]} " * (SIZE // 10),
    "base64": lambda: _base64(SIZE),
    "bait": lambda: "ghp_ xoxb- sk-ant- " * (SIZE // 19),
    "bait of a key": lambda: "-----BEGIN PRIVATE KEY-----\n" * (SIZE // 28),
    "private key": lambda: f"-----BEGIN RSA PRIVATE KEY-----\n{('A' * 63 + chr(10)) * (SIZE // 64)}",
    "bidi": lambda: "\u202e" * (SIZE // 3),
    "joined emoji": lambda: "\U0001f600\u200d" * (SIZE // 7),
    "accents": lambda: "e" + "\u0301" * (SIZE // 2),
    "spaces": lambda: " " * SIZE,
    "addresses": lambda: "://a:b@" * (SIZE // 7),
    "tags": lambda: "<a>{{b}}" * (SIZE // 8),
}


# ---- surfaces


class RawSink(MemorySink):
    """One that decodes nothing, which would be a long step of the loop, and keeps only both ends of a long message."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def send(self, messages: Sequence[bytes]) -> None:
        super().send([message if len(message) < 10_000 else message[:400] + message[-400:] for message in messages])
        self._more.set()

    async def until_any(self, wanted: Callable[[bytes], bool]) -> bytes:
        async with asyncio.timeout(HANG_S):
            while True:
                self._more.clear()
                for message in self.sent:
                    if wanted(message):
                        return message
                await self._more.wait()


def settings(*replies: str) -> tertulia.Settings:
    return tertulia.Settings(model=ScriptedModel(list(replies) or ["Fine."]))


def give_tokens(session: Session) -> None:
    """As a session has them for its agents."""
    for number in range(20):
        session.parts.redactor.register_token(token(number))


@asynccontextmanager
async def python_message(text: str, folder: Path) -> AsyncGenerator[Act]:
    async with Session.start(settings()) as session:
        yield lambda: session.root.message(text)


@asynccontextmanager
async def python_answer(text: str, folder: Path) -> AsyncGenerator[Act]:
    """The model says it, in a session with agents, and a client reads every event."""
    async with Session.start(settings(text)) as session:
        give_tokens(session)

        async def read() -> None:
            async for event in session.root.stream("Go."):
                assert event.type

        yield read


def requests(method: str, params: Callable[[str], dict[str, Any]]) -> Surface:
    """A request over JSON-RPC, in a session with agents; app-server, WebSockets and HTTP read it alike."""

    @asynccontextmanager
    async def surface(text: str, folder: Path) -> AsyncGenerator[Act]:
        host, sink = Host(settings()), RawSink()
        connection = RpcConnection(host, sink)
        try:
            await connection.receive(b'{"jsonrpc":"2.0","id":0,"method":"initialize"}')
            give_tokens(host.sessions[0])
            line = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params(text)})

            async def act() -> None:
                await connection.receive(line)
                await connection.idle()
                assert any(b'"id":1,"result"' in message[:40] for message in sink.sent), sink.sent[-1][:300]

            yield act
        finally:
            await connection.close(HANG_S)
            await host.close()

    return surface


def editors(
    make: Callable[[SessionFactory, RawSink], ClientSurface],
    begin: dict[str, Any],
    open_one: Callable[[Path], dict[str, Any]],
    found: Callable[[Any], str],
    prompt: Callable[[str, str], dict[str, Any]],
    ended: bytes,
) -> Surface:
    """A prompt of a protocol for editors: the messages that it takes, and how its turn's end is known."""

    @asynccontextmanager
    async def surface(text: str, folder: Path) -> AsyncGenerator[Act]:
        base = replace(settings(), cwd=str(folder))
        host, sink = Host(base), RawSink()
        factory = SessionFactory(host, lambda where: DirectorySettings(base), current_environment(), model=True)
        client = make(factory, sink)
        try:
            await client.receive(msgspec.json.encode(begin))
            await client.idle()
            await client.receive(msgspec.json.encode(open_one(folder)))
            await client.idle()
            answer = next(m for m in sink.messages if m.get("id") == 1)
            line = msgspec.json.encode(prompt(found(answer["result"]), text))
            await asyncio.sleep(0)

            async def act() -> None:
                await client.receive(line)
                await client.idle()
                await sink.until_any(lambda message: ended in message[:400])

            yield act
        finally:
            await client.close(HANG_S)
            await host.close()

    return surface


ACP = editors(
    AcpAgent,
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
    lambda cwd: {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": str(cwd), "mcpServers": []}},
    lambda result: result["sessionId"],
    lambda id, text: {
        "jsonrpc": "2.0", "id": 2, "method": "session/prompt",
        "params": {"sessionId": id, "prompt": [{"type": "text", "text": text}]},
    },
    b'"id":2',
)  # fmt: skip
CODEX = editors(
    CodexServer,
    {"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
    lambda cwd: {"id": 1, "method": "thread/start", "params": {"cwd": str(cwd)}},
    lambda result: result["thread"]["id"],
    lambda id, text: {
        "id": 2, "method": "turn/start", "params": {"threadId": id, "input": [{"type": "text", "text": text}]},
    },
    b"turn/completed",
)  # fmt: skip


class Lines:
    """A client of MCP by lines: it writes when it is told to, and keeps what comes."""

    def __init__(self) -> None:
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sink = RawSink()

    async def read(self) -> AsyncIterator[bytes]:
        while (line := await self._out.get()) is not None:
            # As a pipe gives it.
            for start in range(0, len(line), 64 * 1024):
                yield line[start : start + 64 * 1024]

    def write(self, message: dict[str, Any]) -> None:
        self._out.put_nowait(msgspec.json.encode(message) + b"\n")

    def end(self) -> None:
        self._out.put_nowait(None)

    async def send(self, line: bytes) -> None:
        self.sink.send([line])

    async def answer(self, id: int) -> bytes:
        return await self.sink.until_any(lambda line: b'"id":%d' % id in line)


@asynccontextmanager
async def mcp_call(text: str, folder: Path) -> AsyncGenerator[Act]:
    load_sdk()
    host, nursery, client = Host(settings()), Nursery(), Lines()
    endpoint = build_conversation_server(host, nursery.start)
    serving = nursery.start(serve_lines(endpoint, client.read(), client, strict=True), "serve")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    client.write({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    await client.answer(0)
    client.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def act() -> None:
        params = {"name": "conversation_message", "arguments": {"conversation_id": "root", "text": text}}
        client.write({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        answer = await client.answer(1)
        assert b'"isError":true' not in answer, answer[:300]

    try:
        yield act
    finally:
        client.end()
        await asyncio.wait((serving,), timeout=HANG_S)
        endpoint.close()
        await host.close()
        await nursery.close(2)


PROGRAM = "import sys; sys.stdin.read(); sys.stdout.write(open('text', encoding='utf-8', newline='').read())"


@asynccontextmanager
async def executor_text(text: str, folder: Path) -> AsyncGenerator[Act]:
    """Another program writes it as its answer."""
    (folder / "text").write_bytes(text.encode())
    table: dict[str, Any] = {
        "command": [sys.executable, "-c", PROGRAM],
        "output": "text",
        "sandbox": {"workspace-write": []},
    }
    own = replace(settings(), cwd=str(folder), executors={"own": table})
    async with Session.start(own) as session:
        give_tokens(session)
        conversation = await session.open(backend="command:own")
        yield lambda: conversation.message("Go.")


@asynccontextmanager
async def tool_output(text: str, folder: Path) -> AsyncGenerator[Act]:
    """A function of the user's returns it to the model."""

    @tertulia.tool
    def read() -> str:
        """Read it."""
        return text

    model = ScriptedModel([{"tool_calls": [{"name": "read", "arguments": {}}]}, "Fine."])
    async with Session.start(tertulia.Settings(model=model)) as session:
        give_tokens(session)
        conversation = await session.open(tools=[read])
        yield lambda: conversation.message("Go.")


SURFACES: dict[str, Surface] = {
    "Python": python_message,
    "an answer": python_answer,
    "conversation/message": requests("conversation/message", lambda text: {"conversation_id": "root", "text": text}),
    "items": requests(
        "conversation/message",
        lambda text: {"conversation_id": "root", "items": [{"type": "text", "text": text[:99]}] * 15_000},
    ),
    "conversation/open": requests("conversation/open", lambda text: {"user_instructions": text}),
    "conversation/set_context": requests(
        "conversation/set_context", lambda text: {"conversation_id": "root", "base_instructions": text}
    ),
    "previous_result": requests(
        "conversation/message", lambda text: {"conversation_id": "root", "text": "x", "previous_result": [text]}
    ),
    "ACP": ACP,
    "Codex": CODEX,
    "MCP": mcp_call,
    "an executor": executor_text,
    "a tool": tool_output,
}
PAIRS = [(surface, body) for surface in SURFACES for body in BODIES]


@pytest.mark.timeout(6 * HANG_S)
@each_row("surface, body", sample(PAIRS, 16))
async def test_no_text_holds_the_loop(surface: str, body: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """L1: whatever it is made of, and at the largest size that is accepted, no step takes more than 100 ms."""
    text, best = BODIES[body](), float("inf")
    for _ in range(TRIES):
        async with SURFACES[surface](text, tmp_path_factory.mktemp("work")) as act, loop_steps() as steps:
            await act()
        best = min(best, steps.longest_s)
        if best < MOST_S:
            break
    assert best < MOST_S


@each_row("surface", sample([name for name in SURFACES if name not in ("items", "conversation/open", "MCP")], 6))
@each_row("body", sample(["letters", "hexadecimal", "quotes", "joined emoji"], 2))
async def test_little_more_memory_is_used_than_a_message_has(
    surface: str, body: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """L1: at most four times the message as it is sent, with what the client has of it, all in this process.

    Where that is two copies more, `test_large_messages.py` looks at the server's process alone.
    """
    text = BODIES[body]()
    size = len(msgspec.json.encode(text))
    async with SURFACES[surface](text, tmp_path_factory.mktemp("work")) as act:
        tracemalloc.start(1)
        try:
            await act()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak <= MEMORY * size, f"{peak / size:.1f} times"
