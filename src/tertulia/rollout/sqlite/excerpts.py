"""Reads parts of a record: its last events, those before or after a number, its headers. Never all of it.

An excerpt has the rows that are wanted and the earlier rows that they refer to, so a `RowReader` makes of it what it
makes of the whole record. There is no index for this: a scan of small columns takes microseconds for a hundred rows.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from tertulia.rollout.sqlite.database import MAX_HEADER_BYTES
from tertulia.rollout.sqlite.error_text import STORAGE_EXCEPTIONS, explain
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.table import SELECT, read_row
from tertulia.rollout.store import StoredRow

MAX_BYTES = 8 * 1024 * 1024
"""Of the texts of one excerpt. The first row that is wanted is read, however long it is."""
_DEPTH = 4
"""An event refers to an item, that to the same item as it was queued or ended, and that to its call."""
_END = 2**63 - 1

_SELECT_THESE = SELECT.replace("n > ?1 AND n <= ?2", "n IN (SELECT value FROM json_each(?1)) AND n > ?2")
_HEADER = f"CASE WHEN typeof(header) = 'blob' AND length(header) <= {MAX_HEADER_BYTES} THEN header END"
_HEADERS = (
    f"SELECT n, kind, type, ts, seq, conversation, task, source, header_crc, NULL, {_HEADER}, NULL FROM record"
    " WHERE n > ?1 AND (kind IN (SELECT value FROM json_each(?2)) OR type IN (SELECT value FROM json_each(?3)))"
    " ORDER BY n"
)
_COPIES = "CREATE TEMP TABLE IF NOT EXISTS copied (n INTEGER PRIMARY KEY)"
# Lives of the session, and where its conversations were opened: all that has to be known before events can be found.
_PLACES = (
    "SELECT n, conversation, kind = 'session' FROM record"
    " WHERE n > 0 AND (kind = 'session' OR (type = 'conversation_opened' AND kind = 'event')) ORDER BY n"
)
# Items before their conversation was opened: a fork has them from its original, and they have no events.
_FIND_COPIES = (
    "INSERT OR IGNORE INTO temp.copied SELECT record.n FROM record JOIN (SELECT conversation, min(n) AS opened"
    " FROM record WHERE n <= ?1 AND kind = 'event' AND type = 'conversation_opened' GROUP BY conversation) AS first"
    " ON first.conversation = record.conversation"
    " WHERE record.kind = 'said' AND record.n > 0 AND record.n < first.opened AND record.n < ?1"
)
# Messages of records that were made before there were events of them: those before the first one that has one.
_FIRST_TOLD = "SELECT n, source FROM record WHERE n > 0 AND kind = 'event' AND type = 'user_message' ORDER BY n LIMIT 1"
_FIND_UNTOLD = (
    "SELECT n FROM record WHERE n > 0 AND n < ?1 AND n <> ?2 AND kind = 'said' AND type = 'user'"
    " AND NOT coalesce(instr(header, CAST('\"injected\":true' AS BLOB)), 0) AND n NOT IN temp.copied"
)
_ADD_COPIES = "INSERT OR IGNORE INTO temp.copied VALUES (?)"
_EVENT = "SELECT max(n) FROM record WHERE n > 0 AND kind = 'event' AND seq = ?1"
_NUMBERS = (
    "SELECT n, coalesce(length(body), 0)"
    " + coalesce((SELECT length(body) FROM record AS source WHERE source.n = record.source), 0)"
    " FROM record WHERE n > ?1 AND n < ?2 AND (kind = 'event' OR n IN temp.copied)"
    " AND (?3 IS NULL OR conversation = ?3) ORDER BY n {} LIMIT ?4"
)
_FORWARD, _BACKWARD = _NUMBERS.format("ASC"), _NUMBERS.format("DESC")
_NAMES = f"SELECT conversation, {_HEADER} FROM record WHERE n > 0 AND kind IN ('conversation', 'agreed') ORDER BY n"
_FIRST_CONVERSATION = (
    "SELECT conversation FROM (SELECT conversation FROM record WHERE n > 0 AND kind IN ('conversation', 'agreed')"
    " ORDER BY n LIMIT 1) UNION ALL SELECT NULL LIMIT 1"
)
_EXPIRING = "SELECT n FROM record WHERE n IN (SELECT value FROM json_each(?1)) AND expires IS NOT NULL"
_NEWEST = "SELECT max(n) FROM record WHERE n > 0 AND kind = ?1 GROUP BY conversation"
_READABLE = (
    "SELECT count(*), count(body_crc) FILTER (WHERE expires IS NULL OR expires > ?2),"
    " min(expires) FILTER (WHERE expires > ?2) FROM record WHERE n > 0 AND n <= ?1"
)
# An item that says "same" has its text in its source.
_LASTING = "body_crc IS NOT NULL AND (expires IS NULL OR expires > ?1)"
_TEXTLESS = (
    "SELECT count(*) FROM record WHERE n > 0 AND kind = 'said' AND type <> '' AND NOT"
    f" (CASE WHEN instr(header, CAST('\"same\":true' AS BLOB)) THEN source ELSE n END"
    f" IN (SELECT n FROM record WHERE kind IN ('said', 'queued', 'ended') AND {_LASTING}))"
)
_SIZES = "SELECT min(ts), max(ts), sum(kind = 'said' AND type <> '') FROM record WHERE n > 0"
_REQUEST_BEFORE = (
    "SELECT max(n) FROM record WHERE n > 0 AND kind = 'asked' AND n < ?1"
    " AND conversation = (SELECT conversation FROM record WHERE n = ?1 AND kind = 'asked')"
)
_WANTED = "CREATE TEMP TABLE IF NOT EXISTS wanted (number INTEGER PRIMARY KEY)"
# What histories are made of, without events and without other requests: those are most of a record.
_SELECT_HISTORY = SELECT.replace(
    "ORDER BY",
    "AND (kind = 'session' OR n IN temp.wanted"
    " OR (kind <> 'event' AND kind <> 'asked' AND conversation IN temp.wanted)) ORDER BY",
)
_encode = msgspec.json.Encoder().encode


class _Named(msgspec.Struct):
    id: str


class RowNumbers(msgspec.Struct, frozen=True):
    """Numbers of rows that an excerpt is to have, growing."""

    numbers: list[int]
    has_more: bool
    """Whether there are further ones in the direction of reading: the limit, or that of bytes, was reached."""


class ReadableTexts(msgspec.Struct, frozen=True):
    """How many rows a part of a record has, how many texts of it may still be read, and when the next one expires."""

    rows: int = 0
    texts: int = 0
    until: float | None = None


class ExcerptReader(SqliteReader):
    """Used by one thread at a time, like a `SqliteReader`. Every method raises StorageError for what cannot be read."""

    _lives: list[int] | None = None
    """The rows with which a life of the session begins; None until they were looked for."""
    _untold: frozenset[int] = frozenset()

    def events_before(self, n: int | None, conversation: int | None, limit: int) -> RowNumbers:
        """The last events before that row; None: of the record. Items that were copied from another record count."""
        return self._numbers(_BACKWARD, (0, _END if n is None else n, conversation), limit)

    def events_after(self, n: int, conversation: int | None, limit: int, *, upto: int | None = None) -> RowNumbers:
        """The first events after that row, and not after `upto`."""
        return self._numbers(_FORWARD, (n, _END if upto is None else upto + 1, conversation), limit)

    def event(self, seq: int) -> int | None:
        """The row of the event with this number; None where the record has none."""
        with self._explained():
            return self._connection.execute(_EVENT, (seq,)).fetchone()[0]

    def untold_messages(self) -> frozenset[int]:
        """The rows of messages that no event tells: the record is older than such events. They count as events."""
        with self._explained():
            self._find_places()
        return self._untold

    def _numbers(self, statement: str, place: tuple[int, int, int | None], limit: int) -> RowNumbers:
        with self._explained():
            self._find_places()
            found: list[tuple[int, int]] = self._connection.execute(statement, (*place, limit + 1)).fetchall()
        numbers: list[int] = []
        size = 0
        for n, length in found[:limit]:
            size += length
            if numbers and size > MAX_BYTES:
                break
            numbers.append(n)
        return RowNumbers(sorted(numbers), len(found) > len(numbers))

    def excerpt(self, numbers: Sequence[int]) -> list[StoredRow]:
        """These rows, and those that they refer to, in order of n."""
        rows: dict[int, StoredRow] = {}
        wanted, names = set(numbers), set[int]()
        for _ in range(_DEPTH):
            found = self.these(wanted)
            rows |= {row.n: row for row in found}
            names |= {name for row in found for name in (row.conversation, row.task)}
            # What a row refers to stands before it: so no forged row leads in a circle.
            wanted = {row.source for row in found if 0 < row.source < row.n} - rows.keys()
        rows |= {row.n: row for row in self.these(names - rows.keys())}
        if rows:
            rows |= {row.n: row for row in self.these(self._lives_of(min(numbers), max(numbers)))}
        return [rows[n] for n in sorted(rows)]

    def these(self, numbers: Collection[int]) -> list[StoredRow]:
        """The rows of these numbers, in order, as far as they are there."""
        if not numbers:
            return []
        now = self._now()
        with self._explained():
            cells = self._connection.execute(_SELECT_THESE, (_encode(sorted(numbers)), 0, now)).fetchall()
        return [read_row(row) for row in cells]

    def headers(self, kinds: Sequence[str], types: Sequence[str] = (), after: int = 0) -> Iterator[StoredRow]:
        """Rows of these kinds, or of these types, in order; without their texts."""
        with self._explained():
            cells = self._connection.execute(_HEADERS, (after, _encode(kinds), _encode(types))).fetchall()
        return map(read_row, cells)

    def newest(self, kind: str) -> list[StoredRow]:
        """Of each conversation the last row of that kind."""
        with self._explained():
            found = self._connection.execute(_NEWEST, (kind,)).fetchall()
        return self.these([n for (n,) in found])

    def conversation(self, id: str) -> int | None:
        """The number by which rows refer to a conversation; None where the record has none of that id."""
        with self._explained():
            named = self._connection.execute(_NAMES).fetchall()
        return next((number for number, header in named if _id_of(header) == id), None)

    def first_conversation(self) -> int | None:
        """The number of the conversation that was opened first, the root; None where there is none."""
        with self._explained():
            return self._connection.execute(_FIRST_CONVERSATION).fetchone()[0]

    def expiring(self, numbers: Collection[int]) -> set[int]:
        """Those of these rows whose texts were stored for a time only."""
        with self._explained():
            found = self._connection.execute(_EXPIRING, (_encode(sorted(numbers)),)).fetchall()
        return {n for (n,) in found}

    def readable(self, upto: int) -> ReadableTexts:
        """Which texts there are up to that row."""
        with self._explained():
            return ReadableTexts(*self._connection.execute(_READABLE, (upto, self._now())).fetchone())

    def request_before(self, n: int) -> int | None:
        """The request of the same conversation before that one; None where there is none, or that is no request."""
        with self._explained():
            return self._connection.execute(_REQUEST_BEFORE, (n,)).fetchone()[0]

    def history_rows(self, conversations: Collection[int], requests: Sequence[int]) -> Iterator[StoredRow]:
        """The rows that histories of these conversations are made of, with these requests, up to the last of them."""
        tasks = {row.task for row in self.these(requests)}
        wanted = {*conversations, *requests, *tasks}
        with self._explained():
            self._connection.execute(_WANTED)
            self._connection.execute("DELETE FROM temp.wanted")
            self._connection.executemany("INSERT INTO temp.wanted VALUES (?)", [(number,) for number in wanted])
        return self._batches(0, max(requests), _SELECT_HISTORY)

    def textless_items(self) -> int:
        """How many items of histories have no text that may be read."""
        with self._explained():
            return self._connection.execute(_TEXTLESS, (self._now(),)).fetchone()[0]

    def sizes(self) -> tuple[float | None, float | None, int]:
        """When the first and the last row were written, None where there is none; and how many items there are."""
        with self._explained():
            first, last, items = self._connection.execute(_SIZES).fetchone()
        return (first, last, items) if isinstance(first, float) and isinstance(last, float) else (None, None, 0)

    def _lives_of(self, first: int, last: int) -> list[int]:
        """The rows that say in which life of the session these were written: the last before them, those between."""
        with self._explained():
            lives = [n for n in self._find_places() if n <= last]
        earlier = sum(n < first for n in lives)
        return lives[max(0, earlier - 1) :]

    def _find_places(self) -> list[int]:
        """Where lives of the session begin; and note which items were copied, and which messages have no event."""
        if self._lives is None:
            places = self._connection.execute(_PLACES).fetchall()
            opened = {conversation: n for n, conversation, is_life in reversed(places) if not is_life}
            self._connection.execute(_COPIES)
            self._connection.execute(_FIND_COPIES, (max(opened.values(), default=0),))
            first = self._connection.execute(_FIRST_TOLD).fetchone() or (_END, 0)
            self._untold = frozenset(n for (n,) in self._connection.execute(_FIND_UNTOLD, first))
            self._connection.executemany(_ADD_COPIES, [(n,) for n in self._untold])
            self._lives = [n for n, _, is_life in places if is_life]
        return self._lives

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._file) from error


def _id_of(header: Any) -> str | None:
    try:
        return msgspec.json.decode(header or b"", type=_Named).id
    except (msgspec.MsgspecError, RecursionError):
        return None
