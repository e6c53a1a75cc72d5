"""A server over streamable HTTP: the SDK's transport, and below it our handling of requests that fail.

The SDK ends the whole connection when one request fails below it, and with that the calls of all conversations. So a
failure becomes the answer to its own request. Redirects are followed within the origin only (by the SDK), so that
credentials stay there. Imports the SDK's HTTP library, so it is itself imported late.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import httpx2
import msgspec

from tertulia.errors import McpError
from tertulia.events.clock import Clock
from tertulia.mcp.client.error_text import NO_ANSWER, NO_LOGIN, UNREADABLE, UNREADABLE_PREFIX
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
from tertulia.mcp.client.jsonrpc_lines import DROPPED_RESPONSE, SHORT, MessageReader, OnLost
from tertulia.mcp.config.launch import Launch
from tertulia.mcp.server_connection import ConnectionServices
from tertulia.protocol.connection_text import explain_connection_error
from tertulia.protocol.network.certificates import tls_context

if TYPE_CHECKING:
    import contextvars

    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

CONNECT_S = 10.0
WRITE_S = 30.0


class HttpTransport:
    """Implements the SDK's `Transport`. Entered and left by one task, the owner."""

    ended_by_itself = False

    def __init__(
        self,
        name: str,
        launch: Launch,
        services: ConnectionServices,
        *,
        lost: OnLost,
        learned: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`name`: of the server; `learned`: called with every token of a login to it."""
        self.dropped: Counter[str] = Counter()
        self._name, self._launch, self._services, self._lost, self._learned = name, launch, services, lost, learned
        self._stack = AsyncExitStack()
        self._tickets = Tickets()
        self._reads: _Reads | None = None

    async def __aenter__(self) -> TransportStreams:
        """Open the streams; no request is sent yet."""
        from mcp.client.streamable_http import streamable_http_client

        client = httpx2.AsyncClient(
            transport=HttpErrorTransport(
                self._connections(), self._services.clock, self._lost, self.dropped, self._tickets, self._launch.proxy
            ),
            headers={"accept-encoding": "identity", **self._launch.headers},
            # The time limit of a request is the caller's.
            timeout=httpx2.Timeout(None, connect=CONNECT_S, write=WRITE_S),
            trust_env=False,
        )
        await self._stack.enter_async_context(client)
        streams = streamable_http_client(self._launch.url, http_client=client, max_sse_event_size=MAX_BODY)
        reads, writes = await self._stack.enter_async_context(streams)
        self._reads = _Reads(reads, self._tickets)
        return self._reads, writes

    def speak(self, version: str) -> None:
        """Set the protocol version that was agreed on."""
        if self._reads is not None:
            self._reads.version = version

    def _connections(self) -> httpx2.AsyncBaseTransport:
        connections, services = connections_of(self._launch), self._services
        if self._launch.oauth is None or (services.logins is None and services.browser is None):
            return connections
        # Imported here: with it comes the SDK's OAuth client.
        from tertulia.mcp.login.server_login import ServerLogin
        from tertulia.mcp.login.transport import LoginTransport

        transport = LoginTransport(connections)
        transport.login = ServerLogin(
            self._name,
            self._launch,
            store=services.logins,
            browser=services.browser,
            send=transport.send_alone,
            spawn=services.spawn,
            learned=self._learned,
        )
        return transport

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End the session at the server, if there is one, and close the connections."""
        self._tickets.clear()
        return await self._stack.__aexit__(kind, error, trace)


def connections_of(launch: Launch) -> httpx2.AsyncHTTPTransport:
    """The library's connections, by the proxy and the certificates of the launch. What it reads itself is not used."""
    if launch.ca == (None, None):
        return httpx2.AsyncHTTPTransport(proxy=launch.proxy or None)
    context = tls_context(*launch.ca)
    if not launch.proxy:
        return httpx2.AsyncHTTPTransport(verify=context)
    proxy = httpx2.Proxy(launch.proxy, ssl_context=context if launch.proxy.startswith("https:") else None)
    return httpx2.AsyncHTTPTransport(verify=context, proxy=proxy)


class _Reads(MessageReader["SessionMessage | Exception"]):
    """The SDK's own stream, with results repaired, and long content put in place of its ticket."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], tickets: Tickets) -> None:
        from mcp_types import JSONRPCError, JSONRPCResponse

        self.version = ""
        self._inner, self._tickets = inner, tickets
        self._response, self._error = JSONRPCResponse, JSONRPCError

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the request that brought the last message."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or an error of the SDK's transport."""
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
        """Close the SDK's own stream."""
        await self._inner.aclose()


CLOSE_SESSION_S = 2.0
BETWEEN_GETS_S = 0.25
"""The least pause between two GET requests, whatever the server proposes."""
_BAD_REQUEST = 400
_NOT_FOUND = 404
_SERVER_ERROR = 500
_BAD_GATEWAY = 502
_UNAUTHORIZED = 401
_UNWELCOME = (_UNAUTHORIZED, 403)
_WANTS_PASSWORD = 407
_LENGTHS = ("content-length", "transfer-encoding")
_CREDENTIALS = (
    "it wants other credentials, and there is no login from here: name the variable that holds its token in "
    "bearer_token_env_var, or give a header with http_headers or env_http_headers"
)


class HttpErrorTransport(httpx2.AsyncBaseTransport):
    """Never raises: a request that fails is answered with a JSON-RPC error.

    `lost` is called when the server cannot be reached at all, or does not know our session any more.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        clock: Clock,
        lost: Callable[[str], None],
        dropped: Counter[str],
        tickets: Tickets,
        proxy: str = "",
    ) -> None:
        """`dropped` counts the messages that were dropped; `tickets` keeps the content of long messages. `proxy`: the
        address of the one that requests go through.
        """
        self._tickets = tickets
        self._proxy = urlsplit(proxy).netloc.rpartition("@")[2]
        self._inner, self._clock, self._lost, self._dropped = inner, clock, lost, dropped
        self._next_get = 0.0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the SDK's client."""
        if request.method == "GET":
            await self._pause()
        if request.method == "DELETE":
            return await self._end_session(request)
        if request.method == "POST":
            # After a redirect the body has not been read yet.
            await request.aread()
        response = await self._response(request)
        if isinstance(response, BodyFailure):
            status = _UNAUTHORIZED if response.code == NO_LOGIN else _BAD_GATEWAY
            return _failure(response.why, response.code, status)
        if response.status_code == _WANTS_PASSWORD and self._proxy:
            await response.aclose()
            return _failure(self._proxy_reason(str(_WANTS_PASSWORD)))
        if response.status_code == _NOT_FOUND and "mcp-session-id" in request.headers:
            self._lost("it does not know our session any more")
        if response.status_code in _UNWELCOME:
            # What it says about how to log in is not followed.
            await response.aclose()
            return _failure(_CREDENTIALS, response.status_code, response.status_code)
        return await self._checked(request, response)

    async def _response(self, request: httpx2.Request) -> httpx2.Response | BodyFailure:
        """What the server answers, or why it gets no request."""
        try:
            return await self._inner.handle_async_request(request)
        except httpx2.ConnectError as error:
            through = f" through the proxy at {self._proxy}" if self._proxy else ""
            why = f"it cannot be reached{through}: {_connect_reason(error)}"
            self._lost(why)
        except httpx2.ProxyError as error:
            why = self._proxy_reason(str(error)[:3])
            self._lost(why)
        except httpx2.TransportError as error:
            why = _transport_reason(error)
        except McpError as error:
            # Of the login.
            return BodyFailure(error.message, NO_LOGIN)
        return BodyFailure(why, NO_ANSWER)

    def _proxy_reason(self, status: str) -> str:
        """Why the proxy lets nothing through. Never its address with a password."""
        if status == str(_WANTS_PASSWORD):
            how = "wants a user and a password, or other ones: http://USER:PASSWORD@HOST:PORT"
        else:
            how = "makes no connection to it"
        return f"the proxy at {self._proxy} {how}" + (f" ({status})" if status.isdigit() else "")

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._inner.aclose()

    async def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        stream, status = response.stream, response.status_code
        assert isinstance(stream, httpx2.AsyncByteStream)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # It was not asked for, and a few bytes of it can become any number.
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
            return self._other_response()
        return httpx2.Response(status, headers=_without_length(response.headers), content=body)

    async def _long(self, request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
        status, headers = response.status_code, _without_length(response.headers)
        try:
            content = await ticketed(body, request_id_in(request), self._tickets)
        except Unreadable as error:
            if status >= _BAD_REQUEST or not response.headers.get("content-type", "").startswith("application/json"):
                # The status or the content type says enough: the SDK does not read the page.
                return httpx2.Response(status, headers=headers, content=b"")
            return _failure(f"{UNREADABLE_PREFIX}{error}", UNREADABLE)
        if content is None:
            return self._other_response()
        return httpx2.Response(status, headers=headers, content=content)

    def _other_response(self) -> httpx2.Response:
        self._drop()
        return _failure("it answered something else than what it was asked")

    def _drop(self) -> None:
        self._dropped[DROPPED_RESPONSE] += 1

    async def _end_session(self, request: httpx2.Request) -> httpx2.Response:
        """End the session at the server, within a short time."""
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


def _connect_reason(error: BaseException) -> str:
    """What the system says about a connection that could not be made; it lies below the library's own errors."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            return explain_connection_error(cause)
    return "no connection"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it, of several causes the first."""
    below: BaseException | None = error
    while below is not None:
        yield below
        if isinstance(below, BaseExceptionGroup):
            below = cast("BaseExceptionGroup[BaseException]", below).exceptions[0]
        else:
            below = below.__cause__ or below.__context__


def _transport_reason(error: httpx2.TransportError) -> str:
    match error:
        case httpx2.ConnectTimeout():
            return f"no connection within {CONNECT_S:g} s"
        case httpx2.WriteTimeout():
            return f"it did not take the request within {WRITE_S:g} s"
        case httpx2.ProtocolError():
            return "it answered something that is not HTTP"
        case _:
            return "the connection was lost"


def _failure(why: str, code: int = NO_ANSWER, status: int = _BAD_GATEWAY) -> httpx2.Response:
    error = {"code": code, "message": why}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)


def _without_length(headers: httpx2.Headers) -> list[tuple[str, str]]:
    """The headers without the length, which repairing changes."""
    return [(name, value) for name, value in headers.items() if name.lower() not in _LENGTHS]
