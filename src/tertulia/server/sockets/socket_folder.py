"""Finds the sessions that other processes let us reach, and removes the names that killed processes have left."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tertulia.errors import BusyError, ClosedError, NotFoundError, StorageError
from tertulia.rollout.sqlite.session_files import is_session_id
from tertulia.server.sockets.session_sockets import FOLDER, SUFFIX, locked_folder
from tertulia.session.agents.private_socket import peer

_PROCESS_NAME = re.compile(r"[0-9]+-[0-9a-f]{16}")
_WORDS = re.compile(rb"(?:^|\x00)(exec|app-server|acp|serve|dashboard|resume|conv)\x00")
_ENDED = "no process holds session {} now; `tertulia resume {}` goes on with it"


class ReachableSession(msgspec.Struct, frozen=True):
    """A session that a process holds and lets us reach."""

    session_id: str
    pid: int
    """The number of the process that holds it; 0 where too many clients wait there."""


async def find_reachable(home: Path) -> list[ReachableSession]:
    """All of them, by their ids. Names whose process has ended are removed."""
    with _folder(home) as directory:
        if directory is None:
            return []
        found, stale = _look(directory, sorted(os.listdir(directory)))
        if stale:
            # Looked at once more while no other process makes names: one may be of a session that was just resumed.
            with suppress(StorageError):
                async with locked_folder(directory):
                    for name in _look(directory, stale)[1]:
                        with suppress(FileNotFoundError):
                            os.unlink(name, dir_fd=directory)
        return found


def connect(home: Path, session_id: str) -> socket.socket:
    """Connect to the process that holds a session.

    Args:
        home: `$TERTULIA_HOME`.
        session_id: The id of the session.

    Returns:
        A connection that does not block; nothing is sent yet.

    Raises:
        NotFoundError: There is no such session, or it cannot be reached.
        ClosedError: The process that held it has ended.
        BusyError: Too many clients wait there.
    """
    if not is_session_id(session_id):
        raise NotFoundError(f"session not found: {session_id[:64]!r}")
    with _folder(home) as directory:
        if directory is None:
            raise NotFoundError(_ENDED.format(session_id, session_id))
        try:
            return _connect(directory, f"{session_id}{SUFFIX}")
        except FileNotFoundError:
            raise NotFoundError(_ENDED.format(session_id, session_id)) from None
        except ConnectionRefusedError:
            raise ClosedError(_ENDED.format(session_id, session_id)) from None
        except BlockingIOError:
            raise BusyError(f"too many clients wait for session {session_id}", retry_after_s=1) from None
        except OSError as error:
            raise NotFoundError(f"session {session_id} cannot be reached: {error.strerror or error}") from None


def program_of(pid: int) -> str:
    """What of ours runs there, by the word of its command line; `terminal` where there is none."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "unknown"
    word = _WORDS.search(line)
    return "terminal" if word is None else word[1].decode()


@contextmanager
def _folder(home: Path) -> Generator[int | None]:
    """The folder, if there is one that is ours alone."""
    try:
        number = os.open(home / FOLDER, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        status = os.fstat(number)
        yield number if status.st_uid == os.getuid() and not status.st_mode & 0o077 else None
    finally:
        os.close(number)


def _look(directory: int, names: list[str]) -> tuple[list[ReachableSession], list[str]]:
    """The sessions behind these names, and those of the names that no process listens at any more."""
    found: list[ReachableSession] = []
    stale: list[str] = []
    for name in names:
        word = name.removesuffix(SUFFIX)
        if word == name or not (is_session_id(word) or _PROCESS_NAME.fullmatch(word)):
            continue
        try:
            with _connect(directory, name) as connection:
                if is_session_id(word):
                    found.append(ReachableSession(word, peer(connection)[0]))
        except ConnectionRefusedError:
            stale.append(name)
        except BlockingIOError:
            # So many clients wait there that none more can.
            if is_session_id(word):
                found.append(ReachableSession(word, 0))
        except OSError:
            # It is gone meanwhile, or was no socket.
            continue
    return found, stale


def _connect(directory: int, name: str) -> socket.socket:
    if not stat.S_ISSOCK(os.lstat(name, dir_fd=directory).st_mode):
        raise OSError(errno.ENOTSOCK, "it is no socket")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{name}")
        if peer(connection)[1] != os.getuid():
            raise OSError(errno.EACCES, "another user listens there")
    except BaseException:
        connection.close()
        raise
    return connection
