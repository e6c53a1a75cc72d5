"""Names that a command must not create: while it runs, an empty directory or file (a stub) stands in place of each.

It is only there to be mounted over. It carries a mark, each command that relies on it holds a shared lock, and the last
one that lets go removes it. After a kill no process holds the lock, and the next command in that place takes the stub
over and removes it. Removing a directory is `rmdir`, which cannot lose anything; a file is moved aside first, and put
back if it is not the empty one that stood there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from tertulia.errors import SandboxError
from tertulia.policy.file_lock import try_lock

_MODE = 0o1555
"""Sticky and not writable: the mark. It is there from the first moment, and no directory of a user's has it."""
_FILE_MODE = 0o1444
"""Of a file likewise: programs that look for their settings there find none, where a directory would stop them."""
_ATTEMPTS = 100
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CANNOT_BE_MADE = {errno.EACCES, errno.EPERM, errno.EROFS}


class Stub:
    """One that is held, by an open descriptor with a shared lock on it."""

    __slots__ = ("_name", "_parent", "fd")

    def __init__(self, fd: int, parent: int, name: str) -> None:
        self.fd = fd
        self._parent = parent
        self._name = name

    def remove(self) -> None:
        """Remove it if it is a stub and no other command relies on it. It is still to be closed."""
        try:
            status = os.fstat(self.fd)
            if marks_stub(status) and try_lock(self.fd):
                if stat.S_ISDIR(status.st_mode):
                    os.rmdir(self._name, dir_fd=self._parent)
                else:
                    _remove_file(self.fd, self._parent, self._name)
        except OSError:
            # A process has put something there meanwhile.
            pass

    def close(self) -> None:
        """Let go. Of one that was removed the disk is freed now, which takes it longer than all the rest."""
        os.close(self.fd)
        os.close(self._parent)

    def release(self) -> None:
        """Remove it where that is allowed, and let go."""
        try:
            self.remove()
        finally:
            self.close()


def hold_stub(parent: int, name: str, *, is_file: bool = False) -> Stub | None:
    """Have something stand at `name` below the open directory `parent`: a directory or a stub, made if it is missing.

    None where it is something else, or where no process could make it and so the command cannot either.
    """
    for _ in range(_ATTEMPTS):
        try:
            fd = _made_file(parent, name) if is_file else _made_directory(parent, name)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in _CANNOT_BE_MADE | {errno.ENOTDIR, errno.ELOOP, errno.ENXIO}:
                return None
            # What was made stays for the next one to take over: without a lock on it no command may remove it.
            raise SandboxError(f"{name} cannot be protected from being created: {error.strerror}") from None
        if not stat.S_ISDIR((status := os.fstat(fd)).st_mode) and not marks_stub(status):
            os.close(fd)
            return None
        stub = _take(fd, parent, name)
        if stub is not None:
            return stub
    raise SandboxError(
        f"{name} cannot be protected from being created: another process creates and removes it again and again"
    )


def sweep_stubs(root: str, names: Iterable[str]) -> list[str]:
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
            stub = hold_stub(parent, name)
            if stub is not None:
                stub.release()
                if not _is_stub_at(parent, name):
                    swept.append(name)
    finally:
        os.close(parent)
    return swept


def sweep_stub_paths(root: str, paths: Iterable[str]) -> list[str]:
    """The same for paths, wherever below the root the way to one begins with a stub."""
    swept: list[str] = []
    for path in paths:
        inside = path.removeprefix(f"{root}/").split("/") if path.startswith(f"{root}/") else []
        for number, name in enumerate(inside):
            folder = os.path.join(root, *inside[:number])
            if is_stub(os.path.join(folder, name)):
                swept += [os.path.join(folder, stub) for stub in sweep_stubs(folder, [name])]
                break
    return swept


def is_stub(path: str | os.PathLike[str]) -> bool:
    """Whether a stub stands there: to a search for a file, nothing does. It goes with its command."""
    try:
        return marks_stub(os.lstat(path))
    except OSError:
        return False


def _take(fd: int, parent: int, name: str) -> Stub | None:
    try:
        if try_lock(fd, shared=True) and _still_there(fd, parent, name):
            return Stub(fd, os.dup(parent), name)
    except OSError as error:
        os.close(fd)
        raise SandboxError(f"{name} cannot be protected from being created: {error.strerror}") from None
    os.close(fd)
    return None


def _made_directory(parent: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, _MODE, dir_fd=parent)
    # Not blocking: another kind of stub may stand there, or something that waits for a writer.
    return os.open(name, _OPEN, dir_fd=parent)


def _made_file(parent: int, name: str) -> int:
    try:
        return os.open(name, _OPEN | os.O_CREAT | os.O_EXCL, _FILE_MODE, dir_fd=parent)
    except FileExistsError:
        return os.open(name, _OPEN, dir_fd=parent)


def _remove_file(fd: int, parent: int, name: str) -> None:
    aside = f".{name}.{os.urandom(8).hex()}"
    os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
    moved = os.stat(aside, dir_fd=parent, follow_symlinks=False)
    if not (os.path.samestat(moved, os.fstat(fd)) and marks_stub(moved)):
        # A process has put it there, or has written to it. Where yet another has come meanwhile, both are kept.
        os.link(aside, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    os.unlink(aside, dir_fd=parent)


def marks_stub(status: os.stat_result) -> bool:
    """Whether it is a directory, or an empty file, with the mark."""
    # A umask may have taken some of the other bits.
    if stat.S_ISREG(status.st_mode):
        return status.st_mode & 0o1333 == _FILE_MODE & 0o1333 and status.st_size == 0
    return stat.S_ISDIR(status.st_mode) and status.st_mode & 0o1222 == _MODE & 0o1222


def _is_stub_at(parent: int, name: str) -> bool:
    try:
        return marks_stub(os.stat(name, dir_fd=parent, follow_symlinks=False))
    except OSError:
        return False


def _still_there(fd: int, parent: int, name: str) -> bool:
    try:
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))
