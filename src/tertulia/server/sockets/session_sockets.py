"""The socket of this process, and a name for each of its sessions: `$TERTULIA_HOME/sockets/ID.sock`.

All names are hard links to one socket. What is spoken there is in `session_connection.py`, which is imported when the
first client says something: `tertulia exec` opens a socket each time, and hardly ever has a client.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tertulia.errors import StorageError
from tertulia.scheduler.nursery import Nursery
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment

if TYPE_CHECKING or sys.platform != "win32":
    import fcntl

MAX_CLIENTS = 64
"""Of all sessions of the process."""
_FIRST_LINE_S = 30.0
"""How many seconds a client has for it."""
_PATIENCE_S = 3.0
"""How many seconds clients have in the end."""
FOLDER = "sockets"
SUFFIX = ".sock"
_BACKLOG = 128
_ACCEPT_AGAIN_S = 1.0
_LOCK_STEP_S, _LOCK_STEPS = 0.005, 200
_log = logging.getLogger(__name__)


class _SocketSession:
    """A session of this process, as clients of its socket find it."""

    __slots__ = ("ending", "host", "session")

    def __init__(self, session: Session, host: Host | None) -> None:
        self.session = session
        self.host = host
        """Where it runs, if it has one."""
        self.ending = asyncio.Event()
        """Set when it begins to close."""


class SessionSockets:
    """Makes sessions of this process reachable, as far as that can be done: no session fails for want of it."""

    def __init__(self, home: Path) -> None:
        self._sessions: dict[str, _SocketSession] = {}
        self._folder = home / FOLDER
        self._directory: int | None = None
        self._listening: socket.socket | None = None
        self._name = ""
        """The first name of the socket, from which the others are made."""
        self._clients: set[asyncio.Task[None]] = set()
        self._nursery = Nursery()

    async def add(self, session: Session, host: Host | None = None) -> None:
        """Give the session a name in the folder, until it begins to close; the first one opens the socket.

        Args:
            session: One that has been entered.
            host: Where it runs, if it has one: there a client closes it.
        """
        try:
            if self._directory is None:
                self._directory = _open_private(self._folder)
            async with locked_folder(self._directory):
                if self._listening is None:
                    self._listening = self._listen(self._directory)
                self._link(self._directory, f"{session.id}{SUFFIX}")
        except (OSError, StorageError) as error:
            _log.info("the session has no socket: %s", error)
            return
        self._sessions[session.id] = _SocketSession(session, host)
        session.activity.call_at_close(lambda: self._remove(session.id))

    async def close(self) -> None:
        """Take no more clients. Those that are there have a little time to take the last events of their sessions."""
        for session_id in list(self._sessions):
            self._remove(session_id)
        listening, self._listening = self._listening, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            self._unlink(self._name)
            listening.close()
        if self._clients:
            await asyncio.wait(self._clients, timeout=_PATIENCE_S)
        await self._nursery.close(_PATIENCE_S)
        directory, self._directory = self._directory, None
        if directory is not None:
            os.close(directory)

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────

    def _listen(self, directory: int) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # Before it has a name, and not by umask: that is the whole process's, which makes other files meanwhile.
            os.fchmod(listening.fileno(), 0o600)
            self._name = f"{os.getpid()}-{os.urandom(8).hex()}{SUFFIX}"
            listening.bind(f"/proc/self/fd/{directory}/{self._name}")
            listening.listen(_BACKLOG)
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)
        except BaseException:
            listening.close()
            raise
        return listening

    def _link(self, directory: int, name: str) -> None:
        with suppress(FileNotFoundError):
            # Of a process that was killed: this one holds the record of the session, so no other process does.
            os.unlink(name, dir_fd=directory)
        os.link(self._name, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)

    def _remove(self, session_id: str) -> None:
        reachable_session = self._sessions.pop(session_id, None)
        if reachable_session is not None:
            self._unlink(f"{session_id}{SUFFIX}")
            reachable_session.ending.set()

    def _unlink(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self._directory)

    # ── clients ──────────────────────────────────────────────────────────────────────────────────────────────

    def _accept(self, listening: socket.socket) -> None:
        """Take the clients that wait. A few at a time: others of this process have their turn, too."""
        for _ in range(_BACKLOG):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptor is left. The client goes on waiting, and would be told of again at once.
                _log.info("a client of the session's socket has to wait: %s", error)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(_ACCEPT_AGAIN_S, self._accept_again, listening)
                return
            if len(self._clients) >= MAX_CLIENTS:
                connection.close()
                continue
            connection.setblocking(False)
            client = self._nursery.start(self._serve(connection), "a client of the session's socket")
            self._clients.add(client)
            client.add_done_callback(self._clients.discard)

    def _accept_again(self, listening: socket.socket) -> None:
        if self._listening is listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def _serve(self, connection: socket.socket) -> None:
        # Imported here, as below: hardly any session has a client.
        from tertulia.session.agents.private_socket import is_same_user

        with connection:
            if not is_same_user(connection):
                return
            try:
                async with asyncio.timeout(_FIRST_LINE_S):
                    # A client that only looks whether a process listens sends nothing: for it nothing is imported.
                    if not await _has_bytes(connection):
                        return
            except (TimeoutError, OSError):
                return
            await asyncio.to_thread(importlib.import_module, "tertulia.server.sockets.session_connection")
            from tertulia.server.sockets.session_connection import serve_connection

            self._nursery.start(await serve_connection(connection, self._sessions), "requests of a client that is gone")


def _open_private(folder: Path) -> int:
    """Make the folder for this user alone, and open it: what is done by its descriptor is done in no other place.

    OSError or StorageError where it is a link or no folder, or belongs to another user.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.fstat(number).st_uid != os.getuid():
        os.close(number)
        raise StorageError(f"{folder} is not a folder of yours")
    os.fchmod(number, 0o700)
    return number


async def _has_bytes(connection: socket.socket) -> bool:
    """Wait for the first bytes, which are left unread; False where the client has gone instead."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    return bool(connection.recv(1, socket.MSG_PEEK))


@asynccontextmanager
async def locked_folder(directory: int) -> AsyncGenerator[None]:
    """Names are made, and those of killed processes removed, by one process at a time. StorageError after a second."""
    number = os.open(".", os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        for _ in range(_LOCK_STEPS):
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOCK_STEP_S)
        else:
            raise StorageError("the folder of the sockets is in use by another process, which does not let go of it")
        yield
    finally:
        os.close(number)


def has_sockets(settings: Settings) -> bool:
    """Whether sessions get one: they are bound and asked about in ways that Linux alone has."""
    return settings.session_sockets and sys.platform == "linux"


@asynccontextmanager
async def reachable(entering: AbstractAsyncContextManager[Session]) -> AsyncGenerator[Session]:
    """The session, which other programs can reach while it is open, if its settings let them."""
    async with entering as session:
        if not has_sockets(session.settings):
            yield session
            return
        sockets = SessionSockets(current_environment().home)
        await sockets.add(session)
        try:
            yield session
        finally:
            await sockets.close()


@asynccontextmanager
async def reachable_host(settings: Settings) -> AsyncGenerator[Host]:
    """A host whose sessions other programs can reach, if the settings let them. The caller closes it before the end."""
    sockets = SessionSockets(current_environment().home)
    try:
        yield Host(settings, on_entered=sockets.add if has_sockets(settings) else None)
    finally:
        await sockets.close()
