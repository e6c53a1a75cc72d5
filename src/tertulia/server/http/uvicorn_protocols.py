"""Subclasses of uvicorn's two protocols: a limit and a deadline for headers, and WebSockets that are written directly.

What a client does wrong is answered and never logged: else a client could fill the log.

Both rest on attributes of uvicorn's classes that it does not promise; this is the only file that knows them.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

MAX_HEADER_BYTES = 32 * 1024
"""Of a request line and all its headers."""
HEADER_S = 10.0
"""From the first byte of a request, or from the connection on, to the end of its headers."""
SINK_EXTENSION = "tertulia.sink"
"""Under this name of its scope's extensions a WebSocket has its `Sink`."""

_TEXT_FRAME = 0x81
_MIDDLE = struct.Struct("!BBH")
"""The head of a frame of middle length, as most events are."""
_REFUSED = b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_ABSOLUTE = re.compile(rb"[^:/?#]+://([^/?#]*)(.*)", re.DOTALL)
"""A request line with a whole address in it, as proxies get it (RFC 9112, 3.2.2): (the host), and (the rest)."""


class HeaderLimitedProtocol(HttpToolsProtocol):
    """Closes a connection whose headers are too long or take too long."""

    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEADER_BYTES:
                self._refuse(b"431 Request Header Fields Too Large")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._await_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """By the parser, which leaves the blanks around a value that are no part of it (RFC 9110, 5.5)."""
        # Fields behind a body would become headers that were not checked, and any number of them.
        if self._in_head:
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = False
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEADER_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
            return
        if (address := _ABSOLUTE.fullmatch(self.url)) is not None:
            self._take_apart(*address.groups())
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called by the parser. Of a request that was refused nothing is kept."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.transport.is_closing():
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if not self.transport.is_closing():
            super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Called by the base class: a mistake of the client's."""

    def _take_apart(self, host: bytes, rest: bytes) -> None:
        """A request that names two hosts gets an empty one, which the guard refuses."""
        self.url = rest if rest.startswith(b"/") else b"/" + rest
        named = [value.lower() for name, value in self.headers if name == b"host"]
        if named != [host.lower()]:
            self.headers[:] = [(b"host", b""), *(pair for pair in self.headers if pair[0] != b"host")]

    def _await_head(self) -> None:
        self._stop_timer()
        self._in_head = True
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEADER_S, self._refuse, b"408 Request Timeout")

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(_REFUSED % status)
            self.transport.close()


class SinkWebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that is a `Sink` too: whole messages as text frames, without a task for each socket to write them."""

    async def run_asgi(self) -> None:
        self.scope["extensions"][SINK_EXTENSION] = _Sink(self)  # pyright: ignore[reportTypedDictNotRequiredAccess, reportArgumentType]
        await super().run_asgi()

    def data_received(self, data: bytes) -> None:
        """By asyncio. Reading goes on until a second message waits; to stop at each costs more than most of them."""
        # Said to be paused already, so that the base class does not; it goes on reading when nothing waits any more.
        self.read_paused = True
        super().data_received(data)
        if not self.handshake_initiated:
            # All its headers came at once. What the base class makes nothing of would stay open for ever.
            self.transport.write(_REFUSED % b"400 Bad Request")
            self.transport.close()
        elif self.queue.qsize() > 1:
            self.transport.pause_reading()

    def handle_text(self, event: Any) -> None:
        """Called by the base class for each kind of frame with data."""
        super().handle_text(event)
        _release(event)

    def handle_bytes(self, event: Any) -> None:
        super().handle_bytes(event)
        _release(event)

    def handle_cont(self, event: Any) -> None:
        super().handle_cont(event)
        _release(event)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            # That is an answer too. The base class does not count it, and logs an error.
            self.handshake_complete = True

    def write_texts(self, messages: Sequence[bytes]) -> None:
        """All at once. Dropped where the other side is gone."""
        if messages and self.handshake_complete and not (self.close_sent or self.transport.is_closing()):
            self.transport.write(b"".join([part for message in messages for part in (_frame_head(message), message)]))


class _Sink:
    """A WebSocket as the `Sink` of `event_batching.py`."""

    __slots__ = ("_socket",)

    def __init__(self, socket: SinkWebSocketProtocol) -> None:
        self._socket = socket

    def send(self, messages: Sequence[bytes]) -> None:
        self._socket.write_texts(messages)

    async def drain(self) -> None:
        await self._socket.writable.wait()


def _release(frame: Any) -> None:
    """Take the data from a frame that was handed on: the parser holds the frame until the next one is complete.

    That may be for hours, and of a closed socket until the cyclic garbage collection: the memory of one message for
    each socket that ever had a large one.
    """
    frame.data = b""


def _frame_head(message: bytes) -> bytes:
    """The head of one unmasked text frame, as servers send them (RFC 6455, 5.2)."""
    size = len(message)
    if size < 126:
        return bytes((_TEXT_FRAME, size))
    if size < 1 << 16:
        return _MIDDLE.pack(_TEXT_FRAME, 126, size)
    return bytes((_TEXT_FRAME, 127)) + size.to_bytes(8)
