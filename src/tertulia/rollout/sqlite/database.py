"""Opens the SQLite file of a session, as its owner, as a reader, or for a short look; its SQL schema, by version; and
how long its journal is.

A file is trusted only if its schema is, word for word, that of a released version: a crafted one could hold triggers
and views that run when it is read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from struct import Struct

from tertulia.errors import StorageError
from tertulia.rollout.sqlite.head import blank_head
from tertulia.rollout.sqlite.session_files import refuse_link

MAX_HEADER_BYTES = 16 * 1024 * 1024
MAX_BODY_BYTES = 256 * 1024 * 1024
"""What is larger is not written, and not read into memory either."""

PATIENCE_S = 5.0
"""How long a lock of another program is waited for."""

_MAX_STATEMENT = 10_000
_GUARDS = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0"

VERSION = 3
"""The format of the file. No other is read."""

APPLICATION_ID = 0x74727475
"""`trtu`; `file` and others read it."""

PAGE_BYTES = 8192
"""Less is lost between records of 1 KB than in pages of 4096, and a commit costs the same."""

GROWN_BYTES = 4 * 1024 * 1024
"""After so many more bytes it is moved into the file."""
_COMMIT_BYTES = 2 * PAGE_BYTES
"""Bytes that a commit adds to the journal besides its records: pages are written whole."""
_LEAST_ROOM, _MOST_ROOM = 64 * 1024, 512 * 1024
"""By how much a journal that is flushed with every commit is lengthened at once: as much as it has, between these."""

_WAL_FORM = b"\x02\x02"
_NAMED_AT, _NAMED = 60, Struct(">iIi")
"""Where version and application stand in a file, and how."""

# Small columns come first: a query for them alone never reads the pages that hold long texts. One table and no
# index, because each costs a page, and most sessions are short. Records have an n above 0.
SCHEMA = (
    "CREATE TABLE record (n INTEGER PRIMARY KEY, kind TEXT NOT NULL, type TEXT NOT NULL, ts REAL NOT NULL, "
    "seq INTEGER, conversation INTEGER NOT NULL, task INTEGER NOT NULL, source INTEGER NOT NULL, expires REAL, "
    "header_crc INTEGER NOT NULL, body_crc INTEGER, header BLOB NOT NULL, body BLOB)"
)


def connect_owner(file: Path, *, durable: bool, is_known: bool = False) -> sqlite3.Connection:
    """Open an existing file for writing. StorageError for another version of the format, sqlite3.Error for the rest.

    `is_known`: it was checked before, and has not changed since.
    """
    connection = _connect(file, "mode=rw")
    try:
        # The writer empties the journal and sees its errors; SQLite's own checkpoint hides them.
        connection.executescript(
            f"PRAGMA secure_delete = ON; PRAGMA synchronous = {'FULL' if durable else 'NORMAL'};"
            "PRAGMA wal_autocheckpoint = 0"
        )
        if not is_known:
            check_schema(connection, file)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(file: Path) -> sqlite3.Connection:
    """For reading, also while its owner writes. Raises like `connect_owner`."""
    try:
        return _checked(_connect(file, "mode=ro"), file)
    except sqlite3.OperationalError:
        # Without a journal there is nothing to wait for, and where none can be made SQLite needs to know that.
        if not _unchanging(file):
            raise
        return _checked(_connect(file, "mode=ro&immutable=1"), file)


def close_reader(connection: sqlite3.Connection, file: Path) -> None:
    """Close a reader's connection, and take away the empty journal that it may have made."""
    connection.close()
    with suppress(OSError, sqlite3.Error, StorageError):
        if os.lstat(f"{file}-wal").st_size == 0:
            # A reader may not remove it. A writer removes it when it closes, unless another process has the file open.
            with closing(_connect(file, "mode=rw")) as last:
                last.execute("SELECT 1 FROM sqlite_schema").fetchone()


def close_and_keep_journal(connection: sqlite3.Connection, file: Path) -> None:
    """Close an owner's connection, and leave its journal as it is: to move it into the file means to wait for the disk.

    Raises like `connect_reader`, and leaves the connection open then.
    """
    # SQLite moves the journal when the last connection closes, unless that may only read.
    with closing(_connect(file, "mode=ro")) as last:
        last.execute("SELECT 1 FROM sqlite_schema").fetchone()
        connection.close()


def connect_snapshot(file: Path) -> sqlite3.Connection:
    """For a short look at a file that no process has open: leaves no trace beside it.

    The caller makes sure of that, before and after.
    """
    return _checked(_connect(file, "mode=ro&immutable=1"), file)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """All or none of what is done within it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def _checked(connection: sqlite3.Connection, file: Path) -> sqlite3.Connection:
    try:
        check_schema(connection, file)
    except BaseException:
        close_reader(connection, file)
        raise
    return connection


def connect_memory() -> sqlite3.Connection:
    """Without a file: for the bytes of one (`Connection.deserialize`)."""
    return _guarded(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))


def _connect(file: Path, how: str) -> sqlite3.Connection:
    # SQLite would follow a link, and put its journal beside what that points to.
    refuse_link(file)
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?{how}",
        uri=True,
        isolation_level=None,
        timeout=PATIENCE_S,
        check_same_thread=False,
    )
    return _guarded(connection)


def _guarded(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Let nothing in a file do more than be read, nor be larger than what is written."""
    connection.text_factory = bytes
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_HEADER_BYTES + MAX_BODY_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_STATEMENT)
    connection.executescript(_GUARDS)
    return connection


def _unchanging(file: Path) -> bool:
    with suppress(FileNotFoundError):
        if os.lstat(f"{file}-wal").st_size:
            return False
    return file.is_file() and bool(os.statvfs(file.parent).f_flag & os.ST_RDONLY)


# ---- the schema


def blank() -> bytes:
    """The bytes of a file without records. Written whole and renamed: there is never half a schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute(SCHEMA)
        connection.execute(*blank_head())
        content = connection.serialize()
    return content[:18] + _WAL_FORM + content[20:]


def check_schema(connection: sqlite3.Connection, file: Path | str, named: tuple[int, int] | None = None) -> None:
    """Raise StorageError for another version of the format, and for what is no session's file.

    Args:
        connection: The opened file.
        file: Its path.
        named: Its `format_of`, where that is known.
    """
    application, version = named or (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise StorageError(f"{file} is not a session's record; move it away", file=str(file), kind="unknown")
    if version != VERSION:
        raise _another_version(file, version)
    found = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL LIMIT 10").fetchall()
    if [_text(sql) for (sql,) in found] != [SCHEMA]:
        raise StorageError(
            f"{file} has no format that a version of Tertulia wrote; move it away", file=str(file), kind="unknown"
        )


def _another_version(file: Path | str, version: int) -> StorageError:
    made = f"{file} was made by a newer version of Tertulia (format {version}, this one reads {VERSION}); upgrade"
    if version < VERSION:
        made = (
            f"{file} was made by a version of Tertulia before its first release (format {version}, this one reads "
            f"{VERSION}); move it away, or read it with the version that wrote it"
        )
    return StorageError(made, file=str(file), kind="version", format=version)


def format_of(content: memoryview) -> tuple[int, int]:
    """The application and the version that the first bytes of a file name."""
    version, _, application = _NAMED.unpack_from(content, _NAMED_AT)
    return application, version


def _text(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


# ---- the journal


class JournalSize:
    """The estimated size, at most: asking the disk after every commit would cost a tenth of a commit."""

    __slots__ = ("_durable", "_room", "_size", "checkpoint_at", "is_begun")

    def __init__(self, *, durable: bool) -> None:
        self._durable = durable
        self._size = 0
        self._room = 0
        """How long it was made for commits to come; less than it has where none was made."""
        self.checkpoint_at = GROWN_BYTES
        self.is_begun = False
        """Whether the next commit does no more than to add to it. The first one in an empty journal does more."""

    @property
    def only_grows(self) -> bool:
        """Whether the next commit only adds, to a journal that has room for it."""
        return self.is_begun and self._size < self.checkpoint_at and not self.wanted_room

    @property
    def wanted_room(self) -> int:
        """By how much to lengthen it before the next commit, so that flushing it is quick; 0: not at all."""
        if not self._durable or self._size + _COMMIT_BYTES <= self._room:
            return 0
        return min(max(_LEAST_ROOM, self._size), _MOST_ROOM)

    @property
    def is_grown(self) -> bool:
        """Whether it is to be moved into the file."""
        return self._size >= self.checkpoint_at

    def lengthened(self, size: int) -> None:
        """Note how long it was made for what is to come."""
        self._room = size

    def add(self, records: int) -> None:
        """Count the commit of so many bytes of records."""
        self._size += records + _COMMIT_BYTES

    def measured(self, size: int) -> None:
        """Note how long it really is."""
        self._size = size

    def emptied(self) -> None:
        """It was, or may have been, moved into the file: the next commit may be the first one in it."""
        self.is_begun, self._room = False, 0

    def checkpointed(self, size: int) -> None:
        """It was tried to move it; so much is left."""
        self._size, self._room = size, 0
        self.checkpoint_at = size + GROWN_BYTES
