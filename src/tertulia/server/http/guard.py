"""Checks every HTTP request before the application sees it: host, origin, token, and a bounded JSON body.

An ASGI application around another one. A refused request is answered here with `HttpRefusal`, and goes no further.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, ParseError
from tertulia.server.jsonrpc.messages import encode_error
from tertulia.server.jsonrpc.strict_json import decode_json

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

SECURITY_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Headers of every answer: browsers store, guess, load and frame nothing."""

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::([1-9][0-9]{0,4}))?")
_USUAL_PORTS = {"http": "80", "https": "443"}
_LAST_PORT = 65_535


class HttpRefusal(Exception):
    """A request that is refused: raised where it is found, answered by the guard."""

    def __init__(self, status: int, code: str, message: str, body: bytes | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = body or msgspec.json.encode({"error": {"code": code, "message": message}})

    async def answer(self, scope: Scope, send: Send, more: Headers | None = None) -> None:
        """Send the refusal, of a request or of an attempt to open a WebSocket. `more`: further headers."""
        headers = [
            *SECURITY_HEADERS,
            *(more or ()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
        ]
        headers.append((b"connection", b"close"))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        prefix = "http" if scope["type"] == "http" else "websocket.http"
        if prefix == "http" or "websocket.http.response" in scope.get("extensions", {}):
            await send({"type": f"{prefix}.response.start", "status": self.status, "headers": headers})
            await send({"type": f"{prefix}.response.body", "body": self.body})
        else:
            await send({"type": "websocket.close", "code": 1008})


MAX_BODY_BYTES = 32 * 1024 * 1024
"""Room for the longest text that is accepted, however it is escaped, up to a point."""
BODY_S = 30.0
"""Seconds that a whole body may take to arrive."""


class RequestBody(msgspec.Struct, frozen=True):
    """A JSON body, as it came and decoded."""

    text: bytes
    value: Any


async def read_bounded_body(method: str, header: Callable[[bytes], bytes], receive: Receive) -> RequestBody | None:
    """The body; None for a request that has none. Raises HttpRefusal."""
    if method not in ("POST", "PUT", "PATCH"):
        return None
    # A page can send plain text and forms anywhere without being asked; JSON it cannot.
    if header(b"content-type").partition(b";")[0].strip().lower() != b"application/json":
        raise HttpRefusal(415, "unsupported_media_type", "send application/json")
    if header(b"content-encoding").lower() not in (b"", b"identity"):
        raise HttpRefusal(415, "unsupported_media_type", "send the body as it is, not compressed")
    length = header(b"content-length")
    if length and (not length.isdigit() or len(length) > 12 or int(length) > MAX_BODY_BYTES):
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_S):
            body = await _read(receive)
    except TimeoutError:
        raise HttpRefusal(408, "timeout", f"the body did not come within {BODY_S:g} s") from None
    try:
        return RequestBody(body, await decode_json(body))
    except ParseError as error:
        # As JSON-RPC says it: all our bodies are that.
        raise HttpRefusal(400, error.code, error.message, encode_error(None, error)) from None


def replay_body(body: bytes, receive: Receive) -> Receive:
    """A `receive` for the application: the body as if it had not been read, then what comes after it."""
    waiting = [body]

    async def again() -> Message:
        if not waiting:
            return await receive()
        # Not kept: the request may take long.
        return {"type": "http.request", "body": waiting.pop(), "more_body": False}

    return again


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpRefusal(400, "invalid_request", "the body is cut off")
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large() -> HttpRefusal:
    return HttpRefusal(413, "too_large", f"a body has at most {MAX_BODY_BYTES:,} bytes")


LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
TOKEN_SUBPROTOCOL = "bearer."
"""Before the token, for pages: they can choose a WebSocket's subprotocols, and none of its other headers."""

DECODED_BODY = "tertulia.decoded_body"
"""The key of a request's scope under which its decoded body stands."""
HAS_TOKEN = "tertulia.has_token"
"""The key under which stands whether the request brought the token: always, but for paths that need none."""

_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")


class AllowedHosts(msgspec.Struct, frozen=True):
    """Names under which the server may be called. Any other is a page's that was pointed at us (DNS rebinding)."""

    names: frozenset[str] = LOOPBACK
    addresses: bool = False
    """Any address in numbers: no name server can point one at us."""

    def allow(self, host: str) -> bool:
        """`host` is in lower case, without its port."""
        return host in self.names or (self.addresses and _is_address(host))


class RequestGuard:
    """Checks the requests of an application. Every answer tells browsers to store, guess and frame nothing."""

    def __init__(
        self,
        app: App,
        token: str,
        hosts: AllowedHosts | None = None,
        *,
        public: Callable[[str], bool] | None = None,
        origins: frozenset[bytes] = frozenset(),
    ) -> None:
        """`public`: paths that need no token; the other checks hold there too, and a wrong token is refused. `origins`:
        pages of other origins that may call, see `parse_origin`."""
        self._app = app
        self._token = token
        self._hosts = hosts or AllowedHosts()
        self._public = public
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        more: Headers = []
        try:
            headers = _Headers(scope["headers"])
            origin = (headers.optional(b"origin") or b"").lower()
            more = allowing_headers(origin) if origin in self._origins else []
            if more and _is_preflight(scope, headers):
                self._check_host(headers.one(b"host"))
                await _answer_preflight(origin, send)
                return
            self._check(scope, headers)
            if scope["type"] == "http":
                body = await read_bounded_body(scope["method"], headers.one, receive)
                if body is not None:
                    scope[DECODED_BODY] = body.value
                    receive = replay_body(body.text, receive)
                # What it says may be large, and the request may take long.
                del body
        except HttpRefusal as refusal:
            await refusal.answer(scope, send, more)
        else:
            await self._app(scope, receive, _with_headers(send, more))

    def _check(self, scope: Scope, headers: _Headers) -> None:
        host = headers.one(b"host")
        self._check_host(host)
        origin = headers.optional(b"origin")
        if origin is not None and origin.lower() not in self._origins:
            _check_origin(host, origin)
        candidate, by_page = _sent_token(scope, headers)
        scope[HAS_TOKEN] = candidate is not None
        if candidate is None and scope["type"] == "http" and self._public is not None and self._public(scope["path"]):
            return
        if candidate is None or not matches_token(candidate, self._token):
            raise HttpRefusal(
                401, "unauthorized", "a bearer token is needed; the file that holds it was told at the start"
            )
        if by_page and origin is None:
            raise HttpRefusal(403, "foreign_origin", "a program sends its token in the Authorization header")

    def _check_host(self, host: bytes) -> None:
        match = _HOST.fullmatch(host.lower())
        if match is None or not self._hosts.allow(match[1].decode()):
            raise HttpRefusal(421, "foreign_host", "this server is not called so")


class _Headers:
    """By name, each at most once where it is asked for: two of one kind could be read in two ways."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs

    def one(self, name: bytes) -> bytes:
        """The header's value; empty where there is none."""
        return self.optional(name) or b""

    def optional(self, name: bytes) -> bytes | None:
        """None where there is none: that is not the same as an empty one."""
        values = [value for key, value in self._pairs if key.lower() == name]
        if len(values) > 1:
            raise HttpRefusal(400, "invalid_request", f"the header {name.decode()} is given twice")
        return values[0] if values else None


def _check_origin(host: bytes, origin: bytes) -> None:
    """Programs send none. A page's must be our own: the very host and port that it called."""
    scheme, _, address = origin.lower().partition(b"://")
    if scheme not in (b"http", b"https") or address != host.lower():
        raise HttpRefusal(403, "foreign_origin", "pages of other origins may not call this server")


def _is_preflight(scope: Scope, headers: _Headers) -> bool:
    """Whether a browser asks what a page may send. It never has the token with it."""
    if scope["type"] != "http" or scope["method"] != "OPTIONS":
        return False
    return headers.optional(b"access-control-request-method") is not None


async def _answer_preflight(origin: bytes, send: Send) -> None:
    headers = [*SECURITY_HEADERS, *preflight_headers(origin), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _sent_token(scope: Scope, headers: _Headers) -> tuple[bytes | None, bool]:
    """What was sent as token, None where nothing was, and whether as a page has to send it."""
    authorization = headers.one(b"authorization")
    if authorization:
        scheme, _, token = authorization.partition(b" ")
        return (token.strip() if scheme.lower() == b"bearer" else b""), False
    for protocol in scope.get("subprotocols", ()):
        if protocol.startswith(TOKEN_SUBPROTOCOL):
            return protocol.removeprefix(TOKEN_SUBPROTOCOL).encode("latin-1", "replace"), True
    return None, False


def matches_token(candidate: bytes, token: str) -> bool:
    """Whether it is this token; how long that takes reveals nothing."""
    return hmac.compare_digest(candidate, token.encode())


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _with_headers(send: Send, others: Headers) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", ())}
            more = [pair for pair in (*SECURITY_HEADERS, *others) if pair[0] not in present]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return sending


# ---- pages of other origins that the user lets call the server: they still bring the token


def parse_origin(text: str) -> bytes:
    """An origin as browsers send it, such as `https://app.example`; InvalidParams says what is wrong with any other.

    `*` and `null` are refused: they stand for any page.
    """
    match = _ORIGIN.fullmatch(text.lower())
    if match is None or int(match[3] or 1) > _LAST_PORT:
        raise InvalidParamsError(
            f"{text!r:.200} is no origin; give scheme, host and perhaps port of the page, such as "
            "https://app.example or http://localhost:5173, and nothing after it"
        )
    if match[3] is not None and match[3] == _USUAL_PORTS.get(match[1]):
        raise InvalidParamsError(f"{text!r:.200}: browsers leave out :{match[3]} of {match[1]}; leave it out too")
    return text.lower().encode()


def allowing_headers(origin: bytes) -> Headers:
    """For an answer to a page of an allowed origin: its scripts may read it."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"mcp-session-id"),
        (b"vary", b"origin"),
    ]


def preflight_headers(origin: bytes) -> Headers:
    """For the question that a browser asks before such a page's request: what the page may send."""
    return [
        *allowing_headers(origin),
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (
            b"access-control-allow-headers",
            b"authorization, content-type, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id",
        ),
        (b"access-control-max-age", b"600"),
    ]
