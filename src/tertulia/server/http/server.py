"""Serves an application over HTTP on a socket, and keeps the bearer token that its clients send.

Serving needs the extra `web`. The token is in a file that only its owner can read; the guard compares it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tertulia.errors import InvalidParamsError, StorageError
from tertulia.policy.file_lock import lock
from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.guard import MAX_BODY_BYTES, App

if TYPE_CHECKING:
    import uvicorn

_MIN_LENGTH = 32
# Not waiting for a writer, where it is a named pipe.
_OPEN_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def load_or_create_token(path: Path) -> str:
    """The token in that file, made when there is none. Servers that begin at the same time have the same.

    StorageError where it is no file, a link, another user's, or one that others can read: they may know what is in it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path.parent}: {error.strerror}") from None
    try:
        fd = _open(path)
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise StorageError(f"{path}: {why}; remove it") from None
    try:
        _check(path, os.fstat(fd))
        # Until it is closed. The process that finds the file empty makes the token; the others wait for it.
        lock(fd)
        token = os.read(fd, 256).decode("ascii", "ignore").strip()
        if len(token) < _MIN_LENGTH:
            token = secrets.token_hex(32)
            os.ftruncate(fd, 0)
            os.pwrite(fd, token.encode(), 0)
        return token
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from None
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    try:
        fd = os.open(path, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, _OPEN_FLAGS)
    os.fchmod(fd, 0o600)
    return fd


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise StorageError(f"{path} is not a file of yours; remove it")
    if status.st_mode & 0o077:
        raise StorageError(f"{path}: others can read or change it; remove it, and there will be a new token")


LOOPBACK = "127.0.0.1"
BACKLOG = 4096
PING_S = 30.0
"""Seconds between two pings on a WebSocket, and for each answer."""
_LAST_PORT = 65_535
GRACE_S = 2
"""Seconds for answers that are under way when the server ends."""


def listen(port: int, host: str = LOOPBACK, flag: str = "--port") -> socket.socket:
    """A socket that listens there; 0 chooses a free port. InvalidParams, with the flag, where that cannot be."""
    if not 0 <= port <= _LAST_PORT:
        # Else another free port would be chosen silently.
        raise InvalidParamsError(f"port {port}: there are ports from 0 to {_LAST_PORT}")
    try:
        kind, form, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        # With the protocol: asyncio turns off Nagle's delay only where the socket says that it is TCP.
        listening = socket.socket(kind, form, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        raise InvalidParamsError(_listen_problem(port, host, flag, error)) from None
    return listening


def _listen_problem(port: int, host: str, flag: str, error: OSError | UnicodeError) -> str:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            problem = "is in use by another program; choose another with"
        case errno.EACCES:
            problem = "is only for the administrator; choose one above 1023 with"
        case _:
            return f"port {port} of {host}: {getattr(error, 'strerror', None) or error}"
    return f"port {port} of {host} {problem} {flag}; `{flag} 0` takes any that is free"


def url_of(listening: socket.socket) -> str:
    """The URL under which a listening socket is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer:
    """One application on one socket. Logs no request: a path could hold a secret."""

    def __init__(self, app: App) -> None:
        self._server = _server(app)

    async def serve(self, listening: socket.socket) -> None:
        """Serve until `stop`; then requests under way have a little time."""
        await self._server.serve(sockets=[listening])

    async def serve_until(self, stop: asyncio.Event, listening: socket.socket) -> None:
        """Serve until the event is set."""
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
            """Install no signal handlers: the program has its own."""
            yield

    config = uvicorn.Config(
        app,
        http=HeaderLimitedProtocol,
        ws=SinkWebSocketProtocol,
        ws_max_size=MAX_BODY_BYTES,
        ws_per_message_deflate=False,  # a small compressed message could become a huge one
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        lifespan="off",
        log_config=None,
        log_level="error",  # any client can cause less severe messages, as often as it likes
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_failure)
    return Server(config)
