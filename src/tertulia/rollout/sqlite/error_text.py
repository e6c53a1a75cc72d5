"""Turns an error with a file into one sentence that names the file and what to do."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from tertulia.errors import StorageError
from tertulia.rollout.sqlite.session_files import FlushError, processes_with_file_open

STORAGE_EXCEPTIONS = (sqlite3.Error, sqlite3.Warning, OSError, MemoryError, OverflowError, ValueError)
"""All that SQLite and the file system are known to raise."""

_IN_WORDS = {
    "full": "the disk is full; make room and go on",
    "flush": "the disk failed to save it, so nothing more is recorded there; check the disk, then resume the session",
    "read_only": "it cannot be written; make it writable, or choose another place with TERTULIA_HOME",
    "busy": "another program keeps it locked; close that program and try again",
    "damaged": "it is damaged; restore it from a backup, or remove it with `tertulia sessions rm`",
    "missing": "it is not there, or may not be opened; see its name, owner and mode",
    "not_a_folder": "a file stands where a directory is needed; move it, or choose another place with TERTULIA_HOME",
    "crowded": "too many files are open; close some, or raise the limit (`ulimit -n`)",
    "memory": "there is not enough memory; free some and go on",
    "io": "the disk reports an error; check it, then try again",
}

_BY_CODE = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_IOERR_FSYNC: "flush",
    sqlite3.SQLITE_IOERR_DIR_FSYNC: "flush",
    sqlite3.SQLITE_IOERR_NOMEM: "memory",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "damaged",
    sqlite3.SQLITE_TOOBIG: "damaged",
    sqlite3.SQLITE_CANTOPEN: "missing",
    sqlite3.SQLITE_NOMEM: "memory",
}

_BY_ERRNO = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EROFS: "read_only",
    errno.EACCES: "read_only",
    errno.EPERM: "read_only",
    errno.EMFILE: "crowded",
    errno.ENFILE: "crowded",
    errno.ENOMEM: "memory",
    errno.ENOENT: "missing",
    errno.ELOOP: "missing",
    errno.ENOTDIR: "not_a_folder",
    errno.EEXIST: "not_a_folder",
}


def explain(error: Exception, file: Path) -> StorageError:
    """The same as a StorageError, whose detail has a `kind`: one of the words above."""
    kind = error_kind(error)
    if _code(error) == sqlite3.SQLITE_IOERR_SHMSIZE and _is_full(file):
        # SQLite does not tell why it could not lengthen the file beside it: a full disk is only one of the reasons.
        kind = "full"
    return StorageError(f"{file}: {_IN_WORDS[kind]}{_detail(error, kind)}", file=str(file), kind=kind)


def still_read_error(file: Path) -> StorageError:
    """The error where an erased text stays in the journal because another program reads the file."""
    readers = [str(pid) for pid in processes_with_file_open(file)]
    who = f"process {' and '.join(readers)}" if readers else "another program"
    return StorageError(
        f"{file}: what was erased still stands in its journal, because {who} reads the file; end that program, and the "
        "next sweep takes it away (`tertulia sessions sweep`, or that of the running session)",
        file=str(file),
        kind="busy",
        readers=readers,
    )


def _detail(error: Exception, kind: str) -> str:
    """What the system said, in brackets; of SQLite's words only those for which there are none of ours."""
    if isinstance(error, OSError) and error.strerror:
        return f" ({error.strerror})"
    # It names no text of a conversation: values are bound, never spelled.
    return f" ({error})" if kind == "io" else ""


def error_kind(error: Exception) -> str:
    """The kind of an error, one of the words above."""
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, FlushError):
        return "flush"
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0, "io")
    code = _code(error)
    return _BY_CODE.get(code) or _BY_CODE.get(code & 0xFF, "io")


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0)


def _is_full(file: Path) -> bool:
    try:
        return os.statvfs(file.parent).f_bavail == 0
    except OSError:
        return False
