"""The SQL of the record table: how rows are spelled, checked when read, and erased.

Header and body each have a checksum, so that a record whose body was taken away is still whole. The body's is
chained to the header's: a body that stands in another record's place proves nothing.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import Any
from zlib import crc32

from tertulia.errors import StorageError
from tertulia.protocol.storage import Full, NoStorage, StoragePolicy, Ttl
from tertulia.rollout.sqlite.database import MAX_BODY_BYTES, MAX_HEADER_BYTES, transaction
from tertulia.rollout.sqlite.head import Head
from tertulia.rollout.store import (
    LASTING,
    STAYING_KINDS,
    STAYING_TYPES,
    LongBody,
    Row,
    StoredRow,
    SweepResult,
    TtlAction,
)

_CELLS = "(?,?,?,?,?,?,?,?,?,?,?,?,?)"
_INSERTS = [f"INSERT INTO record VALUES {','.join([_CELLS] * rows)}" for rows in range(1, 9)]
"""For so many records at once, and one more."""
_INSERT_LONG = f"INSERT INTO record VALUES {_CELLS[:-2]}zeroblob(?))"
_LONG_BODY_BYTES = 1024 * 1024
_PIECE_BYTES = 256 * 1024
_BRIEF_ROWS, _BRIEF_BYTES = len(_INSERTS), 64 * 1024
"""More is faster on a thread, which commits together what has come meanwhile."""
_Cells = tuple[Any, ...]
"""The values of one record, its body last."""
_PROOF = 9
"""Where the checksum of the header stands among them."""

# A length is known without reading the value. What has no length that we allow, or has expired, is not read.
_LASTING = "(expires IS NULL OR expires > ?3)"
SELECT = (
    f"SELECT n, kind, type, ts, seq, conversation, task, source, header_crc, CASE WHEN {_LASTING} THEN body_crc END,"
    f" CASE WHEN typeof(header) = 'blob' AND length(header) <= {MAX_HEADER_BYTES} THEN header END,"
    f" CASE WHEN typeof(body) = 'blob' AND length(body) <= {MAX_BODY_BYTES} AND {_LASTING} THEN body END"
    " FROM record WHERE n > ?1 AND n <= ?2 ORDER BY n"
)
FINISHED_TASKS = "CREATE TEMP TABLE IF NOT EXISTS finished (task INTEGER PRIMARY KEY)"
# Tasks that came to their end, and of which nothing is told but that, and how. A continuation ends a call that
# another task has begun, and is told.
FIND_FINISHED = (
    "INSERT OR IGNORE INTO temp.finished"
    " SELECT task FROM record WHERE type = 'task_complete' AND task > 0 AND typeof(task) = 'integer'"
    " AND NOT EXISTS (SELECT 1 FROM record WHERE kind = 'submitted')"
    " EXCEPT SELECT task FROM record WHERE kind = 'event' AND type NOT IN ('task_started', 'task_complete',"
    " 'user_message', 'agent_message', 'agent_reasoning', 'token_count') GROUP BY task"
    " HAVING sum(type = 'tool_call_begin') <> sum(type = 'tool_call_end')"
    " OR sum(type NOT IN ('tool_call_begin', 'tool_call_end'))"
)
HAS_PLANS = "SELECT EXISTS (SELECT 1 FROM record WHERE n > 0 AND kind = 'planned')"
"""Whether chains were written down that go on after a crash."""
ROOT_TERMS = (
    "SELECT max(n) FROM record WHERE n > 0 AND kind = 'terms'"
    " AND conversation = (SELECT min(n) FROM record WHERE n > 0 AND kind = 'conversation')"
)
"""The number of the newest terms of the root."""
TOKEN_COUNTS = (
    f"SELECT header FROM record WHERE n > 0 AND type = 'token_count' AND typeof(header) = 'blob'"
    f" AND length(header) <= {MAX_HEADER_BYTES}"
)
"""The headers that say what requests to models have used and cost."""
FINISHED = "SELECT conversation, count(*) FROM record WHERE type = 'task_complete' GROUP BY conversation"

_NOT_ECHOES = (
    "(kind = 'said' OR (kind <> 'asked' AND kind <> 'prompt' AND type <> 'agent_message' AND type <> 'agent_reasoning'"
    " AND type <> 'user_message' AND type <> 'token_count' AND (task = 0 OR task NOT IN temp.finished)))"
)
SELECT_BRIEFLY = SELECT.replace("ORDER BY", f"AND {_NOT_ECHOES} ORDER BY")
"""Without records that only repeat or measure what others say, and without tasks that are finished."""

_pack = Struct("<qdqqqq").pack
_NO_SEQ = -(2**63)
"""In the checksum of a record that is no event."""
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999

_ERASE_BODY = "UPDATE record SET body = NULL, body_crc = NULL WHERE body_crc IS NOT NULL AND "
_OF_CONVERSATION = "(conversation = ?1 OR n = ?1)"
_STAYS_AS_HEADER = f"(kind IN {STAYING_KINDS} OR type IN {STAYING_TYPES})"


def insert(connection: sqlite3.Connection, rows: Sequence[Row], head: Head) -> int:
    """Add records, all or none, in a transaction of their own; how many bytes they have.

    With what lasts longer than its text, the end of a task above all, the head of the file is brought up to date.
    """
    links: list[tuple[int, int]] = []
    cells: list[_Cells] = []
    long: list[Row] = []
    size, is_lasting = 0, False
    for row in rows:
        body = row.body
        if row.type in LASTING:
            is_lasting = True
        if body is None:
            size += len(row.header)
        elif isinstance(body, LongBody) or len(body) > _LONG_BODY_BYTES:
            long.append(row)
            links.append((row.n, _cells(row, None)[_PROOF]))
            continue
        else:
            size += len(row.header) + len(body)
        made = _cells(row, body)
        links.append((row.n, made[_PROOF]))
        cells.append(made)
    if not is_lasting and not long and len(cells) <= len(_INSERTS):
        # One statement is a transaction too, at half the price.
        _insert(connection, cells)
    else:
        with transaction(connection):
            _insert(connection, cells)
            # One after the other: each is encoded when it is written, and no two of them are in memory at once.
            size += sum(_insert_long(connection, row) for row in long)
            if is_lasting:
                head.write(connection, links)
    head.add(links, written=is_lasting)
    return size


def is_brief(rows: Sequence[Row]) -> bool:
    """Whether to add them takes less than a millisecond: few, short, and encoded already."""
    if len(rows) > _BRIEF_ROWS:
        return False
    size = 0
    for row in rows:
        body = row.body
        size += len(row.header)
        if body is not None:
            if isinstance(body, LongBody):
                return False
            size += len(body)
    return size <= _BRIEF_BYTES


def _cells(row: Row, body: bytes | None) -> _Cells:
    """StorageError for a record that is too large."""
    n, kind, type, ts, seq, header = row.n, row.kind, row.type, row.ts, row.seq, row.header
    conversation, task, source = row.conversation, row.task, row.source
    if len(header) > MAX_HEADER_BYTES or (body is not None and len(body) > MAX_BODY_BYTES):
        raise StorageError(
            f"a {kind} record is larger than {MAX_BODY_BYTES >> 20} MiB and cannot be stored", kind="size"
        )
    place = _pack(n, ts, _NO_SEQ if seq is None else seq, conversation, task, source)
    proof = crc32(header, crc32(place, _prove_name(kind, type)))
    return (
        n, kind, type, float(ts), seq, conversation, task, source, row.expires,
        proof, None if body is None else crc32(body, proof), header, body,
    )  # fmt: skip


def _insert(connection: sqlite3.Connection, cells: Sequence[_Cells]) -> None:
    if 0 < len(cells) <= len(_INSERTS):
        connection.execute(_INSERTS[len(cells) - 1], [*chain.from_iterable(cells)])
    else:
        connection.executemany(_INSERTS[0], cells)


def _insert_long(connection: sqlite3.Connection, row: Row) -> int:
    """One whose body may be long, which is then written in pieces: SQLite would make two copies of it. Its bytes."""
    body = row.stored_body
    cells = _cells(row, body)
    if body is None or len(body) <= _LONG_BODY_BYTES:
        _insert(connection, [cells])
        return len(row.header) + len(body or b"")
    connection.execute(_INSERT_LONG, (*cells[:-1], len(body)))
    view = memoryview(body)
    with connection.blobopen("record", "body", row.n) as stored:
        for start in range(0, len(body), _PIECE_BYTES):
            stored.write(view[start : start + _PIECE_BYTES])
    return len(row.header) + len(body)


@lru_cache(maxsize=256)
def _prove_name(kind: str, type: str) -> int:
    return crc32(f"{kind} {type}".encode())


def _prove(name: bytes, place: bytes, header: bytes) -> int:
    return crc32(header, crc32(place, crc32(name)))


def read_row(cells: Sequence[Any]) -> StoredRow:
    """A record as it was read. Cells can have any type: another program may have written them."""
    n, kind, type, ts, seq, conversation, task, source, header_crc, body_crc, header, body = cells
    try:
        # Not left to the checksum: a forged record may have a right one.
        place = _pack(n, ts, _NO_SEQ if seq is None else seq, conversation, task, source)
        proof = _prove(b"%b %b" % (kind, type), place, header)
        kind, type = str(kind, "utf-8"), str(type, "utf-8")
    except (StructError, TypeError, UnicodeDecodeError):
        return damaged_row(n)
    if proof != header_crc or not (isinstance(ts, float) and _EARLIEST <= ts <= _LATEST):
        return damaged_row(n)
    if body is None:
        return StoredRow(n, kind, type, ts, seq, conversation, task, header, None, body_crc is not None, source)
    if crc32(body, proof) != body_crc:
        return StoredRow(n, kind, type, ts, seq, conversation, task, header, None, True, source)
    return StoredRow(n, kind, type, ts, seq, conversation, task, header, body, False, source)


def damaged_row(n: int) -> StoredRow:
    """A record of which nothing is known but its place."""
    return StoredRow(n, "", "", 0.0, None, 0, 0, b"", None, True)


def count(connection: sqlite3.Connection) -> int:
    """How many records there are."""
    return connection.execute("SELECT count(*) FROM record WHERE n > 0").fetchone()[0]


def last_record(connection: sqlite3.Connection) -> tuple[Any, ...]:
    """How many records there are, and the number and checksum of the last one."""
    return connection.execute("SELECT count(*), max(n), header_crc FROM record").fetchone()


def reached(connection: sqlite3.Connection) -> int:
    """The number of the last event whose row stays whatever is erased: it never goes back. 0 for none."""
    lasting = f"SELECT seq FROM record WHERE type IN {LASTING} AND typeof(seq) = 'integer' ORDER BY n DESC LIMIT 1"
    found = connection.execute(lasting).fetchone()
    return 0 if found is None else found[0]


def latest_time(connection: sqlite3.Connection, now: float) -> float:
    """`now`, or the time of the newest record if that is later."""
    newest = connection.execute("SELECT max(ts) FROM record").fetchone()[0]
    return max(now, newest) if isinstance(newest, float) and math.isfinite(newest) else now


def erase(
    connection: sqlite3.Connection, conversation: int, policy: StoragePolicy, skeleton: Sequence[str], now: float
) -> int:
    """Take away what a stricter policy forbids of a conversation; how many records were touched.

    The record that named the conversation belongs to it, and stays.
    """
    if isinstance(policy, Full):
        return 0
    if isinstance(policy, Ttl):
        # Only what has a text: others point to rows without one, which a sweep must not take away whole.
        texts = f"{_OF_CONVERSATION} AND body_crc IS NOT NULL"
        shorter = f"UPDATE record SET expires = ts + ?2 WHERE {texts} AND (expires IS NULL OR expires > ts + ?2)"
        connection.execute(shorter, (conversation, policy.seconds))
        return connection.execute(f"{_ERASE_BODY}{_OF_CONVERSATION} AND expires <= ?2", (conversation, now)).rowcount
    touched = connection.execute(_ERASE_BODY + _OF_CONVERSATION, (conversation,)).rowcount
    if isinstance(policy, NoStorage):
        marks = ", ".join("?" * len(skeleton))
        gone = f"DELETE FROM record WHERE conversation = ? AND n <> conversation AND type NOT IN ({marks})"
        touched += connection.execute(gone, (conversation, *skeleton)).rowcount
    return touched


def expire(connection: sqlite3.Connection, now: float, action: TtlAction) -> SweepResult:
    """Take away what has expired by then."""
    due = next_due(connection, action)
    if due is None or due > now:
        return SweepResult(next_due=due)
    if action == "headers_only":
        bodies = connection.execute(_ERASE_BODY + "expires <= ?", (now,)).rowcount
        return SweepResult(bodies=bodies, next_due=next_due(connection, action))
    rows = connection.execute(f"DELETE FROM record WHERE expires <= ? AND NOT {_STAYS_AS_HEADER}", (now,)).rowcount
    bodies = connection.execute(_ERASE_BODY + "expires <= ?", (now,)).rowcount
    connection.execute("UPDATE record SET expires = NULL WHERE expires <= ?", (now,))
    return SweepResult(bodies=bodies, rows=rows, next_due=next_due(connection, action))


def preview_expire(connection: sqlite3.Connection, now: float, action: TtlAction) -> SweepResult:
    """What `expire` would take away, and nothing taken."""
    whole = "FALSE" if action == "headers_only" else f"NOT {_STAYS_AS_HEADER}"
    count = f"SELECT count(*) FILTER (WHERE {whole}), count(body_crc) FILTER (WHERE NOT {whole}) FROM record"
    rows, bodies = connection.execute(f"{count} WHERE expires <= ?", (now,)).fetchone()
    return SweepResult(bodies=bodies, rows=rows)


def count_bodies(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many bodies there are, and their bytes."""
    return connection.execute("SELECT count(body_crc), coalesce(sum(length(body)), 0) FROM record").fetchone()


def mark_erasing(connection: sqlite3.Connection) -> None:
    """Note that something is being erased: until `mark_erased` there may be remains of it in the file."""
    connection.execute(
        "INSERT OR IGNORE INTO record VALUES (-1, 'erasure', '', 0, NULL, 0, 0, 0, NULL, 0, NULL, '', NULL)"
    )


def mark_erased(connection: sqlite3.Connection) -> None:
    """Note that all of it is gone."""
    connection.execute("DELETE FROM record WHERE n = -1")


def is_erasing(connection: sqlite3.Connection) -> bool:
    """Whether an erasure was begun and not ended."""
    return connection.execute("SELECT 1 FROM record WHERE n = -1").fetchone() is not None


def erase_bodies(connection: sqlite3.Connection) -> int:
    """Take every body away; how many there were."""
    return connection.execute(_ERASE_BODY + "TRUE").rowcount


def next_due(connection: sqlite3.Connection, action: TtlAction) -> float | None:
    """When that action has something to do next."""
    only_bodies = "" if action == "delete" else " AND body_crc IS NOT NULL"
    due = connection.execute(f"SELECT min(expires) FROM record WHERE expires IS NOT NULL{only_bodies}").fetchone()[0]
    return due if isinstance(due, float) else None
