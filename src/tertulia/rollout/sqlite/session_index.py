"""The list of all sessions: `index.db`, a cache of numbers that may be deleted at any time.

No text of a conversation is ever in it: titles and previews are read from the sessions themselves (`summaries`). Of
where a session works it has a digest, as long as the path itself is stored. An entry holds as long as the files it was
read from have the same times and sizes.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.errors import NotFoundError, StorageError, TertuliaError
from tertulia.events.clock import SystemClock
from tertulia.protocol.storage import WireStorage, storage_from_wire, storage_to_wire
from tertulia.rollout.sqlite.database import close_reader, connect_reader
from tertulia.rollout.sqlite.error_text import STORAGE_EXCEPTIONS, error_kind, explain
from tertulia.rollout.sqlite.index_file import NAME, connect_index, forget_marks, put_marks
from tertulia.rollout.sqlite.ownership import Ownership, hold_unowned, is_in_use
from tertulia.rollout.sqlite.session_files import SessionFiles, is_session_id, session_files, sessions_folder
from tertulia.rollout.sqlite.snapshots import Snapshots
from tertulia.rollout.sqlite.table import reached

Stamp = tuple[int, int, int, int]
"""Time in nanoseconds and size, of the file and of its journal."""

_RACY_NS = 2_000_000_000
_NO_STAMP: Stamp = (0, 0, 0, 0)
_MAX_NAME = 200

_COUNT = """
SELECT sum(kind = 'conversation'), sum(kind = 'said'), sum(kind = 'event'), count(body_crc), min(ts), max(ts),
    min(CASE WHEN body_crc IS NOT NULL THEN expires END), min(expires), (SELECT count(*) FROM record WHERE n = -1),
    max(CASE WHEN type = 'session_configured' THEN n END),
    max(CASE WHEN kind = 'agreed' AND conversation = (
        SELECT conversation FROM record WHERE n > 0 AND kind = 'agreed' ORDER BY n LIMIT 1) THEN n END),
    max(CASE WHEN kind = 'terms' AND conversation = (
        SELECT n FROM record WHERE n > 0 AND kind = 'conversation' ORDER BY n LIMIT 1) THEN n END),
    sum(kind = 'planned' AND type = 'chain') - sum(kind = 'planned' AND type = 'answered')
FROM record WHERE n > 0
"""
"""In one pass; then the records that say which model, policy and directory the root has: the first that has any. Last,
how many chains were written down to go on after a crash and have no answer."""
_SPENT = """
SELECT sum(json_extract(CAST(header AS TEXT), '$.usage[4]')), sum(json_extract(CAST(header AS TEXT), '$.cost_usd')),
    sum(kind = 'agreed' AND json_extract(CAST(header AS TEXT), '$.storage') IS NOT 'full')
FROM record WHERE n > 0 AND (type = 'token_count' OR kind = 'agreed') AND json_valid(CAST(header AS TEXT))
"""
"""All tokens of all requests, what those with a known price cost, and whether a conversation keeps less than all."""
_HEADER = """
SELECT CASE WHEN typeof(header) = 'blob' AND length(header) < 65536 THEN header END FROM record WHERE n = ?1
"""
_TERMS = """
SELECT CASE WHEN typeof(body) = 'blob' AND length(body) < 1048576 THEN body END
FROM record WHERE n = ?1 AND (expires IS NULL OR expires > ?2)
"""


class SessionEntry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is known of a session without opening it."""

    id: str
    stamp: Stamp
    size: int
    """Bytes on the disk, the journal included."""
    created: float
    updated: float
    """The times of its first and last record; of the file, where there is none."""
    model: str | None = None
    storage: WireStorage | None = None
    """The policy of its first conversation."""
    conversations: int = 0
    items: int = 0
    events: int = 0
    bodies: int = 0
    """Records that still have their text."""
    due: float | None = None
    """When the first of these expires."""
    due_rows: float | None = None
    """When the first record expires, with or without text."""
    untidy: bool = False
    """Something was being erased when its owner died."""
    trouble: str | None = None
    """Why it cannot be read."""
    reached: int = 0
    """The number of its last answer, or beginning."""
    purpose: str | None = None
    """What it serves, where it is no session of a person."""
    directory_key: str | None = None
    """Where its root works, as `directory_key` makes it; None where that is not stored."""
    tokens: int = 0
    """Of all requests to models."""
    cost_usd: float | None = None
    """Of the requests whose price is known."""
    keeps_less: bool = False
    """Whether a conversation of it stores less than everything, or did once."""
    cut_chains: int = 0
    """How many messages have no answer and go on after a crash: they run, or a crash cut them."""

    def works_elsewhere(self, directory: str) -> bool:
        """Whether its root is known to work in another directory."""
        return self.directory_key is not None and self.directory_key != directory_key(self.id, directory)


def directory_key(session_id: str, directory: str) -> str:
    """A digest that tells whether a session works in a directory: no path is in the index.

    Keyed with the session's own random id: the same directory has another digest in every session.
    """
    path = directory.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(path, digest_size=16, key=session_id.encode()[:64]).hexdigest()


Progress = Callable[[int, int], None]
"""Is told now and then how many are done, and of how many."""


def no_progress(done: int, total: int) -> None:
    """For work that no person watches."""


def list_sessions(home: Path, limit: int | None = None, progress: Progress = no_progress) -> list[SessionEntry]:
    """Sessions, the one with the newest record first. Never fails for one that cannot be read: that one says so."""
    return sorted(refresh(home, progress).values(), key=lambda entry: entry.updated, reverse=True)[:limit]


def latest_session(home: Path, directory: str | None = None) -> SessionEntry | None:
    """The session of a person with the newest record; one that is known to work elsewhere only where no other is."""
    candidates = [entry for entry in list_sessions(home) if entry.trouble is None and entry.purpose is None]
    here = (entry for entry in candidates if directory is not None and not entry.works_elsewhere(directory))
    return next(here, next(iter(candidates), None))


def find_session(home: Path, session_id: str) -> SessionEntry:
    """One session, read now. InvalidParams for what is no id, NotFound for what is not there."""
    files = session_files(home, session_id)
    try:
        stamp = _stamp(os.lstat(files.db), _lstat(files.wal))
    except FileNotFoundError:
        raise NotFoundError(
            f"there is no session {session_id} in {sessions_folder(home)}", session_id=session_id
        ) from None
    with closing(Snapshots()) as snapshots:
        return _read(files, stamp, snapshots)


def remove_session(home: Path, session_id: str) -> None:
    """Delete all of a session. NotFoundError where there is none, BusyError where a process owns it."""
    files = find_files(home, session_id)
    try:
        remove_files(files)
    except OSError as error:
        raise explain(error, files.db) from error


def find_files(home: Path, session_id: str) -> SessionFiles:
    """The files of a session that is there; else NotFound."""
    files = session_files(home, session_id)
    if not files.db.exists():
        raise NotFoundError(f"there is no session {session_id} in {sessions_folder(home)}", session_id=session_id)
    return files


def remove_files(files: SessionFiles) -> None:
    """Delete all files of a session. BusyError where a process owns it."""
    owner = Ownership.take(files)
    try:
        # The journal goes first: without its database the texts in it would not be found.
        for path in (files.wal, files.shm, files.unborn, files.db):
            path.unlink(missing_ok=True)
    finally:
        owner.release()


def refresh(home: Path, progress: Progress = no_progress) -> dict[str, SessionEntry]:
    """Every session of a home, by id. Reads only those that have changed since the last look."""
    found = _scan(home)
    if not found:
        return {}
    index = sessions_folder(home) / NAME
    known = _load(index)
    entries: dict[str, SessionEntry] = {}
    changed: list[SessionEntry] = []
    with closing(Snapshots()) as snapshots:
        for session_id, stamp in found.items():
            entry = known.get(session_id)
            if entry is None or entry.stamp != stamp:
                entry = _read(SessionFiles(home, session_id), stamp, snapshots)
                changed.append(entry)
                progress(len(entries), len(found))
            entries[session_id] = entry
    gone = known.keys() - found.keys()
    if changed or gone:
        _save(index, changed, gone)
    return entries


# ── looking at files ─────────────────────────────────────────────────────────────────────────────────────────────────


def _scan(home: Path) -> dict[str, Stamp]:
    files: dict[str, os.stat_result] = {}
    journals: dict[str, os.stat_result] = {}
    with suppress(FileNotFoundError), os.scandir(sessions_folder(home)) as folder:
        for entry in folder:
            name, _, ending = entry.name.partition(".")
            stats = files if ending == "db" else journals if ending == "db-wal" else None
            if stats is not None and is_session_id(name) and entry.is_file(follow_symlinks=False):
                # Gone since the folder was read? Then it is not there.
                with suppress(FileNotFoundError):
                    stats[name] = entry.stat(follow_symlinks=False)
    return {name: _stamp(seen, journals.get(name)) for name, seen in files.items()}


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _stamp(file: os.stat_result, journal: os.stat_result | None) -> Stamp:
    # An empty journal is as good as none: readers leave them behind.
    if journal is None or not journal.st_size:
        return (file.st_mtime_ns, file.st_size, 0, 0)
    return (file.st_mtime_ns, file.st_size, journal.st_mtime_ns, journal.st_size)


def _read(files: SessionFiles, stamp: Stamp, snapshots: Snapshots) -> SessionEntry:
    blank = SessionEntry(files.session_id, stamp, stamp[1] + stamp[3], stamp[0] / 1e9, max(stamp[0], stamp[2]) / 1e9)
    try:
        return _look(files, blank, snapshots)
    except StorageError as error:
        return replace(blank, trouble=error.message)
    except STORAGE_EXCEPTIONS as error:
        return replace(blank, trouble=explain(error, files.db).message)


def _look(files: SessionFiles, blank: SessionEntry, snapshots: Snapshots) -> SessionEntry:
    with hold_unowned(files) as free:
        if free:
            with snapshots.look(files.name(".db")) as connection:
                entry = _summed(connection, blank)
            # Other processes may have come meanwhile; then what was seen may be anything.
            if not is_in_use(files):
                return entry
    connection = connect_reader(files.db)
    try:
        return _summed(connection, blank)
    finally:
        close_reader(connection, files.db)


def _summed(connection: sqlite3.Connection, blank: SessionEntry) -> SessionEntry:
    cells = connection.execute(_COUNT).fetchone()
    conversations, items, events, bodies, first, last, due, due_rows, untidy, configured_n, agreed_n, terms_n, cut = (
        cells
    )
    tokens, cost_usd, strict = connection.execute(_SPENT).fetchone()
    configured = _header(connection, configured_n)
    return replace(
        blank,
        created=first if isinstance(first, float) else blank.created,
        updated=last if isinstance(last, float) else blank.updated,
        model=_name(configured.get("model")),
        storage=_policy(_header(connection, agreed_n).get("storage")),
        conversations=conversations or 0,
        items=items or 0,
        events=events or 0,
        bodies=bodies,
        due=due if isinstance(due, float) else None,
        due_rows=due_rows if isinstance(due_rows, float) else None,
        untidy=bool(untidy),
        reached=reached(connection),
        purpose=_name(configured.get("purpose")),
        directory_key=_directory_key(connection, terms_n, blank.id),
        tokens=tokens if isinstance(tokens, int) else 0,
        cost_usd=cost_usd if isinstance(cost_usd, float) else None,
        keeps_less=bool(strict),
        cut_chains=cut if isinstance(cut, int) else 0,
    )


def _directory_key(connection: sqlite3.Connection, n: int | None, session_id: str) -> str | None:
    directory = _object(connection.execute(_TERMS, (n, SystemClock().now())).fetchone()).get("cwd")
    return directory_key(session_id, directory) if isinstance(directory, str) else None


def _header(connection: sqlite3.Connection, n: int | None) -> Mapping[str, Any]:
    return _object(connection.execute(_HEADER, (n,)).fetchone())


def _object(found: tuple[bytes | None] | None) -> Mapping[str, Any]:
    """The JSON object in the one cell of a row; an empty one where there is none."""
    try:
        return msgspec.json.decode(found[0], type=dict[str, Any]) if found and found[0] else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= _MAX_NAME else None


def _policy(value: object) -> WireStorage | None:
    try:
        return storage_to_wire(storage_from_wire(value))
    except TertuliaError:
        return None


# ── the cache ────────────────────────────────────────────────────────────────────────────────────────────────────────

_decode = msgspec.json.Decoder(SessionEntry).decode
_encode = msgspec.json.Encoder().encode


def _load(index: Path) -> dict[str, SessionEntry]:
    try:
        with closing(connect_index(index)) as connection:
            cells = connection.execute("SELECT entry FROM entry").fetchall()
        return {entry.id: entry for entry in [_decode(cell) for (cell,) in cells]}
    except (*STORAGE_EXCEPTIONS, TypeError) as error:
        if error_kind(error) != "busy":
            # Whatever it is, it is only a cache.
            with suppress(OSError):
                index.unlink()
        return {}


def _save(index: Path, changed: Collection[SessionEntry], gone: Collection[str]) -> None:
    # Another process writes it, or the disk cannot be written: then the next look reads more.
    with suppress(*STORAGE_EXCEPTIONS), closing(connect_index(index)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("DELETE FROM entry WHERE id = ?", [(name,) for name in gone])
        rows = [(new.id, _encode(_lasting(new))) for new in changed]
        connection.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?)", rows)
        forget_marks(connection, gone)
        put_marks(connection, [(new.id, new.reached) for new in changed])
        connection.execute("COMMIT")


def _lasting(entry: SessionEntry) -> SessionEntry:
    """A file that is this young may change again without looking different: it will be read again."""
    young = SystemClock().now() * 1e9 - max(entry.stamp[0], entry.stamp[2]) < _RACY_NS
    return replace(entry, stamp=_NO_STAMP) if young else entry
