"""The bearer token of a server: kept in a file that only its owner can read, compared in constant time."""

from __future__ import annotations

import errno
import fcntl
import hmac
import os
import secrets
import stat
from pathlib import Path

from tertulia.errors import StorageError

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
        fcntl.flock(fd, fcntl.LOCK_EX)
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


def matches_token(candidate: bytes, token: str) -> bool:
    """Whether it is this token; how long that takes reveals nothing."""
    return hmac.compare_digest(candidate, token.encode())


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
