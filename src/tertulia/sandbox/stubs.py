"""Names that must not come into being: while a command runs, an empty directory stands where each would.

The directory is only there to be mounted over. It carries a mark, each command that relies on it holds a shared lock,
and whoever lets go last removes it. After a kill nobody holds the lock, and the next command in that place takes the
directory over and removes it. Removing is `rmdir`, which cannot lose anything.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from tertulia.errors import SandboxError

_MODE = 0o1555
"""Sticky and writable by nobody: the mark. It is there from the first moment, and no directory of a person's has it."""
_ATTEMPTS = 100
_CANNOT_BE_MADE = {errno.EACCES, errno.EPERM, errno.EROFS}


class Stub:
    """One directory that is held, by an open descriptor with a shared lock on it."""

    __slots__ = ("_name", "_parent", "fd")

    def __init__(self, fd: int, parent: int, name: str) -> None:
        self.fd = fd
        self._parent = parent
        self._name = name

    def release(self) -> None:
        """Let go, and remove the directory if it is a stub and nobody else relies on it."""
        try:
            if marks_stub(os.fstat(self.fd)) and _lock(self.fd, fcntl.LOCK_EX):
                os.rmdir(self._name, dir_fd=self._parent)
        except OSError:
            # Somebody has put something there, or was quicker.
            pass
        finally:
            os.close(self.fd)
            os.close(self._parent)


def hold(parent: int, name: str) -> Stub | None:
    """Have something stand at `name` below the open directory `parent`; it is a directory, and made if it is missing.

    None where it is something else, or where nobody could make it and so the command cannot either.
    """
    for _ in range(_ATTEMPTS):
        try:
            _make(parent, name)
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in _CANNOT_BE_MADE | {errno.ENOTDIR, errno.ELOOP}:
                return None
            # What was made stays for the next one to take over: without a lock on it nobody may remove it.
            raise SandboxError(f"{name} cannot be kept from being made: {error.strerror}") from None
        stub = _take(fd, parent, name)
        if stub is not None:
            return stub
    raise SandboxError(f"{name} cannot be kept from being made: it comes and goes")


def sweep(root: str, names: Iterable[str]) -> list[str]:
    """Remove the stubs that a killed process has left in a directory; which they were."""
    swept: list[str] = []
    try:
        parent = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return swept
    try:
        for name in names:
            if not _is_stub_at(parent, name):
                continue
            stub = hold(parent, name)
            if stub is not None:
                stub.release()
                if not _is_stub_at(parent, name):
                    swept.append(name)
    finally:
        os.close(parent)
    return swept


def is_stub(path: str | os.PathLike[str]) -> bool:
    """Whether a stub stands there: for whoever looks for a file, nothing does. It goes with its command."""
    try:
        return marks_stub(os.lstat(path))
    except OSError:
        return False


def _take(fd: int, parent: int, name: str) -> Stub | None:
    try:
        if _lock(fd, fcntl.LOCK_SH) and _still_there(fd, parent, name):
            return Stub(fd, os.dup(parent), name)
    except OSError as error:
        os.close(fd)
        raise SandboxError(f"{name} cannot be kept from being made: {error.strerror}") from None
    os.close(fd)
    return None


def _make(parent: int, name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, _MODE, dir_fd=parent)


def marks_stub(status: os.stat_result) -> bool:
    """Whether it is a directory with the mark."""
    # A umask may have taken some of the other bits.
    return stat.S_ISDIR(status.st_mode) and status.st_mode & 0o1222 == _MODE & 0o1222


def _is_stub_at(parent: int, name: str) -> bool:
    try:
        return marks_stub(os.stat(name, dir_fd=parent, follow_symlinks=False))
    except OSError:
        return False


def _lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_there(fd: int, parent: int, name: str) -> bool:
    try:
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))
