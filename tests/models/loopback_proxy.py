"""An HTTP proxy on the loopback that takes CONNECT and whole addresses, and leads every host to one port.

It can also be told to misbehave: to want a password, to refuse, to say nothing, or something that is not HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self


class LoopbackProxy:
    """Serves while it is entered. `heads` has the first lines and headers of what it was asked."""

    def __init__(
        self,
        port: int = 0,
        *,
        answer: bytes | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`port`: where all hosts lead; `answer`: said instead of serving, nothing where it is empty."""
        self._port = port
        self._answer = answer
        self._password = password
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.place = ""
        self.heads: list[str] = []
        self.asked = asyncio.Event()

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self.place}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.place = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._exchange(reader, writer)
        finally:
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        self.asked.set()
        if self._answer is not None:
            writer.write(self._answer)
            await writer.drain()
            if not self._answer:
                await asyncio.Event().wait()
            return
        if self._password is not None and f"Proxy-Authorization: Basic {self._password}\r\n" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        if head.startswith("CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            method, target, rest = head.split(" ", 2)
            back.write(f"{method} /{target.split('/', 3)[3]} {rest}".encode())
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            back.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.close()


@contextlib.asynccontextmanager
async def tls_front(port: int, tls: ssl.SSLContext) -> AsyncIterator[int]:
    """A port that speaks TLS for a plain one, while it is entered."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(OSError):
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        for end in (back, writer):
            end.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
