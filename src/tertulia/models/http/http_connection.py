"""A connection over which one request after another is sent. Not a general client: POST, and what providers answer.

No library is used, because importing one takes longer than the rest of a start, and a request with one takes as long as
the rest of a turn.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast
from urllib.parse import quote, unquote, urlsplit

from tertulia.models.http.http_response import HttpResponse, NotHttpError
from tertulia.protocol.network.access import DIRECT, OutboundNetwork, ProxyAddress
from tertulia.protocol.network.certificates import tls_context

_AT_ONCE = struct.pack("ii", 1, 0)
_SMALL = 1 << 16
_LARGE = 1 << 20
_MOST_BUFFERED = 1 << 17
"""So many unread bytes of a body stop reading from the connection."""
QUICK_S = 0.005
"""Pieces that follow each other faster are read together: waking up for each takes longer than reading it."""
_QUICK_PIECES = 3
"""After so many in a row the stream counts as quick. The first pieces of an answer never wait."""
_HOST = re.compile(r"[0-9A-Za-z._~-]+|[0-9A-Fa-f:.]+(?:%25[0-9A-Za-z._~-]+)?")
_PATH_CHARACTERS = "/%:@!$&'()*+,;=~"


class HttpAddress:
    """Where requests go: host, port, whether with TLS, and the lines that are the same in every request."""

    __slots__ = ("begin", "ca", "host", "port", "proxy", "uses_tls", "with_password")

    def __init__(self, url: str, access: OutboundNetwork = DIRECT) -> None:
        """ValueError where the address cannot be used."""
        address = urlsplit(url)
        host = address.hostname or ""
        if not host.isascii():
            host = host.encode("idna").decode()
        if not _HOST.fullmatch(host):
            raise ValueError("no host")
        self.host = host
        self.uses_tls = address.scheme == "https"
        usual = 443 if self.uses_tls else 80
        self.port = address.port or usual
        named = f"[{host}]" if ":" in host else host
        place = named if self.port == usual else f"{named}:{self.port}"
        target = quote(address.path or "/", safe=_PATH_CHARACTERS)
        if address.query:
            target += "?" + quote(address.query, safe=_PATH_CHARACTERS + "?")
        self.proxy = access.proxy_for(url)
        """The proxy through which it is asked."""
        self.ca = (access.ca_file, access.ca_dir)
        through = None if self.uses_tls else self.proxy
        if through is not None:
            target = f"http://{place}{target}"
        lines = f"POST {target} HTTP/1.1\r\nHost: {place}\r\nContent-Type: application/json\r\n"
        if through is not None and through.authorization is not None:
            lines += f"Proxy-Authorization: {through.authorization}\r\n"
        self.with_password = address.username is not None or address.password is not None
        if self.with_password:
            from base64 import b64encode

            password = f"{unquote(address.username or '')}:{unquote(address.password or '')}"
            lines += f"Authorization: Basic {b64encode(password.encode()).decode()}\r\n"
        self.begin = lines

    def head(self, headers: Mapping[str, str], length: int) -> bytes:
        """All that precedes the body; ValueError where a password in the address and a key would both be sent."""
        if self.with_password and "Authorization" in headers:
            raise ValueError("two passwords")
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        return f"{self.begin}{lines}Content-Length: {length}\r\n\r\n".encode()


class HttpExchange(HttpResponse):
    """One request and its response, on a connection that is given back when the response is whole."""

    __slots__ = ("_waiter", "connection", "error")

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.connection: HttpConnection | None = connection
        """None when it was released or lost."""
        self.error: Exception | None = None
        """Why the response cannot continue."""
        self._waiter: asyncio.Future[None] | None = None

    def more(self) -> asyncio.Future[None]:
        """A future that is done when more has arrived, or nothing more will. One reader waits at a time."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        return waiter

    def fail(self, error: Exception) -> None:
        """End the exchange with this error."""
        self.error = self.error or error
        self.wake()
        if self.connection is not None:
            self.connection.go_on()

    def wake(self) -> None:
        """Tell the reader, if one waits."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def take(self) -> bytes:
        """The part of the body that has arrived and was not taken yet; after that the connection may receive more."""
        if self.connection is not None:
            self.connection.read_on()
        return super().take()


class HttpConnection(asyncio.Protocol):
    """One connection, for one exchange at a time."""

    __slots__ = (
        "_drain",
        "_exchange",
        "_free",
        "_is_full",
        "_is_sending",
        "_is_still",
        "_loop",
        "_pause",
        "_quick",
        "_read_at",
        "_transport",
        "is_open",
    )

    def __init__(self, free: Callable[[HttpConnection], None]) -> None:
        """`free` is called when the connection can be used again."""
        self._free = free
        self._transport: asyncio.Transport | None = None
        self._exchange: HttpExchange | None = None
        self._drain: asyncio.Future[None] | None = None
        self._is_full = False
        """Whether the send buffer is full."""
        self._is_still = False
        """Whether reading from the socket is paused."""
        self._is_sending = False
        self.is_open = False
        self._loop = asyncio.get_running_loop()
        self._read_at = 0.0
        """When the last piece of an answer arrived."""
        self._quick = 0
        """How many pieces in a row came quickly."""
        self._pause: asyncio.TimerHandle | None = None
        """Ends the short pause in which quick pieces gather."""

    async def send(self, head: bytes, body: Sequence[bytes], exchange: HttpExchange) -> None:
        """Send a request, as far as the provider has not refused it meanwhile."""
        transport = self._transport
        assert transport is not None
        self._exchange = exchange
        if sum(map(len, body)) < _LARGE:
            # One copy costs less than several calls of the system.
            transport.write(b"".join([head, *body]))
            return
        self._is_sending = True
        transport.write(head)
        for piece in _sendable(body):
            transport.write(piece)
            while self._is_full and not _is_given_up(exchange):
                self._drain = asyncio.get_running_loop().create_future()
                await self._drain
            if _is_given_up(exchange):
                return
        self._is_sending = False
        if exchange.done:
            self._finish(exchange)

    def cut(self) -> None:
        """Close it at once, whatever is still to be sent or read."""
        if self._transport is None or not self.is_open:
            return
        peer: socket.socket = self._transport.get_extra_info("socket")
        with suppress(OSError):  # it is closed already
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._transport.abort()

    def close(self) -> None:
        """Close an idle connection. Nothing waits to be sent, so TLS need not say goodbye."""
        if self._transport is not None:
            self._transport.abort()

    def read_on(self) -> None:
        """Resume reading: the reader has taken what was buffered."""
        if self._is_still and self._pause is None and self._transport is not None and self.is_open:
            self._is_still = False
            self._transport.resume_reading()

    # ---- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport: the connection is open."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Some of the response has come."""
        exchange = self._exchange
        if exchange is None:
            # Bytes without a request.
            self.cut()
            return
        try:
            exchange.feed(data)
        except NotHttpError as error:
            exchange.fail(error)
            self.cut()
            return
        if exchange.done:
            self._finish(exchange)
        else:
            self._read_less(exchange)
        exchange.wake()
        if self._is_sending:
            self.go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone: a response that has no other end is whole then, any other is not."""
        self.is_open = False
        if self._pause is not None:
            self._pause.cancel()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.connection = None
            if exc is not None or not exchange.end():
                exchange.fail(exc if isinstance(exc, OSError) else ConnectionResetError())
            exchange.wake()
        self.go_on()

    def pause_writing(self) -> None:
        """The send buffer is full."""
        self._is_full = True

    def resume_writing(self) -> None:
        """The send buffer has room again."""
        self._is_full = False
        self.go_on()

    def go_on(self) -> None:
        """Look again whether there is more to send."""
        drain, self._drain = self._drain, None
        if drain is not None and not drain.done():
            drain.set_result(None)

    def _read_less(self, exchange: HttpExchange) -> None:
        """Read nothing for as long as the reader has enough, or for a moment where pieces come quickly."""
        now, before = self._loop.time(), self._read_at
        self._read_at = now
        self._quick = self._quick + 1 if now - before < QUICK_S else 0
        is_quick = self._quick >= _QUICK_PIECES
        if (is_quick or exchange.buffered > _MOST_BUFFERED) and self._transport is not None:
            self._is_still = True
            self._transport.pause_reading()
            if is_quick:
                self._pause = self._loop.call_later(QUICK_S, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        # What arrived during the pause counts as quick.
        self._read_at = self._loop.time()
        if self._exchange is None or self._exchange.buffered <= _MOST_BUFFERED:
            self.read_on()

    def _finish(self, exchange: HttpExchange) -> None:
        """The response is complete: release the connection, even before the reader has read all of it."""
        if self._is_sending:
            # Until it is known whether the rest of the request was sent.
            return
        self._exchange = exchange.connection = None
        transport = self._transport
        if exchange.keeps_open and self.is_open and transport is not None and not transport.get_write_buffer_size():
            self.read_on()
            self._free(self)
        else:
            self.close()


async def connect(address: HttpAddress, free: Callable[[HttpConnection], None]) -> HttpConnection:
    """A connection to that address, through its proxy where it has one; OSError where there is none."""
    if address.proxy is not None:
        return await _connect_through(address.proxy, address, free)
    loop = asyncio.get_running_loop()
    is_tls = address.uses_tls
    _, connection = await loop.create_connection(
        lambda: HttpConnection(free),
        address.host,
        address.port,
        ssl=tls_context(*address.ca) if is_tls else None,
        server_hostname=address.host if is_tls else None,
        # Happy eyeballs: where a name has IPv4 and IPv6 addresses and one does not work, the other is tried soon.
        happy_eyeballs_delay=0.25 if not _is_number(address.host) else None,
    )
    return connection


async def _connect_through(
    proxy: ProxyAddress, address: HttpAddress, free: Callable[[HttpConnection], None]
) -> HttpConnection:
    # Imported here: few requests go through a proxy.
    from tertulia.models.http.proxy_tunnel import connect_to_proxy, open_tunnel

    connection = HttpConnection(free)
    if address.uses_tls:
        await open_tunnel(proxy, address.host, address.port, connection, address.ca)
    else:
        await connect_to_proxy(proxy, connection, address.ca)
    return connection


def _is_given_up(exchange: HttpExchange) -> bool:
    """Whether the rest of the request is of no use."""
    return exchange.error is not None or (exchange.status is not None and exchange.status >= 300)


def _is_number(host: str) -> bool:
    """Whether it is an address and no name."""
    return ":" in host or host.replace(".", "").isdigit()


def _sendable(parts: Sequence[bytes]) -> Iterator[bytes | memoryview]:
    """The same bytes in pieces worth a system call, and none so large that writing it holds up the loop."""
    small: list[bytes] = []
    for part in parts:
        if len(part) < _SMALL:
            small.append(part)
            continue
        yield b"".join(small)
        small.clear()
        view = memoryview(part)
        yield from (view[start : start + _LARGE] for start in range(0, len(part), _LARGE))
    yield b"".join(small)
