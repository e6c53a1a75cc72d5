"""`tertulia serve` from one source tree, with clients that each have a session of their own."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPLY = "A tertulia is one table where many conversations are held in turn."
_TICKS = os.sysconf("SC_CLK_TCK")


class Served:
    """A server process, from its start to its end. Its home is a folder of its own, which goes with it."""

    def __init__(self, source: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-many-")
        here = Path(self._folder.name)
        for name in ("user", "work"):
            (here / name).mkdir()
        script = here / "script.json"
        script.write_text(json.dumps({"replies": [REPLY], "repeat": True}))
        command = [sys.executable, "-m", "tertulia", "serve", "--port", "0", "-m", f"scripted/{script}"]
        variables = {"PYTHONPATH": str(source), "HOME": str(here / "user"), "TERTULIA_HOME": str(here / "home")}
        self._process = subprocess.Popen(
            [*command, "-C", str(here / "work")], env={**os.environ, **variables}, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        address = json.loads(self._process.stdout.readline())
        self.port = int(address["url"].rstrip("/").rsplit(":", 1)[1])
        self.token = Path(address["token_file"]).read_text(encoding="ascii").strip()

    def cpu_s(self) -> float:
        """What it has used of the processors so far."""
        cells = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(cells[11]) + int(cells[12])) / _TICKS

    def close(self) -> None:
        """End it, and wait for that."""
        self._process.terminate()
        self._process.wait(120)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()


class Client(asyncio.Protocol):
    """Knows just enough of WebSockets to send a message and to take its answer."""

    def __init__(self) -> None:
        self._held = b""
        self._is_open = False
        self._transport: Any = None
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._root = ""

    @classmethod
    async def connect(cls, server: Served) -> Client:
        """A client with a session of its own."""
        _, client = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", server.port)
        client._transport.write(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %b\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            % (server.port, server.token.encode())
        )
        await client._answer
        answer = json.loads(await client._request("initialize"))
        client._root = answer["result"]["root_conversation_id"]
        return client

    async def turn(self) -> float:
        """How long a message took to be answered, in seconds."""
        begin = time.monotonic()
        await self._request("conversation/message", conversation_id=self._root, text="hello")
        return time.monotonic() - begin

    def close(self) -> None:
        """Drop the connection."""
        self._transport.close()

    async def _request(self, method: str, **params: Any) -> bytes:
        self._answer = asyncio.get_running_loop().create_future()
        payload = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        # Masked with zeros, which change nothing.
        self._transport.write(struct.pack("!BBH4x", 0x81, 0x80 | 126, len(payload)) + payload)
        return await self._answer

    def connection_made(self, transport: Any) -> None:
        """Called by asyncio."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        data, at = self._held + data, 0
        if not self._is_open:
            at = data.find(b"\r\n\r\n") + 4
            if at >= 4 and not data.startswith(b"HTTP/1.1 101"):
                raise ConnectionError(data)
            if at < 4:
                self._held = data
                return
            self._is_open = True
            self._answer.set_result(b"")
        while (frame := _frame(data, at)) is not None:
            self._take(data[at], data[frame[0] : frame[1]])
            at = frame[1]
        self._held = data[at:]

    def _take(self, first: int, payload: bytes) -> None:
        if first == 0x89:
            self._transport.write(struct.pack("!BB4x", 0x8A, 0x80 | len(payload)) + payload)
        elif payload.startswith(b'{"jsonrpc":"2.0","id":1,"error"'):
            self._answer.set_exception(AssertionError(payload.decode()))
        elif payload.startswith(b'{"jsonrpc":"2.0","id":1,'):
            self._answer.set_result(payload)


def _frame(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of the frame begins and ends, if all of it is there."""
    if len(data) < at + 2:
        return None
    size, start = data[at + 1] & 127, at + 2
    if size >= 126:
        width = 2 if size == 126 else 8
        if len(data) < start + width:
            return None
        size, start = int.from_bytes(data[start : start + width]), start + width
    return (start, start + size) if len(data) >= start + size else None
