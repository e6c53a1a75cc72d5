"""A request over HTTP that is refused: what is answered, and nothing else happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SECURITY_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Of every answer: browsers keep nothing, guess nothing, load nothing and frame nothing."""


class HttpRefusal(Exception):
    """Raised where something is wrong with a request, answered where it came in."""

    def __init__(self, status: int, code: str, message: str, body: bytes | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = body or msgspec.json.encode({"error": {"code": code, "message": message}})

    async def answer(self, scope: Scope, send: Send) -> None:
        """A request, or an attempt to open a WebSocket."""
        headers = [
            *SECURITY_HEADERS,
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
