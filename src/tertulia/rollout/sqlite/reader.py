"""Reads the file of a session, also while its owner writes. Trusts nothing in it."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tertulia.events.clock import Clock
from tertulia.rollout.loose_json import object_of
from tertulia.rollout.sqlite.database import close_reader, connect_reader
from tertulia.rollout.sqlite.error_text import STORAGE_EXCEPTIONS, explain
from tertulia.rollout.sqlite.head import Proof, count_missing, prove
from tertulia.rollout.sqlite.index_file import mark_of
from tertulia.rollout.sqlite.table import (
    FIND_FINISHED,
    FINISHED,
    FINISHED_TASKS,
    HAS_PLANS,
    ROOT_TERMS,
    SELECT,
    SELECT_BRIEFLY,
    TOKEN_COUNTS,
    damaged_row,
    reached,
    read_row,
)
from tertulia.rollout.store import StoredRow

_BATCH_ROWS = 512
_LAST = 2**63 - 1
_ENDS = ("SELECT max(n) FROM record", "SELECT seq FROM record WHERE seq IS NOT NULL ORDER BY n DESC LIMIT 1")
_BATCH_BYTES = 4 * 1024 * 1024


class SqliteReader:
    """A RolloutReader of one file. Used by one thread at a time.

    It reads in batches and holds nothing in between, neither memory nor a state of the file that its owner would
    have to keep for it. Raises StorageError where the file is not there, is not ours or is damaged.
    With a clock, a text that has expired is not read, whether or not it was swept by then (E4).
    """

    def __init__(self, file: Path, clock: Clock | None = None) -> None:
        self._file = file
        self._clock = clock
        try:
            self._connection = connect_reader(file)
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, file) from error

    def rows(self, after: int = 0, *, brief: bool = False) -> Iterator[StoredRow]:
        """Records whose n is larger, in order of n, as of now."""
        yield from self._batches(after, self._last(), self._brief_select() if brief else SELECT)

    def _batches(self, after: int, last: int, select: str) -> Iterator[StoredRow]:
        while after < last:
            batch = self._batch(after, last, select)
            if not batch:
                return
            yield from batch
            after = batch[-1].n

    def ends(self) -> tuple[int, int]:
        """The last n, and the last number of an event, that stand in the file; 0 for none."""
        try:
            found = [(self._connection.execute(end).fetchone() or (0,))[0] for end in _ENDS]
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._file) from error
        n, seq = (value if isinstance(value, int) else 0 for value in found)
        return n, seq

    def close(self) -> None:
        """Close the file, and leave nothing beside it. Idempotent."""
        close_reader(self._connection, self._file)

    def _last(self) -> int:
        try:
            last = self._connection.execute("SELECT max(n) FROM record").fetchone()[0]
        except STORAGE_EXCEPTIONS:
            # Whatever is wrong with its end will be met there, after all that is sound.
            return _LAST
        return 0 if last is None else last

    def root_terms(self) -> StoredRow | None:
        """The newest terms of the root; None where none are stored."""
        batch: list[StoredRow] = []
        try:
            n = self._connection.execute(ROOT_TERMS).fetchone()[0]
            if n is not None:
                self._fill(batch, n - 1, n, SELECT)
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._file) from error
        return batch[0] if batch else None

    def token_counts(self) -> list[bytes]:
        """The headers of what requests to models have used and cost, unchecked."""
        try:
            return [header for (header,) in self._connection.execute(TOKEN_COUNTS)]
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._file) from error

    def spending(self) -> tuple[int, float]:
        """The tokens and US dollars of all requests to models, as far as they are stored and can be read."""
        tokens, usd = 0, 0.0
        for header in map(object_of, self.token_counts()):
            match header.get("usage"):
                case [_, _, _, _, int(total), *_] if total > 0:
                    tokens += total
                case _:
                    pass
            cost = header.get("cost_usd")
            if isinstance(cost, float | int) and 0 < cost < math.inf:
                usd += cost
        return tokens, usd

    def finished(self) -> dict[int, int]:
        """How many tasks of each conversation came to their end, by the row that has its id."""
        try:
            found = self._connection.execute(FINISHED).fetchall()
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._file) from error
        return {conversation: count for conversation, count in found if isinstance(conversation, int)}

    def proof(self) -> Proof:
        """What the file's head, and its mark in the index, say about its records (R2)."""
        try:
            proof, there = prove(self._connection), reached(self._connection)
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._file) from error
        known = mark_of(self._file)
        if there >= known:
            return proof
        fault = f"it had come to event {known}, and this comes to {there}: it is an older copy, or its end was cut"
        return replace(proof, faults=proof.faults or (fault,))

    def missing(self) -> int:
        """How many records its head knows of that are not there; -1: there are some, or it cannot be known."""
        try:
            return count_missing(self._connection) or -(reached(self._connection) < mark_of(self._file))
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._file) from error

    def _now(self) -> float:
        """The time at which a text must not have expired yet; without a clock none has."""
        return -math.inf if self._clock is None else self._clock.now()

    def _brief_select(self) -> str:
        try:
            if self._connection.execute(HAS_PLANS).fetchone()[0]:
                # A chain that goes on needs to know what was said and what it cost.
                return SELECT
            self._connection.execute(FINISHED_TASKS)
            self._connection.execute(FIND_FINISHED)
        except STORAGE_EXCEPTIONS:
            # Nothing can be left out, then: whatever is wrong is met on the way.
            return SELECT
        return SELECT_BRIEFLY

    def _batch(self, after: int, last: int, select: str) -> list[StoredRow]:
        batch: list[StoredRow] = []
        try:
            self._fill(batch, after, last, select)
        except STORAGE_EXCEPTIONS:
            # Raised a record too early: the one before it was read, and not given to us.
            if not batch:
                self._fill_with_one(batch, after)
        return batch

    def _fill_with_one(self, batch: list[StoredRow], after: int) -> None:
        n = after
        try:
            n = self._connection.execute("SELECT min(n) FROM record WHERE n > ?", (after,)).fetchone()[0]
            self._fill(batch, after, n, SELECT)
        except sqlite3.DataError:
            # A value that no policy of ours allows in size. Its place is known, and that is all we want of it.
            batch.append(damaged_row(n))
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, self._file) from error

    def _fill(self, batch: list[StoredRow], after: int, last: int, select: str) -> None:
        held = 0
        cursor = self._connection.execute(select, (after, last, self._now()))
        try:
            for cells in cursor:
                record = read_row(cells)
                if record.n <= after:
                    # A tree whose order is broken could lead us in a circle.
                    raise sqlite3.DatabaseError("its records are out of order")
                batch.append(record)
                after = record.n
                held += len(record.header) + len(record.body or b"")
                if held > _BATCH_BYTES or len(batch) >= _BATCH_ROWS:
                    return
        finally:
            cursor.close()
