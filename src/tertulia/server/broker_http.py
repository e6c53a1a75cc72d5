"""The broker over HTTP: a token in every request, loopback only, and the SDK's own checks of Host and Origin."""

from __future__ import annotations

import asyncio
import fcntl
import hmac
import os
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tertulia.errors import InvalidParams
from tertulia.mcp.broker import Broker
from tertulia.server.broker_place import private_directory, private_file

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]]

PATH = "/mcp"
MAX_SESSIONS = 256
_TOKEN = re.compile(rb"[0-9A-Za-z_-]{32,128}")


def token_file(path: Path) -> str:
    """The token in that file, made when there is none; only its owner can read it."""
    private_directory(path.parent)
    with os.fdopen(private_file(path, os.O_RDWR), "r+b") as file:
        # Two that start at once must not tell two tokens.
        fcntl.flock(file, fcntl.LOCK_EX)
        token = file.read(256).strip()
        if not _TOKEN.fullmatch(token):
            token = secrets.token_hex(32).encode()
            file.seek(0)
            file.truncate()
            file.write(token)
        return token.decode()


def guarded(app: App, token: str) -> App:
    """The same, for whoever brings the token."""
    expected = f"Bearer {token}".encode()

    async def guard(scope: Scope, receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        if scope["type"] != "lifespan":
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(given) != 1 or not hmac.compare_digest(given[0], expected):
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
        # Whoever reads the address may come before anybody serves: it waits.
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidParams(f"port {port}: {getattr(error, 'strerror', None) or error}") from None
    return listening


async def serve_http(broker: Broker, token: str, listening: socket.socket, stop: asyncio.Event) -> None:
    """Until `stop` is set; whoever waits for an answer then has a second to get it."""
    import uvicorn

    class Quiet(uvicorn.Server):
        """Leaves signals to the program: uvicorn would raise them once more, and what comes after it be left undone."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    served = broker.server.streamable_http_app(streamable_http_path=PATH, max_sessions=MAX_SESSIONS)
    app = guarded(served, token)  # type: ignore[arg-type]
    config = uvicorn.Config(app, log_level="critical", access_log=False, ws="none", timeout_graceful_shutdown=1)
    server = Quiet(config)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[listening]))
        stopping = group.create_task(stop.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        stopping.cancel()
