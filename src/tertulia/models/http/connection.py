"""One provider's address over HTTP. The only module that imports aiohttp, and imported with the first request.

Knows requests and events as bytes; what they mean is the wire's.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from tertulia.models.http.provider_error import (
    ProviderAddress,
    ProviderAttemptError,
    malformed_response,
    refused_request,
    stream_cut,
)
from tertulia.models.http.sse import EventSplitter, EventTooLargeError
from tertulia.protocol.connection_text import explain_connection_error
from tertulia.protocol.json_scan import SCANNED_FROM_BYTES, find_excess_in_steps

CONNECT_TIMEOUT_S = 10.0
_DRAIN_S = 0.5
_LOOK_AGAIN_S = 0.01
_KEPT_S = 60.0
"""How long a connection waits for the next request; people think longer than the usual 15 s."""
_MAX_ERROR_BYTES = 64 * 1024
_AT_ONCE = struct.pack("ii", 1, 0)
_IN_A_ROW = 64
"""So many events are given at once."""
_SMALL = 1 << 16
_LARGE = 1 << 20


class _NoProgress(aiohttp.ServerTimeoutError):
    """The stream is alive, and brings nothing of the answer."""


class EventStream:
    """The events of one answer, as far as they have come. Close it: a timer watches it."""

    __slots__ = (
        "_content",
        "_idle_s",
        "_loop",
        "_progress_s",
        "_ready",
        "_splitter",
        "_timer",
        "_waited_s",
        "_waits_since",
    )

    def __init__(self, content: aiohttp.StreamReader, idle_s: float, progress_s: float) -> None:
        self._content = content
        self._splitter = EventSplitter()
        self._ready: list[bytearray] = []
        """Events that have come, and are not asked for yet."""
        self._idle_s = idle_s
        self._progress_s = progress_s
        self._waited_s = 0.0
        """How long was waited for this stream since the answer last grew, but for the wait that goes on."""
        self._loop = asyncio.get_running_loop()
        self._waits_since: float | None = None
        self._timer = self._loop.call_later(min(idle_s, progress_s), self._look)

    async def next_events(self, *, progress: bool = True) -> list[bytearray]:
        """The data of the next events, at least of one; none when the stream is over.

        `progress`: whether the last ones brought anything of the answer. Without it for too long the stream is cut.
        """
        if progress:
            self._waited_s = 0.0
        if self._ready:
            # The caller may never wait for anything itself: other tasks have their turn.
            await asyncio.sleep(0)
        else:
            self._ready = await self._read()
        events = self._ready
        self._ready = events[_IN_A_ROW:]
        return events[:_IN_A_ROW] if self._ready else events

    async def _read(self) -> list[bytearray]:
        events: list[bytearray] = []
        while not events:
            began = self._waits_since = self._loop.time()
            chunk = await self._content.readany()
            self._waited_s += self._loop.time() - began
            if not chunk:
                break
            events = self._splitter.feed(chunk)
        self._waits_since = None
        for event in events:
            if len(event) > SCANNED_FROM_BYTES and (too_much := await find_excess_in_steps(event)) is not None:
                raise EventTooLargeError(too_much)
        return events

    async def drain(self) -> None:
        """Wait a moment for the end of a complete stream: then its connection can be used again."""
        if self._content.at_eof():
            return
        with suppress(TimeoutError, OSError, aiohttp.ClientError):
            async with asyncio.timeout(_DRAIN_S):
                while await self._content.readany():
                    pass

    def close(self) -> None:
        """Stop watching for silence and stalls."""
        self._timer.cancel()

    def _look(self) -> None:
        # One timer that looks up now and then, because one for each chunk would cost more than reading it. It minds
        # only silence while a reader waits: what lies here unread is not the provider's delay.
        waits_s = 0.0 if self._waits_since is None else self._loop.time() - self._waits_since
        left, without_progress = self._idle_s - waits_s, self._progress_s - self._waited_s - waits_s
        if self._waits_since is None or min(left, without_progress) > 0:
            # Where no reader waits, the last chunk is being read, and may be what was missing.
            self._timer = self._loop.call_later(max(_LOOK_AGAIN_S, min(left, without_progress)), self._look)
        else:
            self._content.set_exception(aiohttp.ServerTimeoutError() if left <= 0 else _NoProgress())


class ProviderConnection:
    """One address and the connections that are open to it. Keeps no cookies and follows no redirects."""

    def __init__(self, url: str, place: ProviderAddress, idle_s: float, progress_s: float) -> None:
        self._url = url
        self._place = place
        self._idle_s = idle_s
        self._progress_s = progress_s
        self._session: aiohttp.ClientSession | None = None
        self._sent: set[_Body] = set()

    @asynccontextmanager
    async def post(self, body: Sequence[bytes], headers: Mapping[str, str]) -> AsyncGenerator[EventStream]:
        """Send, and give the events of the answer; ProviderAttemptError for any other answer, also while they are read.

        A caller that leaves before the end of the stream has closed the connection when this returns.
        """
        sent = _Body(body)
        self._sent.add(sent)
        response: aiohttp.ClientResponse | None = None
        try:
            async with asyncio.timeout(self._idle_s):
                response = await self._ask(sent, headers)
                await self._check(response)
            with closing(EventStream(response.content, self._idle_s, self._progress_s)) as events:
                yield events
        except EventTooLargeError as error:
            raise malformed_response(self._place, f"an event of {error}") from None
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
            # What these say can hold the whole address; none of it is passed on but what the system said.
            answered = response is not None
            raise (
                _ours(self._place) if sent.cut_off else _attempt_error(error, self._place, answered=answered)
            ) from None
        finally:
            self._sent.discard(sent)
            # An answer that has come in whole has given its connection back, and others may be using it by now.
            if response is None or response.connection is not None:
                sent.cut()
                if response is not None:
                    response.close()
                # The loop closes sockets in its next round.
                await asyncio.sleep(0)

    async def close(self) -> None:
        """Close all connections, also those that wait for an answer. A later request connects again."""
        session, self._session = self._session, None
        for sent in self._sent:
            sent.cut()
        # Callers that wait get an error before aiohttp drops them.
        await asyncio.sleep(0)
        if session is not None:
            await session.close()

    async def _ask(self, sent: _Body, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            )
        try:
            return await self._session.post(self._url, data=sent, headers=headers, allow_redirects=False)
        except aiohttp.ClientSSLError:  # which for a certificate is a ValueError too
            raise
        except ValueError:
            raise ProviderAttemptError(f"{self._place.provider} cannot be asked: its base_url is not usable") from None

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.status != 200:
            body = bytearray()
            while len(body) < _MAX_ERROR_BYTES and (chunk := await response.content.readany()):
                body += chunk
            raise refused_request(self._place, response.status, response.headers, bytes(body[:_MAX_ERROR_BYTES]))
        if response.headers.get("Content-Type") and response.content_type != "text/event-stream":
            raise malformed_response(self._place, f"{response.content_type[:60]} instead of an event stream")


class _Body(aiohttp.Payload):
    """The bytes of a request, and the connection that they go out on.

    Cancelled in the middle of a request, aiohttp closes its connection only when all that waits to be sent has been
    sent, which on a slow line may take minutes. So we remember the transport and cut it ourselves.
    """

    def __init__(self, parts: Sequence[bytes]) -> None:
        super().__init__(parts, content_type="application/json")
        self._parts = parts
        self._size = sum(map(len, parts))
        self._transport: asyncio.Transport | None = None
        self.cut_off = False

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._parts).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        if isinstance(writer, aiohttp.http.StreamWriter):
            self._transport = writer.transport
        for piece in _sendable(self._parts):
            await writer.write(piece)

    def cut(self) -> None:
        """Close the connection at once, whatever is still to be sent or read."""
        self.cut_off = True
        if self._transport is None:
            return
        peer: socket.socket = self._transport.get_extra_info("socket")
        with suppress(OSError):  # it is closed already
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._transport.abort()


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


def _ours(place: ProviderAddress) -> ProviderAttemptError:
    return ProviderAttemptError(f"the connection to {place.provider} was closed on our side")


def _attempt_error(error: Exception, place: ProviderAddress, *, answered: bool) -> ProviderAttemptError:
    match error:
        case aiohttp.ClientSSLError():
            return ProviderAttemptError(f"no trusted connection to {place.provider} at {place.host}: {_reason(error)}")
        case aiohttp.ConnectionTimeoutError():
            return ProviderAttemptError(
                f"{place.provider} at {place.host} does not answer: no connection in {CONNECT_TIMEOUT_S:g} s"
            )
        case aiohttp.ClientConnectorError():
            return ProviderAttemptError(
                f"cannot connect to {place.provider} at {place.host}: {explain_connection_error(error.os_error)}"
            )
        case _NoProgress():
            return stream_cut(place, "nothing of the answer came for too long (stream_progress_timeout_ms)")
        case TimeoutError():
            return stream_cut(place, "nothing came for too long (stream_idle_timeout_ms)")
        case aiohttp.ClientResponseError():
            return malformed_response(place, "something that is not HTTP")
        case _ if not answered:
            return stream_cut(place, f"{place.host} hung up without an answer; is base_url right, http:// or https://?")
        case _:
            return stream_cut(place, "the connection was lost")


def _reason(error: aiohttp.ClientSSLError) -> str:
    below = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error.os_error
    return explain_connection_error(below)
