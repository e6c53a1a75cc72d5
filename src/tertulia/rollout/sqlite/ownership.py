"""Which process owns a session: a byte in a lock file that many sessions share.

A session stays owned while its own files are closed, and a process needs no descriptor for each. Locks belong to the
open lock file (OFD locks), not to the process: a program that reads the folder and closes what it has read drops none
of them. They end with the process, whatever ends that. They do not lie on the database: closing any other descriptor
of a database, even of a failed attempt, would silently drop the locks that SQLite holds on it for this process.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct

from tertulia.errors import BusyError
from tertulia.rollout.sqlite.session_files import SessionFiles, refuse_links

_PRIVATE_FILE = 0o600
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES_S = (0, 0.002, 0.02, 0.1)
_FLOCK = Struct("hhqqi4x")
"""`struct flock`: kind, whence, start, length, process."""
_PLACES = 2**62 - 1
"""Of an id that many bits are random, and so large may a place in a file be."""

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
                _set(self._file.fd, fcntl.F_UNLCK, _place(self._files), 1)
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
    try:
        _set(file.fd, fcntl.F_WRLCK, place, 1)
    except BlockingIOError:
        return False
    if not _is_still(files.lock, file):
        # Removed by its last owner after we had opened it: it locks nothing that others would find.
        _set(file.fd, fcntl.F_UNLCK, place, 1)
        return False
    file.places.add(place)
    return True


def _close_if_unused(file: _LockFile, path: Path) -> None:
    """Close a lock file in which we own nothing, and remove it where no other process does."""
    if file.places:
        return
    _lock_files.pop(file.id, None)
    with suppress(OSError):
        _set(file.fd, fcntl.F_WRLCK, 0, 0)
        # Another one may stand there by now, where ours was deleted.
        if _is_still(path, file):
            path.unlink()
    os.close(file.fd)


def _is_locked(files: SessionFiles) -> bool:
    """Whether another process has the place of that session."""
    try:
        fd = os.open(files.name_of_lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _place(files), 1, 0)
        return _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, question))[0] != fcntl.F_UNLCK
    finally:
        os.close(fd)


def _set(fd: int, kind: int, start: int, length: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))


def _place(files: SessionFiles) -> int:
    return int(files.session_id.replace("-", ""), 16) & _PLACES


def _id(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _is_still(path: Path, file: _LockFile) -> bool:
    try:
        return _id(os.lstat(path)) == file.id
    except FileNotFoundError:
        return False


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
