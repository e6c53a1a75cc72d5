"""Whether a session's files are still those that its owner opened (R1).

An open file can be deleted, moved, replaced or cut short, and writing to it goes on without an error: what is written
then is found by no reader. So the owner looks before every commit. A look is three calls of `stat`; only what cannot be
told from these is read again, by a connection of its own that has nothing in its cache. What another program changed by
way of SQLite every reader finds so: where SQLite says that there was such a change, the records are compared with what
their owner knows of them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeVar

from tertulia.errors import StorageError
from tertulia.rollout.sqlite.database import connect_reader
from tertulia.rollout.sqlite.error_text import STORAGE_EXCEPTIONS, error_kind, explain
from tertulia.rollout.sqlite.head import Head
from tertulia.rollout.sqlite.session_files import SessionFiles
from tertulia.rollout.sqlite.table import last_record

T = TypeVar("T")
FileLoss = Literal["gone", "replaced", "changed", "edited"]
_IN_WORDS: dict[FileLoss, str] = {
    "gone": "was deleted or moved away",
    "replaced": "was replaced by another file",
    "changed": "was cut short or overwritten",
    "edited": "was changed by another program",
}


class FileIdentity:
    """What the database, its journal and the lock looked like when their owner last touched them."""

    __slots__ = ("_connection", "_db", "_files", "_lock", "_lock_id", "_paths", "_version", "_wal")

    def __init__(self, files: SessionFiles, connection: sqlite3.Connection) -> None:
        """As they are now. FileNotFoundError where one is missing: an owner that has opened them has all three."""
        self._files = files
        self._connection = connection
        self._version = _changes_of_others(connection)
        self._paths = (str(files.db), str(files.wal))
        self._lock = str(files.lock)
        self._lock_id = _id(os.stat(self._lock))
        self._db = os.stat(self._paths[0])
        self._wal = os.stat(self._paths[1])

    def check_former(self, former: FileIdentity | None) -> None:
        """StorageError where another database was opened before."""
        if former is not None and not os.path.samestat(self._db, former._db):
            raise lost_file_error(self._files, self._paths[0], "replaced")

    def note_commit(self) -> None:
        """The owner has added to the journal. StorageError where it is gone."""
        self._wal = self._found(self._paths[1])

    def make_room(self, room: int) -> int:
        """Lengthen the journal, if there is one, by so many bytes, which hold nothing; its size.

        SQLite writes over them and takes no record for one that is not: to flush a file that does not grow takes a
        tenth of the time. Where there is no room, there is no error either: the commit that follows says so.
        """
        size = self._wal.st_size
        with suppress(OSError):
            descriptor = os.open(self._paths[1], os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if size and _look_of(os.fstat(descriptor)) == _look_of(self._wal):
                    size += os.pwrite(descriptor, bytes(room), size)
            finally:
                os.close(descriptor)
        return size

    def note_checkpoint(self) -> None:
        """The owner has moved the journal into the database. StorageError where one of them is gone."""
        self._db, self._wal = (self._found(path) for path in self._paths)
        # A file that its owner has rebuilt counts as changed, too.
        self._version = self._current_version()

    def note_rest(self) -> None:
        """Note that the owner has closed the files. StorageError where one of them is gone."""
        self._db, self._wal = (self._found(path) for path in self._paths)

    def check_closed(self) -> bool:
        """Whether files that were closed for a while look as they did. StorageError where they cannot be the same."""
        path = self._paths[0]
        now = self._found(path)
        if _id(now) != _id(self._db):
            raise lost_file_error(self._files, path, "replaced")
        if now.st_size < self._db.st_size:
            raise lost_file_error(self._files, path, "changed")
        if _id(self._found(self._lock)) != self._lock_id:
            raise lost_file_error(self._files, self._lock, "replaced")
        journal = _stat(self._paths[1])
        return journal is not None and (_look_of(now), _look_of(journal)) == (_look_of(self._db), _look_of(self._wal))

    def opened_again(self, connection: sqlite3.Connection, head: Head) -> FileIdentity:
        """That of the same files after they were closed for a while. StorageError where not all is there that was.

        What another program moved from the journal into the file is there.
        """
        now = FileIdentity(self._files, connection)
        known = (_look_of(self._db), _look_of(self._wal))
        if (_look_of(now._db), _look_of(now._wal)) != known and not now._explained(lambda db: _is_whole(db, head)):
            raise lost_file_error(self._files, self._paths[0], "changed")
        return now

    def _found(self, path: str) -> os.stat_result:
        found = _stat(path)
        if found is None:
            raise lost_file_error(self._files, path, "gone")
        return found

    def check(self, head: Head) -> None:
        """StorageError where what the owner wrote would not be found any more under the session's name."""
        for path, known in ((self._paths[0], self._db), (self._paths[1], self._wal)):
            now = self._found(path)
            if _id(now) != _id(known):
                raise lost_file_error(self._files, path, "replaced")
            if known is self._db and now.st_size < known.st_size:
                raise lost_file_error(self._files, path, "changed")
            if (now.st_size, now.st_mtime_ns) != (known.st_size, known.st_mtime_ns):
                # Only the owner writes to either of them, and it has looked since then.
                self._read_again(path)
        if _id(self._found(self._lock)) != self._lock_id:
            raise lost_file_error(self._files, self._lock, "replaced")
        version = self._current_version()
        if version != self._version:
            if not self._explained(head.is_in):
                raise lost_file_error(self._files, self._paths[0], "edited")
            self._version = version

    def is_untouched(self) -> bool:
        """Whether all of them look as their owner left them. What it means if not, `check` finds out."""
        try:
            return (
                _look_of(os.stat(self._paths[1])) == _look_of(self._wal)
                and _look_of(os.stat(self._paths[0])) == _look_of(self._db)
                and _id(os.stat(self._lock)) == self._lock_id
                and _changes_of_others(self._connection) == self._version
            )
        except STORAGE_EXCEPTIONS:
            return False

    def _current_version(self) -> int:
        return self._explained(_changes_of_others)

    def _explained(self, look: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return look(self._connection)
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._files.db) from error

    def _read_again(self, path: str) -> None:
        """Read the records again, because another program touched the file. A moved journal does no harm.

        Pages that only the journal still has are written into the database at once: a journal in which a byte is
        wrong is read by its owner, and ends there for every process that opens it later.
        """
        try:
            fresh = connect_reader(self._files.db)
            try:
                sound = fresh.execute("PRAGMA quick_check(1)").fetchone()[0] == b"ok"
                sound = sound and last_record(fresh) == last_record(self._connection)
            finally:
                fresh.close()
            if sound:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._db, self._wal = (self._found(path) for path in self._paths)
        except StorageError:
            sound = False
        except STORAGE_EXCEPTIONS as error:
            if error_kind(error) in ("busy", "crowded", "full", "memory"):
                # Nothing is known, and it is looked at again.
                raise explain(error, self._files.db) from error
            sound = False
        if not sound:
            raise lost_file_error(self._files, path, "changed")


def lost_file_error(files: SessionFiles, path: str, change: FileLoss) -> StorageError:
    """The record of a running session is not where it should be."""
    return StorageError(
        f"{path} {_IN_WORDS[change]} while the session was running, so nothing more is recorded there; "
        "put it back and resume the session, or start a new one",
        file=str(files.db),
        kind="lost",
    )


def _changes_of_others(connection: sqlite3.Connection) -> int:
    """A number that is another one after another program has committed something, or emptied the journal."""
    return connection.execute("PRAGMA data_version").fetchone()[0]


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _look_of(found: os.stat_result) -> tuple[int, ...]:
    return (*_id(found), found.st_size, found.st_mtime_ns)


def _is_whole(connection: sqlite3.Connection, head: Head) -> bool:
    return connection.execute("PRAGMA quick_check(1)").fetchone()[0] == b"ok" and head.is_in(connection)


def _id(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
