"""Every error names the file and the way out."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from tertulia.rollout.sqlite.error_text import explain
from tertulia.rollout.sqlite.session_files import FlushError
from tests.tables import each_row


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode = code
    return error


@each_row(
    ("error", "kind", "advice"),
    [
        (sqlite_error(sqlite3.SQLITE_FULL), "full", "make room"),
        (sqlite_error(sqlite3.SQLITE_IOERR_FSYNC), "flush", "nothing more is recorded"),
        (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), "io", "check it"),
        (sqlite_error(sqlite3.SQLITE_BUSY_RECOVERY), "busy", "close that program"),
        (sqlite_error(sqlite3.SQLITE_CORRUPT_INDEX), "damaged", "tertulia sessions rm"),
        (sqlite_error(sqlite3.SQLITE_NOTADB), "damaged", "backup"),
        (sqlite_error(sqlite3.SQLITE_READONLY_DBMOVED), "read_only", "TERTULIA_HOME"),
        (sqlite_error(sqlite3.SQLITE_CANTOPEN), "missing", "owner and mode"),
        (sqlite3.ProgrammingError("no code"), "io", "no code"),
        (OSError(errno.ENOSPC, "No space left"), "full", "make room"),
        (OSError(errno.EROFS, "Read-only"), "read_only", "TERTULIA_HOME"),
        (OSError(errno.EMFILE, "Too many"), "crowded", "ulimit"),
        (OSError("without a number"), "io", "without a number"),
        (FlushError(errno.ENOSPC, "No space left"), "flush", "resume"),
        (MemoryError(), "memory", "not enough memory; free some and go on"),
        (ValueError("embedded null"), "io", "embedded null"),
    ],
)
def test_what_went_wrong_is_said_in_one_sentence(error: Exception, kind: str, advice: str) -> None:
    """Issue 5, bad input: a clear error that names the file and what to do."""
    explained = explain(error, Path("/home/sessions/x.db"))
    assert explained.detail == {"file": "/home/sessions/x.db", "kind": kind}
    assert explained.message.startswith("/home/sessions/x.db: ")
    assert advice in explained.message
    assert ("(" in explained.message) == (isinstance(error, OSError) or kind == "io"), (
        "SQLite's words are ours elsewhere"
    )


def test_a_file_that_could_not_grow_is_a_full_disk_only_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L7: an injected EIO was told as "the disk is full"."""
    error = sqlite_error(sqlite3.SQLITE_IOERR_SHMSIZE)
    assert explain(error, tmp_path / "x.db").detail["kind"] == "io"
    assert explain(error, tmp_path / "missing" / "x.db").detail["kind"] == "io"
    # A disk that is really full would be full for every other test, too.
    real = os.statvfs(tmp_path)
    full = os.statvfs_result([0 if n == 4 else value for n, value in enumerate(real)])
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert full.f_bavail == 0
    assert explain(error, tmp_path / "x.db").detail["kind"] == "full"
    assert explain(sqlite_error(sqlite3.SQLITE_IOERR_WRITE), tmp_path / "x.db").detail["kind"] == "io"
    assert explain(OSError(errno.EIO, "Input/output error"), tmp_path / "x.db").detail["kind"] == "io"
