"""What one hostile message costs: the programs themselves, each in a process of its own, fed over pipes and sockets.

Of each message the longest step of the program's loop, in CPU time of its thread, how much memory it took at most in
parts of the message, and how long it was until the program answered the next one.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import struct
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tertulia.scheduler.nursery import Nursery

MB = 1_000_000
LINE, FRAME, ANSWER = 119 * MB, 31 * MB, 15 * MB
"""Bytes of a line on standard input, of a frame of a WebSocket, of an answer of a server or a model."""
CLOSE_S = 2.0
DEADLINE_S = 120.0

_WATCHED = """
import json, signal, sys, time
from asyncio import events

state, longest, run = sys.argv.pop(1), [0.0, ""], events.Handle._run

def watched(self):
    begun = time.thread_time()
    try:
        return run(self)
    finally:
        took = time.thread_time() - begun
        if took > longest[0]:
            longest[:] = [took, repr(self)[:300]]

def told(*_):
    with open(state, "w") as file:
        json.dump(longest, file)
    longest[:] = [0.0, ""]

events.Handle._run = watched
signal.signal(signal.SIGUSR1, told)
from tertulia.cli.main import main
sys.exit(main())
"""
"""Runs the command line with every step of the loop measured. A signal writes the longest one down."""


def many(part: bytes, size: int) -> bytes:
    """A list of them."""
    return b"[" + part * (size // len(part)) + part.removesuffix(b",") + b"]"


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "tiny objects": lambda size: many(b"{},", size),
    "keys": lambda size: b"{" + b",".join(b'"%d":1' % n for n in range(size // 11)) + b"}",
    "levels": lambda size: b'{"a":' * (size // 6) + b"1" + b"}" * (size // 6),
    "escaped quotes": lambda size: b'["' + rb"\"" * (size // 2) + b'"]',
    "escaped letters": lambda size: b'["' + rb"\u00e9" * (size // 6) + b'"]',
    "a long string": lambda size: b'["' + b"x" * size + b'"]',
    "characters of four bytes": lambda size: b'["' + "😀".encode() * (size // 4) + b'"]',
    "numbers of 900 digits": lambda size: many(b"9" * 900 + b",", size),
    "one number": lambda size: b"[" + b"9" * size + b"]",
    "blanks": lambda size: b"[" + b" " * size + b"]",
}
LINES: dict[str, Callable[[int], bytes]] = {
    "blank lines": lambda size: b"\n" * size,
    "lines that are nothing": lambda size: b"x\n" * (size // 200),
}

KINDS = ("JSON", "SSE")

Row = tuple[Any, ...]


def run() -> list[Row]:
    """Measure; each result is (name, value, unit, target)."""
    with tempfile.TemporaryDirectory() as home:
        return asyncio.run(_run(Path(home)))


async def _run(home: Path) -> list[Row]:
    rows = await _sockets(home)
    for words in (("app-server",), ("app-server", "--codex"), ("acp",), ("mcp-server",)):
        rows += await _pipe(home, words)
    for wire in ("responses", "chat", "messages"):
        rows += await _model(home, wire)
    return [*rows, *await _servers(home), *await _stop(home)]


# ── a program that is watched ────────────────────────────────────────────────────────────────────────────────


class _Program:
    def __init__(self, process: asyncio.subprocess.Process, state: Path) -> None:
        self.process, self._state = process, state
        self._before = 0

    async def begin(self) -> None:
        """What came before this is not measured."""
        await self._longest()
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")
        # Once: memory that an earlier message left behind is no excuse for this one.
        self._before = self._before or self._status("VmRSS")
        self._cpu = self.cpu_s()
        self._begun = time.monotonic()

    async def rows(self, name: str, size: int) -> list[Row]:
        """What it cost since then."""
        wall_s, cpu_s = time.monotonic() - self._begun, self.cpu_s() - self._cpu
        grown = (self._status("VmHWM") - self._before) * 1024
        longest_s, where = await self._longest()
        if longest_s > 0.1:
            print(f"    {name}: {longest_s * 1e3:.0f} ms in {where}", file=sys.stderr)
        return [
            (f"{name}, longest step", longest_s * 1e3, "ms CPU", "<= 100"),
            *([(f"{name}, memory", grown / size, "x", "<= 4")] if size > 10 * MB else []),
            (f"{name}, all of it", cpu_s, "s CPU", "<= 20"),
            (f"{name}, until the next answer", wall_s, "s"),
        ]

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))

    async def _longest(self) -> tuple[float, str]:
        self._state.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        until, text = time.monotonic() + DEADLINE_S, ""
        while not text and time.monotonic() < until:
            await asyncio.sleep(0.01)
            text = self._state.read_text(encoding="utf-8") if self._state.exists() else ""
        longest_s, where = json.loads(text)
        return longest_s, where


@asynccontextmanager
async def _program(home: Path, *words: str) -> AsyncGenerator[_Program]:
    state = home / f"state-{secrets.token_hex(4)}"
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WATCHED, str(state), *words, "-c", f"close_timeout_s={CLOSE_S}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=variables,
        cwd=_made(home / "work"),
        limit=1 << 24,
    )
    try:
        yield _Program(process, state)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


# ── standard input and output ────────────────────────────────────────────────────────────────────────────────

_BEGIN: dict[str, dict[str, Any]] = {
    "app-server": {"method": "initialize", "params": {"observe": True}},
    "--codex": {"method": "initialize", "params": {"clientInfo": {"name": "b", "title": "b", "version": "1"}}},
    "acp": {"method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}},
    "mcp-server": {
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}},
    },
}


async def _pipe(home: Path, words: tuple[str, ...]) -> list[Row]:
    rows: list[Row] = []
    async with _program(home, *words, "-m", "scripted/tour") as program:
        await _answered(program, {"id": 0, **_BEGIN[words[-1]]})
        for number, (name, make) in enumerate({**HOSTILE, **LINES}.items(), 1):
            # The one of MCP has a shorter limit; nothing is kept of a line that is longer.
            message = make(ANSWER if name in LINES else FRAME if words == ("mcp-server",) else LINE)
            await program.begin()
            await _send(program, message + b"\n")
            await _answered(program, {"id": number, "method": "nothing/known", "params": {}})
            rows += await program.rows(f"{' '.join(words)}: {name}", len(message))
    return rows


async def _send(program: _Program, data: bytes) -> None:
    stdin = program.process.stdin
    assert stdin is not None
    view = memoryview(data)
    for start in range(0, len(data), MB):
        stdin.write(view[start : start + MB])
        await stdin.drain()


async def _answered(program: _Program, message: dict[str, Any]) -> dict[str, Any]:
    """Ask this, and read until its answer comes, which is that."""
    stdout = program.process.stdout
    assert stdout is not None
    await _send(program, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    async with asyncio.timeout(DEADLINE_S):
        while line := await stdout.readline():
            answer = json.loads(line)
            if isinstance(answer, dict) and answer.get("id") == message["id"]:
                return answer
    raise ConnectionError("it ended")


# ── WebSockets ───────────────────────────────────────────────────────────────────────────────────────────────


class _Socket:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int, token: str) -> _Socket:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        writer.write(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %b\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            % (port, token.encode())
        )
        await reader.readuntil(b"\r\n\r\n")
        socket = cls(reader, writer)
        await socket.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"observe":true}}')
        await socket.frame()
        return socket

    async def send(self, message: bytes) -> None:
        # Masked with zeros, which change nothing.
        self._writer.write(struct.pack("!BBQ4x", 0x81, 0x80 | 127, len(message)))
        self._writer.write(message)
        await self._writer.drain()

    async def frame(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            size = (await self._reader.readexactly(2))[1] & 127
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8))
            return await self._reader.readexactly(size)

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def _serving(home: Path) -> AsyncGenerator[tuple[_Program, int, str]]:
    async with _program(home, "serve", "--port", "0", "-m", "scripted/tour") as program:
        assert program.process.stdout is not None
        answer = json.loads(await program.process.stdout.readline())
        token = Path(answer["token_file"]).read_text(encoding="ascii").strip()
        yield program, int(answer["url"].rpartition(":")[2].strip("/")), token


async def _sockets(home: Path) -> list[Row]:
    rows: list[Row] = []
    async with _serving(home) as (program, port, token):
        await (await _Socket.connect(port, token)).send(b"[]")
        for name, make in HOSTILE.items():
            socket, message = await _Socket.connect(port, token), make(FRAME)
            await program.begin()
            polling = Nursery().start(_longest_gap(port, token), "polling")
            await socket.send(message)
            await socket.frame()
            polling.cancel()
            rows += await program.rows(f"serve: {name}", len(message))
            rows.append((f"serve: {name}, longest wait for /health", await polling * 1e3, "ms"))
            socket.close()
    return rows


async def _longest_gap(port: int, token: str) -> float:
    longest = 0.0
    ask = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %b\r\nConnection: close\r\n\r\n"
    try:
        while True:
            begun = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ask % (port, token.encode()))
            await reader.read()
            writer.close()
            longest = max(longest, time.monotonic() - begun)
    except asyncio.CancelledError:
        return longest


async def _sent(socket: _Socket, message: bytes) -> None:
    # The server ends meanwhile.
    with suppress(OSError):
        await socket.send(message)


async def _stop(home: Path) -> list[Row]:
    """SIGTERM with six long messages on their way, of those that take longest to read."""
    message = b"[" + b'"",' * 199_000 + b'"' + rb"\u00e9" * (5 * MB) + b'"]'
    async with _serving(home) as (program, port, token):
        sockets = [await _Socket.connect(port, token) for _ in range(6)]
        nursery = Nursery()
        sending = [nursery.start(_sent(socket, message), "a message") for socket in sockets]
        await asyncio.wait(sending, timeout=0.5)
        begun = time.monotonic()
        program.process.terminate()
        async with asyncio.timeout(DEADLINE_S):
            await program.process.wait()
        took = time.monotonic() - begun
        await nursery.close(1)
    return [("a stop with six messages in flight", took, "s", f"<= {CLOSE_S + 2:g}")]


# ── servers and models that say too much ─────────────────────────────────────────────────────────────────────

Said = Callable[[dict[str, Any]], bytes]
"""What is answered to a request, with its headers."""


@asynccontextmanager
async def _web(reply: Said) -> AsyncGenerator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            size = int(head.partition("content-length:")[2].split()[0]) if "content-length:" in head else 0
            body = await reader.readexactly(size)
            writer.write(reply(json.loads(body or b"{}")))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _reply(body: bytes, kind: str = "text/event-stream") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (
        kind.encode(),
        len(body),
        body,
    )


_EVENTS = {
    "responses": b'{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":%b}}',
    "chat": b'{"choices":[{"delta":{"content":"a","reasoning":%b}}]}',
    "messages": b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":%b}}',
}
_DELTAS = {
    "responses": b'{"type":"response.output_text.delta","output_index":0,"delta":"%b"}',
    "chat": b'{"choices":[{"delta":{"content":"%b"}}]}',
    "messages": b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}',
}
_LAST = {
    "responses": b'{"type":"response.completed","response":{}}',
    "chat": b"[DONE]",
    "messages": b'{"type":"message_stop"}',
}
DELTA = 3 * MB
ANSWERS = {"in ASCII": "x", "in Chinese": "字", "in emoji": "😀"}
"""What is taken, and stays: how many bytes Python needs for a character is another matter than how many it has."""
STREAMS: dict[str, Callable[[int], bytes]] = {
    "many lines": lambda size: b"data: {}\n" * (size // 9) + b"\n",
    "blank lines": lambda size: b"\n" * size,
    "comments": lambda size: b": x\n\n" * (size // 5),
    "tiny events": lambda size: b'data: {"type":"ping"}\n\n' * (size // 23),
}


async def _model(home: Path, wire: str) -> list[Row]:
    rows: list[Row] = []
    streams = {name: b"data: " + _EVENTS[wire] % make(ANSWER) + b"\n\n" for name, make in HOSTILE.items()}
    streams |= {name: make(ANSWER) for name, make in STREAMS.items()}
    for name, character in ANSWERS.items():
        word = character.encode()
        delta = b"data: " + _DELTAS[wire] % (word * (DELTA // len(word))) + b"\n\n"
        streams[f"an answer {name}"] = delta * (ANSWER // DELTA) + b"data: " + _LAST[wire] + b"\n\n"
    for name, stream in streams.items():
        replies = [_reply(stream), _reply(b"", "text/plain")]
        async with _web(lambda _, replies=replies: replies.pop()) as port:
            provider = f'{{base_url="http://127.0.0.1:{port}/v1",wire="{wire}",stream_max_retries=0}}'
            async with _program(
                home, "app-server", "-m", "acme/m", "-c", f"model_providers.acme={provider}"
            ) as program:
                fields = {"conversation_id": await _opened(program), "text": "Go."}
                # The first request imports what it needs.
                await _answered(program, {"id": 2, "method": "conversation/message", "params": fields})
                await program.begin()
                await _answered(program, {"id": 3, "method": "conversation/message", "params": fields})
                rows += await program.rows(f"{wire}: {name}", len(stream))
    return rows


async def _opened(program: _Program) -> str:
    """A conversation."""
    await _answered(program, {"id": 0, "method": "initialize", "params": {}})
    return (await _answered(program, {"id": 1, "method": "conversation/open", "params": {}}))["result"][
        "conversation_id"
    ]


def _mcp(body: bytes, *, as_event: bool) -> Said:
    """A server that lists no tools at first, and then says this about them."""
    calls: list[None] = []

    def said(request: dict[str, Any]) -> bytes:
        if "id" not in request:
            return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        response = _HONEST.get(request.get("method", ""), _UNKNOWN)
        if request["method"] == "tools/list":
            response = b'"result":{"tools":[],"_meta":{"a":%b}}' % body if calls else response
            calls.append(None)
        answer = b'{"jsonrpc":"2.0","id":%b,%b}' % (json.dumps(request["id"]).encode(), response)
        return _reply(b"data: %b\n\n" % answer) if as_event else _reply(answer, "application/json")

    return said


_UNKNOWN = b'"error":{"code":-32601,"message":"no"}'
_HONEST = {
    "initialize": b'"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"h","version":"1"}}',
    "tools/list": b'"result":{"tools":[]}',
}
_STDIO = """
import json, sys
honest, unknown, body, asked = {honest!r}, {unknown!r}, open({body!r}, "rb").read(), 0
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    told = honest.get(request["method"], unknown)
    if request["method"] == "tools/list":
        told = b'"result":{{"tools":[],"_meta":{{"a":%b}}}}' % body if asked else told
        asked += 1
    sys.stdout.buffer.write(b'{{"jsonrpc":"2.0",%b,"id":%b}}\\n' % (told, json.dumps(request["id"]).encode()))
    sys.stdout.buffer.flush()
"""


async def _servers(home: Path) -> list[Row]:
    rows: list[Row] = []
    for name, make in HOSTILE.items():
        body = make(ANSWER)
        for kind in KINDS:
            async with _web(_mcp(body, as_event=kind == "SSE")) as port:
                table = f'{{url="http://127.0.0.1:{port}/mcp"}}'
                rows += await _refreshed(home, table, f"MCP, {kind}: {name}", len(body))
        file = home / "body"
        file.write_bytes(body)
        script = home / "server.py"
        script.write_text(_STDIO.format(honest=_HONEST, unknown=_UNKNOWN, body=str(file)), encoding="utf-8")
        table = f'{{command="{sys.executable}",args=["{script}"]}}'
        rows += await _refreshed(home, table, f"MCP, stdio: {name}", len(body))
    return rows


async def _refreshed(home: Path, table: str, name: str, size: int) -> list[Row]:
    async with _program(home, "app-server", "-m", "scripted/tour", "-c", f"mcp_servers.h={table}") as program:
        await _opened(program)
        await _answered(program, {"id": 2, "method": "mcp/status", "params": {}})
        await program.begin()
        await _answered(program, {"id": 3, "method": "mcp/refresh", "params": {}})
        return await program.rows(name, size)
