"""Which process owns a session: a byte in a lock file that many sessions share.

A session stays owned while its own files are closed, and a process needs no descriptor for each. Locks belong to the
open lock file (OFD locks), not to the process: a program that reads the folder and closes what it has read drops none
of them. They end with the process, whatever ends that. They do not lie on the database: closing any other descriptor
of a database, even of a failed attempt, would silently drop the locks that SQLite holds on it for this process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

from tertulia.errors import BusyError
from tertulia.policy.file_lock import lock_byte_of_windows
from tertulia.rollout.sqlite.session_files import SessionFiles, refuse_links

if TYPE_CHECKING or sys.platform == "win32":
    import msvcrt
if TYPE_CHECKING or sys.platform != "win32":
    import fcntl

_PRIVATE_FILE = 0o600
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES_S = (0, 0.002, 0.02, 0.1)
_LINUX, _DARWIN = Struct("hhqqi4x"), Struct("qqihh")
"""`struct flock`: kind, whence, start, length, process; and start, length, process, kind, whence."""
_DARWIN_SET, _DARWIN_ASK = 90, 92
"""Of macOS, which not every Python names."""
_PLACES = 2**62 - 1 if sys.platform != "win32" else 2**30 - 1
"""Of an id that many bits are random, and so large may a place in a file be; the C library of Windows counts in 31."""

_lock = threading.Lock()
_owned_here: set[SessionFiles] = set()


class _LockFile:
    """A lock file as this process has it open: once, however many sessions it owns there."""

    __slots__ = ("fd", "id", "places")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.id = _id(os.fstat(fd))
        self.places: set[int] = set()
        """The sessions that are owned by way of it."""


_lock_files: dict[tuple[int, int], _LockFile] = {}


def _disown() -> None:
    """In a forked process: drop the locks of the parent, which are not its own."""
    for file in _lock_files.values():
        os.close(file.fd)
    _lock_files.clear()
    _owned_here.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_disown)


class Ownership:
    """The right to add to a session's record. It ends with `release` or with the process, whatever ends that."""

    __slots__ = ("_file", "_files")

    def __init__(self, files: SessionFiles, file: _LockFile) -> None:
        self._files = files
        self._file = file

    @classmethod
    def take(cls, files: SessionFiles) -> Ownership:
        """Become the owner. Busy where there is one, StorageError or OSError where it cannot be tried."""
        refuse_links(files)
        # Not once: the last owner of another session may remove the file between our two calls.
        for wait_s in _TRIES_S:
            time.sleep(wait_s)
            with _lock:
                file = _opened(files.lock)
                try:
                    if _take_place(file, files):
                        _owned_here.add(files)
                        return cls(files, file)
                finally:
                    _close_if_unused(file, files.lock)
        raise _busy(files)

    def release(self) -> None:
        """Give up the session, so that another process can own it."""
        with _lock:
            if _lock_files.get(self._file.id) is not self._file:
                # In a process that was forked from the owner: it owns nothing.
                return
            _owned_here.discard(self._files)
            self._file.places.discard(_place(self._files))
            with suppress(OSError):
                _unlock_byte(self._file.fd, _place(self._files))
            _close_if_unused(self._file, self._files.lock)


@contextmanager
def hold_unowned(files: SessionFiles) -> Generator[bool]:
    """Whether no process has the file open; as long as this lasts, none in this process will.

    Opening and closing a database without SQLite drops the locks that this process has on it.
    """
    with _lock:
        yield files not in _owned_here and not is_in_use(files)


def is_in_use(files: SessionFiles) -> bool:
    """Whether another process seems to have the file open, or died with it open."""
    return os.path.lexists(files.name(".db-wal")) or _is_locked(files)


def is_held(files: SessionFiles) -> bool:
    """Whether a process owns the session now."""
    return files in _owned_here or _is_locked(files)


# ── the lock file ────────────────────────────────────────────────────────────────────────────────────────────────────


def _opened(path: Path) -> _LockFile:
    """The lock file under that name, made where there is none."""
    with suppress(FileNotFoundError):
        if (known := _lock_files.get(_id(os.lstat(path)))) is not None:
            return known
    fd = os.open(path, _OPEN, _PRIVATE_FILE)
    try:
        os.fchmod(fd, _PRIVATE_FILE)
        file = _LockFile(fd)
    except BaseException:
        os.close(fd)
        raise
    return _lock_files.setdefault(file.id, file)


def _take_place(file: _LockFile, files: SessionFiles) -> bool:
    place = _place(files)
    if place in file.places:
        return False
    if not _try_lock_byte(file.fd, place):
        return False
    if not _is_still(files.lock, file):
        # Removed by its last owner after we had opened it: it locks nothing that others would find.
        _unlock_byte(file.fd, place)
        return False
    file.places.add(place)
    return True


def _close_if_unused(file: _LockFile, path: Path) -> None:
    """Close a lock file in which we own nothing, and remove it where no other process does."""
    if file.places:
        return
    _lock_files.pop(file.id, None)
    with suppress(OSError):
        # Another one may stand there by now, where ours was deleted.
        if _is_the_last(file.fd) and _is_still(path, file):
            path.unlink()
    os.close(file.fd)


def _is_locked(files: SessionFiles) -> bool:
    """Whether another process has the place of that session."""
    try:
        fd = os.open(files.name_of_lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _byte_is_locked(fd, _place(files))
    finally:
        os.close(fd)


def _place(files: SessionFiles) -> int:
    return int(files.session_id.replace("-", ""), 16) & _PLACES


def _id(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _is_still(path: Path, file: _LockFile) -> bool:
    try:
        return _id(os.lstat(path)) == file.id
    except FileNotFoundError:
        return False


# ── its bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _try_lock_byte(number: int, place: int) -> bool:
    """Lock one byte; False where another process, or another open file, has it."""
    try:
        if sys.platform == "win32":
            lock_byte_of_windows(number, place, msvcrt.LK_NBLCK)
        else:
            _set(number, fcntl.F_WRLCK, place, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock_byte(number: int, place: int) -> None:
    if sys.platform == "win32":
        lock_byte_of_windows(number, place, msvcrt.LK_UNLCK)
    else:
        _set(number, fcntl.F_UNLCK, place, 1)


def _is_the_last(number: int) -> bool:
    """Whether no other process has a byte of it, and none will get one until this file is closed."""
    if sys.platform == "win32":
        # An open file cannot be removed there.
        return False
    _set(number, fcntl.F_WRLCK, 0, 0)
    return True


def _byte_is_locked(number: int, place: int) -> bool:
    if sys.platform == "win32":
        is_free = _try_lock_byte(number, place)
        if is_free:
            _unlock_byte(number, place)
        return not is_free
    if sys.platform == "darwin":
        question = _DARWIN.pack(place, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
        return _DARWIN.unpack(fcntl.fcntl(number, _DARWIN_ASK, question))[3] != fcntl.F_UNLCK
    question = _LINUX.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    return _LINUX.unpack(fcntl.fcntl(number, fcntl.F_OFD_GETLK, question))[0] != fcntl.F_UNLCK


def _set(number: int, kind: int, start: int, length: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(number, _DARWIN_SET, _DARWIN.pack(start, length, 0, kind, os.SEEK_SET))
    else:
        fcntl.fcntl(number, fcntl.F_OFD_SETLK, _LINUX.pack(kind, os.SEEK_SET, start, length, 0))


# ── the owner ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _busy(files: SessionFiles) -> BusyError:
    pid = os.getpid() if files in _owned_here else _owner(files)
    who = f"process {pid}" if pid else "another process"
    return BusyError(
        f"session {files.session_id} ({files.db}) is in use by {who};"
        f" reach it with `tertulia attach {files.session_id}`, watch it with --follow, or wait for its end",
        session_id=files.session_id,
        file=str(files.db),
        pid=pid,
    )


def _owner(files: SessionFiles) -> int | None:
    """The process that has the lock, as far as the system tells us."""
    path, place = str(files.lock.resolve()), f" {_place(files)} {_place(files)}\n"
    for process in Path("/proc").glob("[0-9]*"):
        # Gone by now, or of another user.
        with suppress(OSError):
            for fd in os.listdir(process / "fd"):
                if os.readlink(process / "fd" / fd) == path and place in (process / "fdinfo" / fd).read_text():
                    return int(process.name)
    return None
