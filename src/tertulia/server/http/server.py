"""Serves an application over HTTP on a socket, until it is told to stop. Needs the extra `web`."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tertulia.errors import InvalidParamsError
from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.guard import MAX_BODY_BYTES, App

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = "127.0.0.1"
BACKLOG = 4096
PING_S = 30.0
"""Between two pings on a WebSocket, and how long an answer may take."""
_LAST_PORT = 65_535
GRACE_S = 2
"""For answers that are under way when it is to end."""


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """A socket that listens there; 0 chooses a free port. InvalidParams where that cannot be."""
    if not 0 <= port <= _LAST_PORT:
        # Else another one would be found for it, without a word.
        raise InvalidParamsError(f"port {port}: there are ports from 0 to {_LAST_PORT}")
    try:
        kind, form, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # Its protocol by name: asyncio turns off Nagle's delay only where it is told that this is TCP.
        listening = socket.socket(kind, form, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        raise InvalidParamsError(f"port {port} of {host}: {getattr(error, 'strerror', None) or error}") from None
    return listening


def url_of(listening: socket.socket) -> str:
    """The URL under which a listening socket is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer:
    """One application on one socket. Logs no request: a path could hold a secret."""

    def __init__(self, app: App) -> None:
        self._server = _server(app)

    async def serve(self, listening: socket.socket) -> None:
        """Until `stop`; then what is under way has a little time."""
        await self._server.serve(sockets=[listening])

    async def serve_until(self, stop: asyncio.Event, listening: socket.socket) -> None:
        """The same, with an event."""
        nursery = Nursery()
        serving = nursery.start(self.serve(listening), "http")
        stopping = nursery.start(stop.wait(), "stop")
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        self.stop()
        await serving
        await nursery.close(GRACE_S)

    def stop(self) -> None:
        """Take no more connections, and end those there are."""
        self._server.should_exit = True


def _is_failure(record: logging.LogRecord) -> bool:
    """Whether it is one of ours. A request that is given up because we end is none, nor is what a client got wrong."""
    given_up = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not given_up and not str(record.msg).startswith("Invalid UTF-8")


def _server(app: App) -> uvicorn.Server:
    import uvicorn

    from tertulia.server.http.uvicorn_protocols import HeaderLimitedProtocol, SinkWebSocketProtocol

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None]:
            """Signals are the program's business: it has more to end than this."""
            yield

    config = uvicorn.Config(
        app,
        http=HeaderLimitedProtocol,
        ws=SinkWebSocketProtocol,
        ws_max_size=MAX_BODY_BYTES,
        ws_per_message_deflate=False,  # a small message could be a huge one
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        lifespan="off",
        log_config=None,
        log_level="error",  # what is below that any stranger can cause, as often as they like
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_failure)
    return Server(config)
