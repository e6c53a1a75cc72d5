"""The broker over HTTP: a token in every request, loopback only, and the SDK's own checks of Host and Origin."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from tertulia.errors import InvalidParams, StorageError
from tertulia.mcp.broker import Broker

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]

PATH = "/mcp"


def token_file(path: Path) -> str:
    """The token in that file, made when there is none; only its owner can read it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None
    with os.fdopen(fd, "r+") as file:
        os.fchmod(file.fileno(), 0o600)
        token = file.read(256).strip()
        if len(token) < 32:
            token = secrets.token_hex(32)
            file.seek(0)
            file.truncate()
            file.write(token)
        return token


def guarded(app: App, token: str) -> App:
    """The same, for whoever brings the token."""
    expected = f"Bearer {token}".encode()

    async def guard(scope: Scope, receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        if scope["type"] != "lifespan":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, expected):
                await _refuse(scope, send)
                return
        await app(scope, receive, send)

    return guard


async def _refuse(scope: Scope, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"error":"a bearer token is needed"}'})


def listen(port: int) -> socket.socket:
    """A socket on loopback; 0 chooses a free port. InvalidParams where it is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidParams(f"port {port}: {getattr(error, 'strerror', None) or error}") from None
    return listening


async def serve_http(broker: Broker, token: str, listening: socket.socket) -> None:
    """Until the process is told to stop."""
    import uvicorn

    app = guarded(broker.server.streamable_http_app(streamable_http_path=PATH), token)  # type: ignore[arg-type]
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
    await uvicorn.Server(config).serve(sockets=[listening])
