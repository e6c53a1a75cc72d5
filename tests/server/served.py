"""A real `tertulia serve` in this process, and what talks to it: raw bytes, WebSockets, MCP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.guard import AllowedHosts
from tertulia.server.http.page_files import PAGES_FOLDER
from tertulia.server.http.server import HttpServer, listen
from tertulia.server.web_app import WebApp
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.server.client import model

TOKEN = "5f0c" * 16
DEADLINE_S = HANG_S


class Place:
    """Where it is served, and the host behind."""

    def __init__(self, port: int, host: Host, web: WebApp) -> None:
        self.port = port
        self.host = host
        self.web = web

    async def raw(self, request: bytes, *, more: bool = False) -> bytes:
        """Send these bytes and have everything that comes back until the server ends it."""
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(request)
                if not more:
                    await writer.drain()
                return await reader.read()
            finally:
                writer.close()

    def head(self, method: str, path: str, **headers: str | None) -> bytes:
        """The beginning of a request as a good client would send it, but for these headers. None leaves one out."""
        fields: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {TOKEN}",
            "Connection": "close",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")

    def upgrade(self, path: str = "/ws", **headers: str | None) -> bytes:
        """The same for a WebSocket."""
        key = {"Sec_WebSocket_Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Sec_WebSocket_Version": "13"}
        fields: dict[str, str | None] = {"Connection": "Upgrade", "Upgrade": "websocket", **key, **headers}
        return self.head("GET", path, **fields)

    def post(self, body: bytes, path: str = "/mcp", **headers: str | None) -> bytes:
        """A request with a body."""
        fields: dict[str, str | None] = {
            "Content_Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content_Length": str(len(body)),
            **headers,
        }
        return self.head("POST", path, **fields) + body

    @asynccontextmanager
    async def socket(self, **options: Any) -> AsyncIterator[SocketClient]:
        """A WebSocket."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        options.setdefault("additional_headers", headers)
        async with connect(f"ws://127.0.0.1:{self.port}/ws", max_size=None, **options) as socket:
            yield SocketClient(socket)


class SocketClient:
    """JSON-RPC over a WebSocket, from the other end."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[Any] = []
        self.notices: list[Any] = []
        """What came besides: `host_event`."""
        self.answers: dict[Any, Any] = {}
        self._ids = count(1)

    async def send(self, method: str, **params: Any) -> int:
        """A request; its id."""
        number = next(self._ids)
        await self.socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        return number

    async def call(self, method: str, **params: Any) -> Any:
        """A request and its answer, as a whole."""
        number = await self.send(method, **params)
        return await self.answer(number)

    async def answer(self, number: Any) -> Any:
        """The answer to one."""
        await self.until(lambda: number in self.answers)
        return self.answers[number]

    async def event(self, kind: str) -> Any:
        """The first event of that type, now or later."""
        await self.until(lambda: any(event["type"] == kind for event in self.events))
        return next(event for event in self.events if event["type"] == kind)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Read until that is so."""
        async with asyncio.timeout(DEADLINE_S):
            while not reached():
                message = json.loads(await self.socket.recv())
                if isinstance(message, dict) and message.get("method") == "event":
                    self.events.append(message["params"])
                elif isinstance(message, dict) and "method" in message:
                    self.notices.append(message["params"])
                else:
                    self.answers[message["id"] if isinstance(message, dict) else "batch"] = message


@asynccontextmanager
async def served(
    settings: Settings | None = None,
    hosts: AllowedHosts | None = None,
    origins: frozenset[bytes] = frozenset(),
    pages: Path = PAGES_FOLDER,
) -> AsyncIterator[Place]:
    """A server for the block. In the end everything of it is gone."""
    host, nursery = Host(settings or Settings(model=model())), Nursery()
    web = WebApp(host, TOKEN, hosts, origins=origins, pages=pages)
    server = HttpServer(web.app)
    with listen(0) as listening:
        serving = nursery.start(server.serve(listening), "http")
        try:
            yield Place(listening.getsockname()[1], host, web)
        finally:
            await host.close()
            server.stop()
            await web.close(2)
            await serving
            await nursery.close(2)


def status(answer: bytes) -> int:
    """Of an HTTP answer."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0
