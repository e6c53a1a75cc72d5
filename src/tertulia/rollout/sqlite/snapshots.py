"""Short looks at many session files, one after the other, through one connection.

To open and close a connection for each takes longer than all that is asked of it. So a small file is read whole, and
its bytes are given to a connection that has no file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from tertulia.rollout.sqlite.database import check_schema, connect_memory, connect_snapshot, format_of

_LEAST_BYTES = 512
_SMALL_BYTES = 1024 * 1024
_NAME = b"SQLite format 3\0"
_WITHOUT_JOURNAL = b"\x01\x01"


class Snapshots:
    """Used by one thread at a time. No process may have open what is looked at: the caller makes sure of that."""

    __slots__ = ("_buffer", "_connection")

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._buffer = memoryview(b"")

    @contextmanager
    def look(self, file: str) -> Generator[sqlite3.Connection]:
        """A connection to read a file with, until the next one is looked at. Raises like `connect_reader`."""
        content = self._read(file)
        if content is None:
            with closing(connect_snapshot(Path(file))) as connection:
                yield connection
            return
        if self._connection is None:
            self._connection = connect_memory()
        try:
            self._connection.deserialize(content)
            check_schema(self._connection, file, format_of(content))
            yield self._connection
        except BaseException:
            # What is left of a damaged file must not reach the next.
            self.close()
            raise

    def close(self) -> None:
        """Idempotent; the next look begins anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, file: str) -> memoryview | None:
        """The bytes of a small file that can be a database; None: let SQLite look at it."""
        try:
            fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not self._buffer:
                self._buffer = memoryview(bytearray(_SMALL_BYTES + 1))
            size = os.readv(fd, [self._buffer])
        except OSError:
            return None
        finally:
            os.close(fd)
        if not _LEAST_BYTES <= size <= _SMALL_BYTES or bytes(self._buffer[: len(_NAME)]) != _NAME:
            return None
        # Where a file says that it has a journal, SQLite wants to see it.
        self._buffer[18:20] = _WITHOUT_JOURNAL
        return self._buffer[:size]
