"""One broker for all programs of a user: a socket that only this user can reach, and an end when nobody is there.

The first line of a client is ours, a greeting that names the view; the rest is MCP.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tertulia.errors import AgentError, Busy, InvalidParams, StorageError
from tertulia.mcp.broker import Broker
from tertulia.server.mcp_brokers import client_broker, find_view
from tertulia.server.mcp_lines import serve_lines
from tertulia.session.session import Session
from tertulia.session.settings import Settings
from tertulia.version import __version__

_log = logging.getLogger(__name__)
MAX_CLIENTS = 256
GREETING_S = 10.0
_CHUNK = 65_536
_PEER = struct.Struct("3i")


class Greeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    view: str | None = None
    client: str = ""


class Welcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to it."""

    ok: bool
    error: str | None = None


def socket_path(home: Path, settings: Settings) -> Path:
    """Where the broker of exactly these settings listens: whoever changes them gets a broker of its own."""
    told = {
        name: msgspec.to_builtins(getattr(settings, name), enc_hook=repr)
        for name in ("mcp_servers", "mcp_views", "limits", "sandbox", "network", "approval_policy", "cwd")
    }
    encoded = msgspec.json.encode([__version__, told], order="deterministic")
    return home / "broker" / f"{hashlib.sha256(encoded).hexdigest()[:16]}.sock"


@contextmanager
def short_path(path: Path) -> Generator[str]:
    """The same path in few enough characters for a socket, whatever the directory is called."""
    directory = os.open(path.parent, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


class BrokerSocket:
    """Serves clients until none has been there for a while."""

    def __init__(self, session: Session, path: Path, *, idle_exit_s: float) -> None:
        self._session = session
        self._path = path
        self._idle_exit_s = idle_exit_s
        self._clients = 0
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def serve(self) -> None:
        """In a place that is `owned`."""
        with short_path(self._path) as address:
            self._path.unlink(missing_ok=True)
            before = os.umask(0o177)
            try:
                server = await asyncio.start_unix_server(self._client, address, limit=_CHUNK)
            finally:
                os.umask(before)
            try:
                self._wait_for_clients()
                await self._idle.wait()
            finally:
                self._path.unlink(missing_ok=True)
                server.close()

    def stop(self) -> None:
        """Serve no longer."""
        self._idle.set()

    def _wait_for_clients(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._idle_exit_s, self._idle.set)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._clients += 1
        try:
            await self._serve_one(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            # It is gone, or it is none of ours.
            _log.info("a client of the broker left")
        finally:
            self._clients -= 1
            writer.close()
            if self._clients == 0:
                self._wait_for_clients()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not _is_ours(writer.get_extra_info("socket")):
            return
        async with asyncio.timeout(GREETING_S):
            line = await reader.readuntil(b"\n")
        try:
            if self._clients > MAX_CLIENTS:
                raise Busy(f"{MAX_CLIENTS} programs use this broker already", retry_after_s=10)
            greeting = _greeting(line)
            view = find_view(self._session.parts.settings, greeting.view)
            async with client_broker(self._session, view, f"{view.name}: {greeting.client}") as broker:
                await _say(writer, Welcome(True))
                await _run(broker, reader, writer)
        except AgentError as error:
            await _say(writer, Welcome(False, error.message))


async def _run(broker: Broker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await serve_lines(broker, _chunks(reader), _Sink(writer))


class _Sink:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, line: bytes) -> None:
        try:
            self._writer.write(line)
            await self._writer.drain()
        except OSError:
            # Nobody reads it any more; the end of the input says so too.
            return


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await reader.read(_CHUNK):
        yield chunk


async def _say(writer: asyncio.StreamWriter, welcome: Welcome) -> None:
    writer.write(msgspec.json.encode(welcome) + b"\n")
    await writer.drain()


def _greeting(line: bytes) -> Greeting:
    try:
        return msgspec.json.decode(line, type=Greeting)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidParams(f"this is no greeting: {error}") from None


def _is_ours(connection: socket.socket) -> bool:
    """Whether the other side is the same user. The file's mode says so too; a directory may have been shared later."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return _PEER.unpack(peer)[1] == os.getuid()


def private_directory(directory: Path) -> None:
    """Make it for this user alone; StorageError where it is somebody else's, or no directory."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise StorageError(f"{directory} is not a directory of yours; remove it")
        directory.chmod(0o700)
    except OSError as error:
        raise StorageError(f"{directory}: {error.strerror}") from None


@contextmanager
def owned(path: Path) -> Generator[None]:
    """Have this place to oneself; Busy where another broker has it already. Before any server is started."""
    private_directory(path.parent)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another broker listens at {path}") from None
        yield
    finally:
        os.close(lock)
