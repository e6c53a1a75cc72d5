"""Run inside a mount namespace of its own: a disk that is full, a disk that cannot be written."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tertulia.errors import StorageError
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import list_sessions
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import SqliteStore, answer_from, row
from tests.rollout.still_clock import FakeClock


def mount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


def numbers(file: Path) -> list[int]:
    with closing(SqliteReader(file)) as reader:
        return [record.n for record in reader.rows()]


async def full(place: Path) -> None:
    """64 KiB: it fills up in the middle; when there is room it goes on, and nothing that was acknowledged is lost."""
    mount(place, "size=64k,mode=700")
    store = SqliteStore(place, SESSION_ID, FakeClock())
    ns: list[int] = []
    error, n = None, 0
    while error is None and n < 100:
        n += 1
        error = await answer_from(store.append, [row(n, b"x" * 3000)], 0)
        if error is None:
            ns.append(n)
    assert isinstance(error, StorageError), "it never was full"
    assert error.detail["kind"] == "full", error.message
    assert str(place) in error.message
    assert "make room" in error.message
    assert numbers(Path(store.place)) == ns
    again = await answer_from(store.append, [row(n, b"x" * 3000)], 1)
    assert isinstance(again, StorageError)
    subprocess.run(["mount", "-o", "remount,size=4m", str(place)], check=True)
    assert await answer_from(store.append, [row(n, b"x" * 3000)], 2) is None
    assert await answer_from(store.close) is None
    assert numbers(Path(store.place)) == [*ns, n]
    assert ns


async def full_at_start(place: Path) -> None:
    """Not even the file can be made, at any of its steps; later it can."""
    mount(place, "size=128k,mode=700")
    filler = place / "filler"
    filler.write_bytes(b"x" * 128 * 1024)
    store = SqliteStore(place, SESSION_ID, FakeClock())
    errors = 0
    for attempt, size in enumerate(range(128, -1, -4)):
        with filler.open("r+b") as file:
            file.truncate(size * 1024)
        error = await answer_from(store.append, [row(1)], attempt)
        if error is None:
            break
        errors += 1
        assert error.detail["kind"] in ("full", "missing"), error.message
        assert str(place) in error.message
    assert errors > 2
    assert error is None
    await answer_from(store.close)
    assert numbers(Path(store.place)) == [1]


async def read_only(place: Path) -> None:
    """A clear error for who wants to write; who only reads can."""
    mount(place, "size=4m,mode=700")
    store = SqliteStore(place, SESSION_ID, FakeClock())
    await answer_from(store.append, [row(1)], 0)
    await answer_from(store.close)
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    for session_id in (SESSION_ID, SESSION_ID.replace("0", "b")):
        store = SqliteStore(place, session_id, FakeClock())
        error = await answer_from(store.claim)
        assert isinstance(error, StorageError)
        assert error.detail["kind"] == "read_only", error.message
        assert "TERTULIA_HOME" in error.message
        assert str(place) in error.message
        await answer_from(store.close)
    assert numbers(place / "sessions" / f"{SESSION_ID}.db") == [1]
    assert [entry.trouble for entry in list_sessions(place)] == [None]


if __name__ == "__main__":
    asyncio.run({"full": full, "full_at_start": full_at_start, "read_only": read_only}[sys.argv[1]](Path(sys.argv[2])))
