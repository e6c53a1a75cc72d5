"""The SQL schema of a session's file, by version, and how a version is recognised.

A file is believed only if its schema is, word for word, that of a released version: a crafted one could hold triggers
and views that run when it is read.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tertulia.errors import StorageError
from tertulia.rollout.sqlite.head import blank_head

VERSION = 2
"""What is written. Every version below can still be read."""

APPLICATION_ID = 0x74727475
"""`trtu`; `file` and others read it."""

PAGE_BYTES = 8192
"""Less is lost between records of 1 KB than in pages of 4096, and a commit costs the same."""

_WAL_FORM = b"\x02\x02"

# Small columns come first: a query for them alone never reads the pages that hold long texts. One table and no
# index, because each costs a page, and most sessions are short. Records have an n above 0.
_RECORD = (
    "CREATE TABLE record (n INTEGER PRIMARY KEY, kind TEXT NOT NULL, type TEXT NOT NULL, ts REAL NOT NULL, "
    "seq INTEGER, talk INTEGER NOT NULL, scope INTEGER NOT NULL, expires REAL, header_crc INTEGER NOT NULL, "
    "body_crc INTEGER, header BLOB NOT NULL, body BLOB)"
)
# The second version has a head (see `head`), and no other form. A file of the first becomes one with its next answer.
SCHEMAS = {1: (_RECORD,), 2: (_RECORD,)}


def blank() -> bytes:
    """The bytes of a file without records. Written whole and renamed: there is never half a schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for statement in SCHEMAS[VERSION]:
            connection.execute(statement)
        connection.execute(*blank_head())
        content = connection.serialize()
    return content[:18] + _WAL_FORM + content[20:]


def check_schema(connection: sqlite3.Connection, file: Path) -> int:
    """Its version. StorageError for a newer one, and for what is no session's file."""
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise StorageError(f"{file} is not a session's record; move it away", file=str(file), kind="unknown")
    if version > VERSION:
        raise StorageError(
            f"{file} was made by a newer version of Tertulia (format {version}, this one knows {VERSION}); upgrade",
            file=str(file),
            kind="version",
        )
    found = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL LIMIT 10").fetchall()
    if {_text(sql) for (sql,) in found} != set(SCHEMAS.get(version, ())):
        raise StorageError(
            f"{file} has no format that a version of Tertulia wrote; move it away", file=str(file), kind="unknown"
        )
    return version


def _text(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
