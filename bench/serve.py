"""`tertulia serve` under load: a server in a process of its own, clients in this one, real sockets between them.

Only the server is measured: its CPU time and its memory. The clients know just enough to count what comes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import secrets
import struct
import subprocess
import sys
import time
from statistics import median
from typing import Any

from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.events import BackgroundEvent
from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.server import HttpServer, listen
from tertulia.server.jsonrpc.stdio import read_chunks
from tertulia.server.web_app import WebApp
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

CLIENTS = 1_000
EVENTS_PER_S = 20
SECONDS = 5
IDLE = 10_000
AT_ONCE = 200
SERVERS = 5
ROUNDS = 10
MESSAGES = 50
REPLY = "A tertulia is one table where many conversations are held in turn."
TOKEN = secrets.token_hex(16)


def run() -> list[tuple[Any, ...]]:
    """Measure; each result is (name, value, unit, target)."""
    return asyncio.run(_run())


async def _run() -> list[tuple[Any, ...]]:
    idle = _with_room_for(IDLE)
    async with _Server() as server:
        lost, cores, rate = await _broadcast(server)
        rows = [
            (f"{CLIENTS:,} WebSockets, deliveries", rate, "/s"),
            ("of them lost", lost, "", "<= 0"),
            ("processors that the server needs for it", cores, "", "<= 1"),
        ]
    rows += await _messages()
    async with _Server() as server:
        rows.append((f"an idle connection, of {idle:,}", await _idle(server, idle), "KB", "<= 45"))
    return rows


def _with_room_for(number: int) -> int:
    """As many connections as this machine lets one process have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = number if hard == resource.RLIM_INFINITY else min(number, hard - 200)
    if room < number:
        print(f"  only {hard:,} open files are allowed here: {room:,} connections instead of {number:,}", flush=True)
    return room


async def _broadcast(server: _Server) -> tuple[int, float, float]:
    """How many deliveries were lost, how many processors they took, and how many there were a second."""
    clients = await _connected(server, CLIENTS)
    number = EVENTS_PER_S * SECONDS
    before = sum(client.events for client in clients)
    heard = [client.heard(client.events + number) for client in clients]
    spent = await server.ask("publish", number, 1 / EVENTS_PER_S)
    await asyncio.wait(heard, timeout=10)
    got = sum(client.events for client in clients) - before
    for client in clients:
        client.close()
    return number * CLIENTS - got, spent["cpu_s"] / spent["wall_s"], number * CLIENTS / spent["wall_s"]


async def _messages() -> list[tuple[Any, ...]]:
    """Messages over a socket against turns with nobody listening, in the server's CPU time.

    The turns are run in two ways: one after another without a pause, which is the least a turn can cost, and asked for
    one by one over a pipe, where the server has to be woken for each, as it has to be for a message.

    In short rounds that take turns, and of each difference the median: what else this machine does meets all alike. In
    several processes, for where one lies in memory makes a tenth. On a busy machine everything costs more, and the part
    of a turn stays as it is.
    """
    rounds: list[tuple[float, float, float]] = []
    for _ in range(SERVERS):
        async with _Server() as server:
            await _round(server)
            rounds += [await _round(server) for _ in range(ROUNDS)]
    hot, request, message = (median(figures) for figures in zip(*rounds, strict=True))
    return [
        ("a turn, one after another, nobody listening", hot, "ms"),
        ("a turn, asked for over a pipe, nobody listening", request, "ms"),
        ("a message over a WebSocket with its events", message, "ms"),
        ("JSON-RPC over a WebSocket on top of the first", median(c - a for a, _, c in rounds), "ms", "<= 0.3"),
        ("that as part of such a turn", median((c - a) / a for a, _, c in rounds), ""),
        ("JSON-RPC over a WebSocket on top of the second", median(c - b for _, b, c in rounds), "ms", "<= 0.3"),
    ]


async def _round(server: _Server) -> tuple[float, float, float]:
    """What each costs, in milliseconds. Each has a history of its own, so that all have the same length."""
    answer = await server.ask("open")
    hot = (await server.ask("turns", answer["id"], MESSAGES))["cpu_s"]
    answer = await server.ask("open")
    begin = (await server.ask("usage"))["cpu_s"]
    for _ in range(MESSAGES):
        await server.ask("turns", answer["id"], 1)
    request_id = (await server.ask("usage"))["cpu_s"] - begin
    answer = await server.ask("open")
    (client,) = await _connected(server, 1)
    heard, begin = client.events, (await server.ask("usage"))["cpu_s"]
    for _ in range(MESSAGES):
        await client.request("conversation/message", conversation_id=answer["id"], text="hello")
    message = (await server.ask("usage"))["cpu_s"] - begin
    if client.events - heard < MESSAGES * len(REPLY.split()):
        raise AssertionError(f"events are missing: {client.events - heard} of {MESSAGES} messages")
    client.close()
    return hot / MESSAGES * 1e3, request_id / MESSAGES * 1e3, message / MESSAGES * 1e3


async def _idle(server: _Server, number: int) -> float:
    warm = await _connected(server, AT_ONCE)
    before = (await server.ask("usage"))["rss_kb"]
    clients = await _connected(server, number - AT_ONCE)
    after = (await server.ask("usage"))["rss_kb"]
    for client in warm + clients:
        client.close()
    return (after - before) / len(clients)


async def _connected(server: _Server, number: int) -> list[_Client]:
    """So many clients of the one session."""
    clients: list[_Client] = []
    while len(clients) < number:
        some = min(AT_ONCE, number - len(clients))
        clients += await asyncio.gather(*(_Client.connect(server) for _ in range(some)))
    return clients


# ── a client ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Client(asyncio.Protocol):
    """Counts events, and knows the answer to its last request when it comes."""

    def __init__(self) -> None:
        self.events = 0
        self._held = b""
        self._open = False
        self._answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: Any = None
        self._wanted = -1
        self._enough = self._answered

    @classmethod
    async def connect(cls, server: _Server) -> _Client:
        _, client = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", server.port)
        client._transport.write(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %b\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            % (server.port, TOKEN.encode())
        )
        await client._answered
        await client.request("initialize", session_id=server.session_id)
        return client

    async def request(self, method: str, **params: Any) -> None:
        self._answered = asyncio.get_running_loop().create_future()
        payload = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        # Masked with zeros, which change nothing.
        self._transport.write(struct.pack("!BBH4x", 0x81, 0x80 | 126, len(payload)) + payload)
        await self._answered

    def heard(self, number: int) -> asyncio.Future[None]:
        """Done when so many events have come."""
        self._wanted, self._enough = number, asyncio.get_running_loop().create_future()
        return self._enough

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        at = 0
        if not self._open:
            at = data.find(b"\r\n\r\n") + 4
            if not data.startswith(b"HTTP/1.1 101") or at < 4:
                raise ConnectionError(data)
            self._open = True
            self._answered.set_result(None)
        while (end := _frame_end(data, at)) is not None:
            start, at = at, end[1]
            self._take(data[start], data[end[0] : at])
        self._held = data[at:]

    def _take(self, first: int, payload: bytes) -> None:
        if first == 0x89:
            self._transport.write(struct.pack("!BB4x", 0x8A, 0x80 | len(payload)) + payload)
        elif payload.startswith(b'{"jsonrpc":"2.0","method":"event"'):
            self.events += 1
            if self.events == self._wanted:
                self._enough.set_result(None)
        elif payload.startswith(b'{"jsonrpc":"2.0","id":1,"error"'):
            self._answered.set_exception(AssertionError(payload.decode()))
        elif not self._answered.done():
            self._answered.set_result(None)


def _frame_end(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of the frame begins and ends, if all of it is there."""
    if len(data) < at + 2:
        return None
    size, start = data[at + 1] & 127, at + 2
    if size >= 126:
        width = 2 if size == 126 else 8
        size, start = int.from_bytes(data[start : start + width]), start + width
    return (start, start + size) if len(data) >= start + size else None


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────


class _Server:
    """A process that serves, and does what it is asked on its standard input."""

    async def __aenter__(self) -> _Server:
        command = [sys.executable, "-m", "bench.serve"]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=os.path.dirname(os.path.dirname(__file__))
        )
        answer = await self.ask(TOKEN)
        self.port, self.session_id = answer["port"], answer["session_id"]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def ask(self, *what: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        return await self._heard()

    async def _heard(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(await self._process.stdout.readline())


async def _serve() -> None:
    host, nursery = Host(Settings(model=ScriptedModel([REPLY], repeat=True))), Nursery()
    session = await host.start()
    web = WebApp(host, json.loads(sys.stdin.buffer.raw.readline())[0])
    server = HttpServer(web.app)
    with listen(0) as listening:
        serving = nursery.start(server.serve(listening), "http")
        print(json.dumps({"port": listening.getsockname()[1], "session_id": session.id}), flush=True)
        async for chunk in read_chunks(0):
            for line in chunk.splitlines():
                print(json.dumps(await _done(session, *json.loads(line))), flush=True)
        await host.close()
        server.stop()
        await serving
    await web.close(1)


async def _done(session: Session, what: str, *how: Any) -> dict[str, Any]:
    begun, spent = time.monotonic(), time.process_time()
    if what == "publish":
        number, pause = how
        for index in range(number):
            session.parts.bus.publish(BackgroundEvent("something happened"))
            await asyncio.sleep(max(0.0, begun + (index + 1) * pause - time.monotonic()))
    elif what == "turns":
        conversation, number = how
        for _ in range(number):
            await session.conversation(conversation).message("hello")
    elif what == "open":
        return {"id": (await session.open()).id}
    else:
        return {"cpu_s": time.process_time(), "rss_kb": _resident_kb()}
    return {"cpu_s": time.process_time() - spent, "wall_s": time.monotonic() - begun}


def _resident_kb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024


if __name__ == "__main__":
    _with_room_for(IDLE)
    asyncio.run(_serve())
