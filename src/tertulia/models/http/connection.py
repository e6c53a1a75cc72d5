"""One provider's address over HTTP: connections to it, and the events of an answer. Imported with the first request.

Knows requests and events as bytes; the wire knows what they mean.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from tertulia.errors import InvalidParamsError
from tertulia.models.http.http_connection import HttpAddress, HttpConnection, HttpExchange, connect
from tertulia.models.http.http_response import NotHttpError
from tertulia.models.http.provider_error import (
    ProviderAddress,
    ProviderAttemptError,
    malformed_response,
    refused_request,
    stream_cut,
)
from tertulia.models.http.proxy_tunnel import WANTS_PASSWORD, ProxyError, refused_by_proxy
from tertulia.models.http.sse import MAX_EVENT_BYTES, EventSplitter, EventTooLargeError, bounded_event
from tertulia.protocol.connection_text import explain_connection_error
from tertulia.protocol.json_scan import SCANNED_FROM_BYTES, find_excess_in_steps
from tertulia.protocol.network.access import DIRECT, OutboundNetwork, ProxyAddress

CONNECT_TIMEOUT_S = 10.0
_DRAIN_S = 0.5
_LOOK_AGAIN_S = 0.01
_KEPT_S = 60.0
"""How long a connection waits for the next request; people think longer than the usual 15 s."""
_MAX_ERROR_BYTES = 64 * 1024
_EVENT_BEGINS = (b"data:", b"event:", b"id:", b":")
_IN_A_ROW = 64
"""How many events `next_events` returns at most."""


class _NoProgressError(TimeoutError):
    """The stream sends events, and the answer does not grow."""


class _NoConnectionError(Exception):
    """The provider cannot be reached; its cause says why."""

    def __init__(self, cause: OSError | None) -> None:
        super().__init__()
        self.cause = cause
        """None: no connection within CONNECT_TIMEOUT_S."""


_FAILURES = (_NoConnectionError, NotHttpError, EventTooLargeError, OSError)  # a TimeoutError is an OSError


class EventStream:
    """One request and the events of its answer, as far as they have come. An async context manager.

    Leaving the context before the end of the stream closes the connection. Entering and reading
    raise ProviderAttemptError for any other answer than events.
    """

    __slots__ = (
        "_body",
        "_exchange",
        "_headers",
        "_line",
        "_loop",
        "_ready",
        "_splitter",
        "_timer",
        "_waited_s",
        "_waits_since",
        "cut_off",
        "is_json",
    )

    def __init__(self, line: ProviderConnection, body: Sequence[bytes], headers: Mapping[str, str]) -> None:
        self._line = line
        self._body = body
        self._headers = headers
        self._exchange: HttpExchange | None = None
        self._splitter = EventSplitter()
        self._ready: list[bytearray] = []
        """Events that have arrived and were not returned yet."""
        self._waited_s = 0.0
        """Seconds of waiting since the answer last grew, without the present wait."""
        self._loop = asyncio.get_running_loop()
        self._waits_since: float | None = self._loop.time()
        self._timer = self._loop.call_later(min(line.idle_s, line.progress_s), self._look)
        self.cut_off = False
        """Whether `cut` has ended the stream."""
        self.is_json = False
        """Whether the answer is one JSON value, from a server that does not stream: then it is the only event."""

    async def __aenter__(self) -> Self:
        is_answered = False
        try:
            await self._ask()
            is_answered = True
        except _FAILURES as error:
            raise self._explain(error) from None
        finally:
            if not is_answered:
                await self._leave()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        exchange = self._exchange
        # A complete answer has released its connection, and another request may be using it by now.
        if exchange is not None and exchange.connection is not None:
            await self._leave()
        else:
            self._line.streams.discard(self)
        if isinstance(error, _FAILURES):
            raise self._explain(error) from None

    async def next_events(self, *, progress: bool = True) -> list[bytearray]:
        """The data of the next events, at least of one; none when the stream is over.

        `progress`: whether the last ones brought anything of the answer. Without it for too long the stream is cut.
        """
        if progress:
            self._waited_s = 0.0
        if self._ready:
            # The caller may never wait itself, so other tasks get their turn here.
            await asyncio.sleep(0)
        else:
            self._ready = await self._read()
        events = self._ready
        self._ready = events[_IN_A_ROW:]
        return events[:_IN_A_ROW] if self._ready else events

    async def drain(self) -> None:
        """Wait a moment for the end of a complete stream: then its connection can be used again."""
        exchange = self._exchange
        if exchange is None or exchange.done:
            return
        with suppress(OSError, NotHttpError):
            async with asyncio.timeout(_DRAIN_S):
                while await self._chunk(exchange):
                    pass

    def close(self) -> None:
        """Stop watching for silence and stalls."""
        self._timer.cancel()

    def cut(self) -> None:
        """End it at once; a caller that waits for events gets an error."""
        self.cut_off = True
        if self._exchange is not None and self._exchange.connection is not None:
            self._exchange.connection.cut()

    async def _ask(self) -> None:
        line = self._line
        head = line.head(self._headers, sum(map(len, self._body)))
        connection = line.idle_connection()
        if connection is None:
            connection = await line.new_connection()
            self._waits_since = self._loop.time()
        exchange = self._exchange = HttpExchange(connection)
        if self.cut_off:
            raise ConnectionAbortedError
        await connection.send(head, self._body, exchange)
        while exchange.status is None:
            if exchange.error is not None:
                raise exchange.error
            await exchange.more()
        self._waits_since = None
        headers = exchange.headers
        if exchange.status != 200:
            raise await self._refusal(exchange, exchange.status)
        if (kind := headers.get("content-type")) and kind != "text/event-stream":
            kind = kind.partition(";")[0].strip().lower()
            self.is_json = kind == "application/json"
            if not self.is_json and kind != "text/event-stream":
                raise malformed_response(line.place, f"{kind[:60]} instead of an event stream")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise malformed_response(line.place, "a compressed answer, which was not asked for")

    async def _refusal(self, exchange: HttpExchange, status: int) -> Exception:
        """Why there is no answer: a status other than 200."""
        line, body = self._line, bytearray()
        if status == WANTS_PASSWORD and line.proxy is not None:
            return _NoConnectionError(refused_by_proxy(line.proxy, status))
        while len(body) < _MAX_ERROR_BYTES and (chunk := await self._chunk(exchange)):
            body += chunk
        return refused_request(line.place, status, exchange.headers, bytes(body[:_MAX_ERROR_BYTES]))

    async def _read(self) -> list[bytearray]:
        exchange = self._exchange
        assert exchange is not None
        events: list[bytearray] = []
        while not events and (chunk := await self._chunk(exchange)):
            if self.is_json and chunk.startswith(_EVENT_BEGINS):
                # Some servers stream events under the name of JSON.
                self.is_json = False
            events = [await self._read_json(exchange, chunk)] if self.is_json else self._splitter.feed(chunk)
        for event in events:
            if len(event) > SCANNED_FROM_BYTES and (too_much := await find_excess_in_steps(event)) is not None:
                raise EventTooLargeError(too_much)
        return events

    async def _read_json(self, exchange: HttpExchange, chunk: bytes) -> bytearray:
        """All of the body, which begins with this chunk."""
        body = bytearray()
        while chunk:
            body += chunk
            if len(body) > MAX_EVENT_BYTES:
                raise EventTooLargeError(f"more than {MAX_EVENT_BYTES:,} bytes")
            chunk = await self._chunk(exchange)
        if not body.lstrip().startswith(b"{"):
            raise malformed_response(self._line.place, "application/json instead of an event stream")
        return bounded_event(body)

    async def _chunk(self, exchange: HttpExchange) -> bytes:
        """What has come of the body, at least something; nothing at its end."""
        while not exchange.buffered:
            if exchange.done:
                return b""
            if exchange.error is not None:
                raise exchange.error
            began = self._waits_since = self._loop.time()
            await exchange.more()
            self._waits_since = None
            self._waited_s += self._loop.time() - began
        return exchange.take()

    async def _leave(self) -> None:
        """Close the connection, if it is still in use here."""
        self.close()
        self._line.streams.discard(self)
        if self._exchange is not None and self._exchange.connection is not None:
            self._exchange.connection.cut()
            # The loop closes sockets in its next round.
            await asyncio.sleep(0)

    def _look(self) -> None:
        # One timer that checks now and then, because one for each chunk would cost more than reading it. Silence counts
        # only while a reader waits: what was received and not read yet is not the provider's delay.
        waits_s = 0.0 if self._waits_since is None else self._loop.time() - self._waits_since
        left, without_progress = self._line.idle_s - waits_s, self._line.progress_s - self._waited_s - waits_s
        if self._exchange is None or self._waits_since is None or min(left, without_progress) > 0:
            # Without a waiting reader the last chunk is being read, and may contain progress.
            self._timer = self._loop.call_later(max(_LOOK_AGAIN_S, min(left, without_progress)), self._look)
        else:
            self._exchange.fail(TimeoutError() if left <= 0 else _NoProgressError())

    def _explain(self, error: BaseException) -> ProviderAttemptError:
        """The failure in words.

        The text of an exception can hold the address, so only the system's error text is passed on.
        """
        place = self._line.place
        if self.cut_off:
            return ProviderAttemptError(f"the connection to {place.provider} was closed on our side")
        match error:
            case EventTooLargeError():
                return malformed_response(place, f"an event of {error}")
            case _NoConnectionError():
                return _explain_no_connection(error.cause, place, self._line.proxy)
            case _NoProgressError():
                return stream_cut(place, "nothing of the answer came for too long (stream_progress_timeout_ms)")
            case TimeoutError():
                return stream_cut(place, "nothing came for too long (stream_idle_timeout_ms)")
            case NotHttpError():
                return malformed_response(place, "something that is not HTTP")
            case _ if self._line.proxy is not None and (self._exchange is None or self._exchange.status is None):
                return stream_cut(place, f"the proxy at {self._line.proxy.place} hung up without an answer")
            case _ if self._exchange is None or self._exchange.status is None:
                how = f"{place.host} hung up without an answer; is base_url right, http:// or https://?"
                return stream_cut(place, how)
            case _:
                return stream_cut(place, "the connection was lost")


class ProviderConnection:
    """One address and the connections that are open to it. Keeps no cookies and follows no redirects."""

    def __init__(
        self, url: str, place: ProviderAddress, idle_s: float, progress_s: float, access: OutboundNetwork = DIRECT
    ) -> None:
        """`url`: where all requests go; `access`: how.

        The other two: how long a stream may be silent, and how long its answer may not grow.
        """
        self._url = url
        self._access = access
        self.place = place
        self.idle_s = idle_s
        self.progress_s = progress_s
        self._address: HttpAddress | None = None
        self._idle: list[tuple[HttpConnection, float]] = []
        """Idle connections, and since when; the latest last."""
        self._timer: asyncio.TimerHandle | None = None
        self.streams: set[EventStream] = set()
        """The requests that are in progress."""

    def head(self, headers: Mapping[str, str], length: int) -> bytes:
        """All that precedes the body of a request; ProviderAttemptError where there is no such address."""
        try:
            if self._address is None:
                self._address = HttpAddress(self._url, self._access)
            return self._address.head(headers, length)
        except ValueError:
            raise ProviderAttemptError(f"{self.place.provider} cannot be asked: its base_url is not usable") from None

    def post(self, body: Sequence[bytes], headers: Mapping[str, str]) -> EventStream:
        """Send, and give the events of the answer; see `EventStream`."""
        stream = EventStream(self, body, headers)
        self.streams.add(stream)
        return stream

    async def close(self) -> None:
        """Close all connections, also those that wait for an answer. A later request connects again."""
        for stream in self.streams:
            stream.cut()
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()
        self._sweep()
        # One round of the loop: waiting callers get their error, and sockets are closed.
        await asyncio.sleep(0)

    def idle_connection(self) -> HttpConnection | None:
        """An idle connection; None where there is none."""
        while self._idle:
            connection, _ = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    @property
    def proxy(self) -> ProxyAddress | None:
        """The proxy that answers in the place of the provider where something is wrong with the way."""
        return None if self._address is None else self._address.proxy

    async def new_connection(self) -> HttpConnection:
        """Open one, within the time that there is for it."""
        assert self._address is not None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await connect(self._address, self._take_back)
        except TimeoutError:
            raise _NoConnectionError(None) from None
        except OSError as error:
            raise _NoConnectionError(error) from None
        except InvalidParamsError as error:
            # Certificates that were there when the session began.
            raise ProviderAttemptError(f"{self.place.provider} cannot be asked: {error.message}") from None

    def _take_back(self, connection: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        self._idle.append((connection, loop.time()))
        if self._timer is None:
            self._timer = loop.call_later(_KEPT_S, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle too long, and look again when the next one may be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        old = [connection for connection, since in self._idle if now - since >= _KEPT_S]
        self._idle = [(connection, since) for connection, since in self._idle if now - since < _KEPT_S]
        for connection in old:
            connection.close()
        if self._idle:
            self._timer = loop.call_at(self._idle[0][1] + _KEPT_S, self._sweep)


def _explain_no_connection(
    cause: OSError | None, place: ProviderAddress, proxy: ProxyAddress | None
) -> ProviderAttemptError:
    if cause is None:
        through = "" if proxy is None else f" through the proxy at {proxy.place}"
        problem = f"{place.provider} at {place.host} does not answer: no connection{through} in {CONNECT_TIMEOUT_S:g} s"
        return ProviderAttemptError(problem, another_may_help=True)
    if isinstance(cause, ProxyError):
        problem = f"cannot reach {place.provider} at {place.host}: {cause.sentence}"
        return ProviderAttemptError(problem, retry="request" if cause.may_pass else None, another_may_help=True)
    how = "no trusted connection" if isinstance(cause, ssl.SSLError) else "cannot connect"
    problem = f"{how} to {place.provider} at {place.host}: {explain_connection_error(cause)}"
    return ProviderAttemptError(problem, another_may_help=True)
