"""The file of the index, `index.db`: opened to list sessions, and by owners to mark how far theirs has come.

A mark is the number of a session's last answer. It only ever grows, whatever a policy erases, and stands outside of the
session's own file: an older copy of that file, put in its place, is proved by its own head, but not by its mark (R2).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from tertulia.errors import StorageError
from tertulia.rollout.sqlite.error_text import STORAGE_EXCEPTIONS
from tertulia.rollout.sqlite.session_files import create_private, refuse_link

NAME = "index.db"
_FORM = 4
_WAIT_S = 0.2


def connect_index(index: Path) -> sqlite3.Connection:
    """For reading and writing; made where there is none. Raises sqlite3.Error or OSError."""
    with suppress(FileExistsError):
        create_private(index, b"")
    if index.is_symlink():
        raise OSError(f"{index} is a link")
    connection = sqlite3.connect(index, isolation_level=None, timeout=_WAIT_S)
    try:
        _hurry(connection)
        connection.execute("PRAGMA temp_store = MEMORY")
        if connection.execute("PRAGMA user_version").fetchone()[0] != _FORM:
            connection.executescript(
                f"""
                BEGIN IMMEDIATE;
                DROP TABLE IF EXISTS entry;
                CREATE TABLE entry (id TEXT PRIMARY KEY, entry BLOB) WITHOUT ROWID;
                CREATE TABLE IF NOT EXISTS mark (id TEXT PRIMARY KEY, reached INTEGER) WITHOUT ROWID;
                PRAGMA user_version = {_FORM};
                COMMIT;
                """
            )
    except BaseException:
        connection.close()
        raise
    return connection


def put_marks(connection: sqlite3.Connection, marks: Iterable[tuple[str, int]]) -> None:
    """Write down how far each of these sessions has come at least."""
    larger = "ON CONFLICT DO UPDATE SET reached = max(reached, excluded.reached)"
    connection.executemany(f"INSERT INTO mark VALUES (?, ?) {larger}", marks)


def forget_marks(connection: sqlite3.Connection, sessions: Iterable[str]) -> None:
    """Remove the marks of sessions that are gone."""
    connection.executemany("DELETE FROM mark WHERE id = ?", [(session_id,) for session_id in sessions])


def note_mark(file: Path, reached: int) -> None:
    """The owner of a session's file says how far it has come. Without an index, or on a full disk, it is not known."""
    with suppress(*STORAGE_EXCEPTIONS, StorageError), closing(_beside(file, "rw")) as connection:
        _hurry(connection)
        put_marks(connection, [(file.stem, reached)])


def mark_of(file: Path) -> int:
    """How far the session in that file is known to have come; 0: nothing is known."""
    with suppress(*STORAGE_EXCEPTIONS, StorageError), closing(_beside(file, "ro")) as connection:
        found = connection.execute("SELECT reached FROM mark WHERE id = ?", (file.stem,)).fetchone()
        return found[0] if found and isinstance(found[0], int) else 0
    return 0


def _beside(file: Path, mode: str) -> sqlite3.Connection:
    """The index beside a session's file; it is not made for this."""
    index = file.with_name(NAME)
    refuse_link(index)
    return sqlite3.connect(f"{index.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=_WAIT_S)


def _hurry(connection: sqlite3.Connection) -> None:
    # Nothing in it is worth waiting for the disk, nor a journal that could be left behind.
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
