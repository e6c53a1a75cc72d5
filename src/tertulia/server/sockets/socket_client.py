"""A client of a session's socket: requests and their answers, and what the session's process sends by itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec

from tertulia.errors import BusyError, ClosedError, TertuliaError, error_from_wire
from tertulia.protocol.line_framing import LineSplitter, OversizedLine
from tertulia.scheduler.nursery import Nursery
from tertulia.server.sockets.socket_folder import connect
from tertulia.server.sockets.socket_stream import SocketStream
from tertulia.session.agents.private_socket import peer

CONNECT_S = 5.0
"""How many seconds the process has to answer `initialize`."""
_CLOSE_S = 1.0
_AGAIN_S = 0.05

TakeNotification = Callable[[str, bytes], Awaitable[None]]
"""Takes a notification, by its method and as the line that came. Nothing more is read until it returns."""


class _Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Message).decode


class SocketClient:
    """One connection to the process that holds a session. `open` makes it."""

    def __init__(self, session_id: str, take: TakeNotification) -> None:
        self.session_id = session_id
        self.pid = 0
        """Of the process at the other end."""
        self.ended = asyncio.Event()
        """Set when the connection is gone: the session, or its process, has ended."""
        self._take = take
        self._stream: SocketStream | None = None
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._nursery = Nursery()

    @classmethod
    async def open(cls, home: Path, session_id: str, take: TakeNotification, **params: Any) -> SocketClient:
        """Connect, and say `initialize`.

        Args:
            home: `$TERTULIA_HOME`.
            session_id: The session that is meant.
            take: Gets every notification, in order.
            params: More for `initialize`: client, observe, attend.

        Returns:
            The connection; closing it stops nothing.

        Raises:
            NotFoundError: The session cannot be reached.
            ClosedError: Its process has ended.
            BusyError: Its process does not answer.
        """
        client = cls(session_id, take)
        try:
            async with asyncio.timeout(CONNECT_S):
                await client._connect(await _connect_patiently(home, session_id))
                await client.request("initialize", {**params, "session_id": session_id})
        except TimeoutError:
            await client.close()
            raise BusyError(f"the process of session {session_id} does not answer", retry_after_s=1) from None
        except BaseException:
            await client.close()
            raise
        return client

    async def request(self, method: str, params: Mapping[str, Any]) -> msgspec.Raw:
        """Carry out an operation; its answer as JSON. A TertuliaError as the other process reported it."""
        if self._stream is None or self.ended.is_set():
            raise self._gone()
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        line = msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        self._stream.send((line,))
        try:
            return await answer
        finally:
            self._answers.pop(number, None)

    async def close(self) -> None:
        """Close the connection. More than once is fine."""
        if self._stream is not None:
            await self._stream.close(0)
        await self._nursery.close(_CLOSE_S)
        self._end()

    async def _connect(self, connection: socket.socket) -> None:
        self.pid = peer(connection)[0]
        _, self._stream = await asyncio.get_running_loop().create_connection(SocketStream, sock=connection)
        self._nursery.start(self._read(self._stream), "read a session's socket")

    async def _read(self, stream: SocketStream) -> None:
        lines = LineSplitter()
        try:
            async with aclosing(stream.chunks()) as incoming:
                async for chunk in incoming:
                    for line in lines.feed(chunk):
                        if not isinstance(line, OversizedLine):
                            await self._read_line(bytes(line))
        finally:
            self._end()
            await stream.close(0)

    async def _read_line(self, line: bytes) -> None:
        try:
            message = _decode(line)
        except msgspec.DecodeError:
            return
        if message.method is not None:
            await self._take(message.method, line)
            return
        answer = self._answers.get(message.id) if isinstance(message.id, int) else None
        if answer is None or answer.done():
            return
        if message.error is None:
            answer.set_result(message.result)
        else:
            answer.set_exception(read_error(message.error))

    def _end(self) -> None:
        self.ended.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._gone())

    def _gone(self) -> ClosedError:
        return ClosedError(f"session {self.session_id} has ended, or its process is gone")


async def _connect_patiently(home: Path, session_id: str) -> socket.socket:
    while True:
        try:
            return connect(home, session_id)
        except BusyError:
            await asyncio.sleep(_AGAIN_S)


def read_error(fields: dict[str, Any]) -> TertuliaError:
    """The error of an answer, as the class that has its code."""
    data = fields.get("data")
    detail = {**cast("dict[str, Any]", data)} if isinstance(data, dict) else {}
    code = detail.pop("code", None)
    return error_from_wire(code, str(fields.get("message")), **detail)
