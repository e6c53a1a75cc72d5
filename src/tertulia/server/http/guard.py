"""Who may talk to a server of ours over HTTP: the right host, no foreign page, the token. Then a body that is bounded.

An ASGI application around another one. Nothing behind it sees a request that it refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

import msgspec

from tertulia.server.http.bearer_token import matches_token
from tertulia.server.http.refusal import SECURITY_HEADERS, App, HttpRefusal, Message, Receive, Scope, Send
from tertulia.server.http.request_body import read_bounded_body, replay_body

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
TOKEN_SUBPROTOCOL = "bearer."
"""Before the token, for pages: they can choose a WebSocket's subprotocols, and none of its other headers."""

DECODED_BODY = "tertulia.said"
"""Under this name of its scope a request with a body has what that says, already read."""

_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")


class AllowedHosts(msgspec.Struct, frozen=True):
    """Names under which the server may be called. Any other is a page's that was pointed at us (DNS rebinding)."""

    names: frozenset[str] = LOOPBACK
    addresses: bool = False
    """Any address in numbers: nobody can point one at us."""

    def allow(self, host: str) -> bool:
        """`host` is in lower case, without its port."""
        return host in self.names or (self.addresses and _is_address(host))


class RequestGuard:
    """In front of an application. Every answer tells browsers to keep nothing, guess nothing and frame nothing."""

    def __init__(
        self, app: App, token: str, hosts: AllowedHosts | None = None, *, public: Callable[[str], bool] | None = None
    ) -> None:
        """`public`: paths that need no token, for files that everybody may have. The other checks hold there too."""
        self._app = app
        self._token = token
        self._hosts = hosts or AllowedHosts()
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            headers = _Headers(scope["headers"])
            self._check(scope, headers)
            if scope["type"] == "http":
                body = await read_bounded_body(scope["method"], headers.one, receive)
                if body is not None:
                    scope[DECODED_BODY] = body.value
                    receive = replay_body(body.text, receive)
        except HttpRefusal as refusal:
            await refusal.answer(scope, send)
        else:
            await self._app(scope, receive, _with_headers(send))

    def _check(self, scope: Scope, headers: _Headers) -> None:
        host = headers.one(b"host")
        self._check_host(host)
        origin = headers.given(b"origin")
        if origin is not None:
            _check_origin(host, origin)
        if self._public is not None and scope["type"] == "http" and self._public(scope["path"]):
            return
        given, by_page = _given_token(scope, headers)
        if not matches_token(given, self._token):
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
        """Empty where there is none."""
        return self.given(name) or b""

    def given(self, name: bytes) -> bytes | None:
        """None where there is none: that is not the same as an empty one."""
        values = [value for key, value in self._pairs if key.lower() == name]
        if len(values) > 1:
            raise HttpRefusal(400, "invalid_request", f"the header {name.decode()} is given twice")
        return values[0] if values else None


def _check_origin(host: bytes, origin: bytes) -> None:
    """Programs send none. A page's must be our own: the very host and port that it called."""
    scheme, _, place = origin.lower().partition(b"://")
    if scheme not in (b"http", b"https") or place != host.lower():
        raise HttpRefusal(403, "foreign_origin", "pages of other places may not talk to this server")


def _given_token(scope: Scope, headers: _Headers) -> tuple[bytes, bool]:
    """What was sent as token, and whether as a page has to send it."""
    scheme, _, given = headers.one(b"authorization").partition(b" ")
    if scheme.lower() == b"bearer":
        return given.strip(), False
    for protocol in scope.get("subprotocols", ()):
        if protocol.startswith(TOKEN_SUBPROTOCOL):
            return protocol.removeprefix(TOKEN_SUBPROTOCOL).encode("latin-1", "replace"), True
    return b"", False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = [pair for pair in SECURITY_HEADERS if pair[0] not in given]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return sending
