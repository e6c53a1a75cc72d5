"""A server that runs already, behind an address: streamable HTTP.

Redirects are followed within the origin only (the SDK sees to that), so that credentials stay where they belong.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING

import httpx2
import msgspec

from tertulia.events.clock import Clock
from tertulia.mcp.client.error_text import NO_ANSWER, quote_server_text
from tertulia.mcp.client.http_body import (
    MAX_BODY,
    BodyFailure,
    EventStreamBody,
    Tickets,
    Unreadable,
    answers_other_request,
    read_body,
    request_id_in,
    ticketed,
)
from tertulia.mcp.client.json_repair import repair_result
from tertulia.mcp.client.jsonrpc_lines import SHORT
from tertulia.mcp.client.response_id import UNREADABLE, UNREADABLE_PREFIX
from tertulia.mcp.client.stdio_transport import OnLost
from tertulia.mcp.config.launch import Launch

if TYPE_CHECKING:
    import contextvars

    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

CONNECT_S = 10.0
WRITE_S = 30.0


class HttpTransport:
    """Implements the SDK's `Transport`. Entered and left by one task, the owner."""

    ended_by_itself = False

    def __init__(self, launch: Launch, *, clock: Clock, lost: OnLost) -> None:
        self.dropped: Counter[str] = Counter()
        self._launch, self._clock, self._lost = launch, clock, lost
        self._stack = AsyncExitStack()
        self._tickets = Tickets()
        self._reads: _Reads | None = None

    async def __aenter__(self) -> TransportStreams:
        """Nothing is sent yet."""
        from mcp.client.streamable_http import streamable_http_client

        client = httpx2.AsyncClient(
            transport=HttpErrorTransport(
                httpx2.AsyncHTTPTransport(), self._clock, self._lost, self.dropped, self._tickets
            ),
            headers={"accept-encoding": "identity", **self._launch.headers},
            # How long an answer may take is for the caller to say.
            timeout=httpx2.Timeout(None, connect=CONNECT_S, write=WRITE_S),
            trust_env=False,
        )
        await self._stack.enter_async_context(client)
        streams = streamable_http_client(self._launch.url, http_client=client, max_sse_event_size=MAX_BODY)
        reads, writes = await self._stack.enter_async_context(streams)
        self._reads = _Reads(reads, self._tickets)
        return self._reads, writes

    def speak(self, version: str) -> None:
        """That version was agreed on."""
        if self._reads is not None:
            self._reads.version = version

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Say goodbye where there is a session, and let go."""
        self._tickets.clear()
        return await self._stack.__aexit__(kind, error, trace)


class _Reads:
    """The SDK's own stream, with answers mended, and what is long in place of its ticket."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], tickets: Tickets) -> None:
        from mcp_types import JSONRPCError, JSONRPCResponse

        self.version = ""
        self._inner, self._tickets = inner, tickets
        self._response, self._error = JSONRPCResponse, JSONRPCError

    @property
    def last_context(self) -> contextvars.Context | None:
        """In whose name the request was sent that brought the last message."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        item = await self._inner.receive()
        if isinstance(item, Exception):
            return item
        message = item.message
        if isinstance(message, self._response):
            message.result = self._tickets.content(message.result)
            repair_result(message.result, self.version)
        elif not isinstance(message, self._error) and message.params is not None:
            message.params = self._tickets.content(message.params)
        return item

    async def aclose(self) -> None:
        """No more is read."""
        await self._inner.aclose()

    def __aiter__(self) -> _Reads:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Reads:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


CLOSE_SESSION_S = 2.0
BETWEEN_GETS_S = 0.25
"""A server may say how soon its stream is to be asked for again, but not that it is asked for without a pause."""
_BAD_REQUEST = 400
_NOT_FOUND = 404
_SERVER_ERROR = 500
_BAD_GATEWAY = 502
_UNWELCOME = (401, 403)
_LENGTHS = ("content-length", "transfer-encoding")
_CREDENTIALS = (
    "it wants other credentials, and nobody can log in from here: name the variable that holds its token in "
    "bearer_token_env_var, or give a header with http_headers or env_http_headers"
)


class HttpErrorTransport(httpx2.AsyncBaseTransport):
    """Never raises: where there is no answer it gives one, an error in JSON-RPC.

    `lost` is told when the server is not there at all, or does not know our session any more.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        clock: Clock,
        lost: Callable[[str], None],
        dropped: Counter[str],
        tickets: Tickets,
    ) -> None:
        """`dropped` counts what nobody asked for; `tickets` stand for what is long."""
        self._tickets = tickets
        self._inner, self._clock, self._lost, self._dropped = inner, clock, lost, dropped
        self._next_get = 0.0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it."""
        if request.method == "GET":
            await self._pause()
        if request.method == "DELETE":
            return await self._goodbye(request)
        if request.method == "POST":
            # Of one that is made again elsewhere nobody has read it yet.
            await request.aread()
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.ConnectError as error:
            why = f"it cannot be reached: {quote_server_text(str(error)) or 'no connection'}"
            self._lost(why)
            return _failure(why)
        except httpx2.TransportError as error:
            return _failure(f"the request failed: {type(error).__name__}")
        if response.status_code == _NOT_FOUND and "mcp-session-id" in request.headers:
            self._lost("it does not know our session any more")
        if response.status_code in _UNWELCOME:
            # Whatever it says about how to get in, we follow none of it.
            await response.aclose()
            return _failure(_CREDENTIALS, response.status_code, response.status_code)
        return await self._taken(request, response)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._inner.aclose()

    async def _taken(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        stream, status = response.stream, response.status_code
        assert isinstance(stream, httpx2.AsyncByteStream)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # Nobody asked for it, and a few bytes of it can become any number.
            await stream.aclose()
            return _failure("its answer is compressed, which was not asked for")
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith("text/event-stream"):
            response.stream = EventStreamBody(stream, request_id_in(request), self._drop, self._tickets)
            return response
        body = await read_body(stream)
        if isinstance(body, BodyFailure):
            return _failure(body.why, body.code)
        if status >= _SERVER_ERROR and not kind.startswith("application/json"):
            return _failure(f"HTTP status {status}", status, status)
        if len(body) > SHORT:
            return await self._long(request, response, body)
        if answers_other_request(body, request_id_in(request)):
            return self._another()
        return httpx2.Response(status, headers=_without_length(response.headers), content=body)

    async def _long(self, request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
        status, headers = response.status_code, _without_length(response.headers)
        try:
            said = await ticketed(body, request_id_in(request), self._tickets)
        except Unreadable as error:
            if status >= _BAD_REQUEST or not response.headers.get("content-type", "").startswith("application/json"):
                # The status says it all, or the kind of it: nobody reads the page.
                return httpx2.Response(status, headers=headers, content=b"")
            return _failure(f"{UNREADABLE_PREFIX}{error}", UNREADABLE)
        if said is None:
            return self._another()
        return httpx2.Response(status, headers=headers, content=said)

    def _another(self) -> httpx2.Response:
        self._drop()
        return _failure("it answered something else than what it was asked")

    def _drop(self) -> None:
        self._dropped["an answer that nobody waits for"] += 1

    async def _goodbye(self, request: httpx2.Request) -> httpx2.Response:
        """The end of a session, which nobody waits for long."""
        try:
            async with asyncio.timeout(CLOSE_SESSION_S):
                response = await self._inner.handle_async_request(request)
                await response.aclose()
        except (TimeoutError, httpx2.TransportError):
            return _failure("it does not hear that the session is over")
        return httpx2.Response(response.status_code)

    async def _pause(self) -> None:
        now = self._clock.monotonic()
        wait_s = self._next_get - now
        self._next_get = max(now, self._next_get) + BETWEEN_GETS_S
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def _failure(why: str, code: int = NO_ANSWER, status: int = _BAD_GATEWAY) -> httpx2.Response:
    error = {"code": code, "message": why}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)


def _without_length(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """Mending changes it."""
    return [(name, value) for name, value in headers.items() if name.lower() not in _LENGTHS]
