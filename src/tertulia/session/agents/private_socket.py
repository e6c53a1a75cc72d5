"""A directory and sockets in it that only this user can use, and the process at the other end of a connection.

Imports as little as it can: programs that start often and do little import it.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tertulia.errors import StorageError

_PEER = struct.Struct("3i")


@contextmanager
def short_path(path: Path) -> Generator[str]:
    """The same path in few enough characters for a socket, whatever the directory is called."""
    directory = os.open(path.parent, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def private_directory(directory: Path) -> None:
    """Make it for this user alone; StorageError where it belongs to another user, or is no directory."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise StorageError(f"{directory} is not a directory of yours; remove it")
        directory.chmod(0o700)
    except OSError as error:
        raise StorageError(f"{directory}: {error.strerror}") from None


def listen_at(path: Path) -> socket.socket:
    """Bind a socket at that path, for this user alone."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The mode is set before the socket has a name. Not by umask: that is global to the process, which creates other
        # files meanwhile.
        os.fchmod(listening.fileno(), 0o600)
        with short_path(path) as address:
            listening.bind(address)
    except BaseException:
        listening.close()
        raise
    return listening


def peer(connection: socket.socket) -> tuple[int, int]:
    """The ids of the process and the user at the other end."""
    process, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return process, user


def is_same_user(connection: socket.socket) -> bool:
    """Whether the other side is the same user. The file's mode says so too; a directory may have been shared later."""
    return peer(connection)[1] == os.getuid()
