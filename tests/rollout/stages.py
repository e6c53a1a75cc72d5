"""Every store on the same stage: what its contract is tried with."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from tertulia.errors import StorageError
from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import Full, StoragePolicy
from tertulia.rollout.sqlite import table
from tertulia.rollout.sqlite.head import Head
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.sqlite_store import SqliteStore
from tertulia.rollout.store import RolloutReader, Row, StoredRow
from tests.rollout.memory_store import MemoryReader, MemoryRecords, MemoryStore
from tests.rollout.still_clock import FakeClock

FULL = Full()
NOW = 1_700_000_000.0


def row(n: int, body: bytes | None = b'"said"', policy: StoragePolicy = FULL, **changes: Any) -> Row:
    """A record; what is not said is filled in."""
    fields = {
        "kind": "event",
        "type": "note",
        "ts": NOW,
        "seq": n,
        "conversation": 1,
        "task": 0,
        "header": b"{}",
        **changes,
    }
    return Row(n=n, body=body, policy=policy, **fields)


def same(row: Row) -> StoredRow:
    """That record as it is read back."""
    place = (row.n, row.kind, row.type, row.ts, row.seq, row.conversation, row.task)
    return StoredRow(*place, row.header, row.stored_body, source=row.source)


async def answer_from(act: Callable[..., None], *args: Any) -> Any:
    """What `done` is told."""
    return await begun(act, *args)


def begun(act: Callable[..., None], *args: Any) -> asyncio.Future[Any]:
    """The same, without waiting for it."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    act(*args, answer.set_result)
    return answer


class AnyStore(Protocol):
    """A RolloutStore that can be claimed."""

    place: str
    claim: Callable[..., None]
    append: Callable[..., None]
    enforce: Callable[..., None]
    sweep: Callable[..., None]
    close: Callable[..., None]


class Stage(Protocol):
    """One session's records, and what can happen to them."""

    clock: FakeClock

    def store(self) -> AnyStore:
        """A new owner."""
        ...

    def reader(self) -> RolloutReader:
        """Somebody who looks."""
        ...

    def fail(self, kind: str | None) -> None:
        """Let every commit fail from now on, or none."""
        ...


class MemoryStage:
    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.records = MemoryRecords()

    def store(self) -> MemoryStore:
        return MemoryStore(self.records, self.clock)

    def reader(self) -> MemoryReader:
        return MemoryReader(self.records)

    def fail(self, kind: str | None) -> None:
        self.records.trouble = StorageError(f"memory: {kind}", kind=kind) if kind else None


class SqliteStage:
    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.clock = FakeClock(NOW)
        self.session_id = new_session_id()
        self._monkeypatch = monkeypatch
        self._insert = table.insert

    def store(self) -> SqliteStore:
        return SqliteStore(self.home, self.session_id, self.clock)

    def reader(self) -> SqliteReader:
        return SqliteReader(self.home / "sessions" / f"{self.session_id}.db")

    def fail(self, kind: str | None) -> None:
        code = {"full": sqlite3.SQLITE_FULL, "flush": sqlite3.SQLITE_IOERR_FSYNC, "io": sqlite3.SQLITE_IOERR}.get(
            kind or ""
        )

        def insert(connection: sqlite3.Connection, rows: Sequence[Row], head: Head) -> int:
            error = sqlite3.OperationalError(kind)
            error.sqlite_errorcode = code  # type: ignore[attr-defined]
            raise error

        self._monkeypatch.setattr(table, "insert", insert if kind else self._insert)


def read(stage: Stage, after: int = 0) -> list[StoredRow]:
    """All that a reader finds."""
    reader = stage.reader()
    try:
        return list(reader.rows(after))
    finally:
        reader.close()
