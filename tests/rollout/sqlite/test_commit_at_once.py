"""Commits on the loop's thread: only where nothing is to be waited for, and never other than a thread would do it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import StorageError
from tertulia.rollout.job_runner import Append, Claim, Close
from tertulia.rollout.sqlite import owned_file, sqlite_store, table, writer_pool
from tertulia.rollout.sqlite.file_identity import FileIdentity
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.sqlite.sqlite_store import SessionWriter
from tertulia.rollout.store import LongBody, Row
from tests.deadlines import HANG_S
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import NOW, answer_from, begun, row
from tests.rollout.still_clock import FakeClock


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return session_files(tmp_path / "home", SESSION_ID)


@pytest.fixture
def file(files: SessionFiles) -> Iterator[OwnedFile]:
    """One to which a record was committed."""
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(1)])
    yield file
    # Where it is lost, closing says so.
    with suppress(StorageError):
        file.close()


def numbers(files: SessionFiles) -> list[int]:
    with closing(SqliteReader(files.db)) as reader:
        return [stored.n for stored in reader.rows()]


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_follows_a_commit_is_added_and_proved_like_that(files: SessionFiles, file: OwnedFile) -> None:
    assert file.commit_at_once([row(2), row(3)])
    assert file.commit_at_once([row(4, type="task_complete")])
    file.commit([row(5)])
    assert file.commit_at_once([row(6)])
    assert numbers(files) == [1, 2, 3, 4, 5, 6]
    file.close()
    with closing(SqliteReader(files.db)) as reader:
        assert reader.proof().faults == ()


def test_a_file_that_is_not_open_or_has_an_empty_journal_is_left_to_a_thread(files: SessionFiles) -> None:
    """The first commit in an empty journal flushes it."""
    file = OwnedFile(files, FakeClock(NOW))
    assert not file.commit_at_once([row(1)])
    file.claim()
    assert not file.commit_at_once([row(1)])
    file.commit([row(1)])
    file.let_go()
    assert not file.commit_at_once([row(2)])
    file.commit([row(2)])
    assert file.commit_at_once([row(3)])
    file.close()
    assert numbers(files) == [1, 2, 3]


def test_durability_full_is_added_while_the_journal_has_room(files: SessionFiles) -> None:
    """A thread lengthens it."""
    file = OwnedFile(files, FakeClock(NOW), "full")
    assert not file.commit_at_once([row(1)])
    file.commit([row(1)])
    by_threads = 0
    for n in range(2, 60):
        before = files.wal.stat().st_size
        if not file.commit_at_once([row(n)]):
            by_threads += 1
            file.commit([row(n)])
        elif files.wal.stat().st_size > before:
            pytest.fail("a journal that grows is flushed ten times as slowly")
    assert 0 < by_threads < 10
    file.close()
    assert numbers(files) == list(range(1, 60))


def test_what_happens_to_a_file_while_it_is_flushed_is_noticed_before_it_is_acknowledged(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: a record that no reader will find is not acknowledged; one that was only touched is."""
    file = OwnedFile(files, FakeClock(NOW), "full")
    for n in (1, 2):
        file.commit([row(n)])
    insert = table.insert
    harm: Callable[[SessionFiles], None] = _touch_db

    def slow(*arguments: Any) -> int:
        size = insert(*arguments)
        harm(files)
        return size

    monkeypatch.setattr(table, "insert", slow)
    assert file.commit_at_once([row(3)])
    harm = _remove_db
    assert not file.commit_at_once([row(4)])
    with pytest.raises(StorageError) as refusal:
        file.commit([row(4)])
    assert refusal.value.detail["kind"] == "lost"
    with pytest.raises(StorageError):
        file.close()


def test_a_disk_that_is_not_local_is_left_to_a_thread(files: SessionFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_file, "is_local", lambda path: False)
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(1)])
    assert not file.commit_at_once([row(2)])
    file.close()


def test_a_journal_that_has_grown_is_left_to_a_thread_which_moves_it(files: SessionFiles, file: OwnedFile) -> None:
    body, by_threads = b'"' + b"x" * 60_000 + b'"', 0
    for n in range(2, 200):
        if not file.commit_at_once([row(n, body)]):
            by_threads += 1
            file.commit([row(n, body)])
            file.checkpoint_if_grown()
        if files.wal.stat().st_size == 0:
            break
    else:
        pytest.fail("the journal was never moved")
    assert by_threads < 5
    assert not file.commit_at_once([row(200)]), "the journal is empty: the next commit flushes it"
    assert numbers(files) == list(range(1, n + 1))


def test_a_lock_of_another_program_is_not_waited_for(files: SessionFiles, file: OwnedFile) -> None:
    with closing(sqlite3.connect(files.db, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not file.commit_at_once([row(2)])
        other.execute("ROLLBACK")
    file.commit([row(2)])
    assert numbers(files) == [1, 2]


def _touch_db(files: SessionFiles) -> None:
    os.utime(files.db, ns=(0, 0))


def _touch_journal(files: SessionFiles) -> None:
    os.utime(files.wal, ns=(0, 0))


def _replace_lock(files: SessionFiles) -> None:
    files.lock.rename(files.lock.with_suffix(".gone"))
    files.lock.touch()


def _remove_db(files: SessionFiles) -> None:
    files.db.unlink()


def _edit(files: SessionFiles) -> None:
    with closing(sqlite3.connect(files.db, isolation_level=None)) as other:
        other.execute("PRAGMA wal_autocheckpoint = 0")
        times = os.stat(files.wal)
        other.execute("UPDATE record SET type = 'forged' WHERE n = 1")
        os.utime(files.wal, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("harm", [_touch_db, _touch_journal, _replace_lock, _remove_db, _edit])
def test_files_that_another_program_has_touched_are_left_to_a_thread(
    files: SessionFiles, file: OwnedFile, harm: Callable[[SessionFiles], None]
) -> None:
    """R1: which finds out whether that is a loss."""
    harm(files)
    assert not file.commit_at_once([row(2)])


def test_what_goes_wrong_is_tried_again_by_a_thread(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> int:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(table, "insert", fail)
        assert not file.commit_at_once([row(2)])
    file.commit([row(2)])
    assert numbers(files) == [1, 2]


def test_a_disk_that_fails_to_flush_is_never_trusted_again(file: OwnedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(table, "insert", fail)
        assert not file.commit_at_once([row(2)])
    with pytest.raises(StorageError) as refusal:
        file.commit([row(2)])
    assert refusal.value.detail["kind"] == "flush"
    assert not file.is_open
    file.close()


def test_a_journal_that_goes_during_the_commit_is_lost(files: SessionFiles, file: OwnedFile) -> None:
    """R1: what was written is found by no reader, so it is not acknowledged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileIdentity, "is_untouched", lambda _: bool(files.wal.unlink()) or True)
        assert not file.commit_at_once([row(2)])
    with pytest.raises(StorageError) as refusal:
        file.commit([row(2)])
    assert refusal.value.detail["kind"] == "lost"
    with pytest.raises(StorageError):
        file.close()


def test_only_what_is_short_and_encoded_is_brief() -> None:
    assert table.is_brief([row(n) for n in range(1, 9)])
    assert not table.is_brief([row(n) for n in range(1, 10)])
    assert table.is_brief([row(1, None), row(2, b"x" * 65_000)])
    assert not table.is_brief([row(1, b"x" * 40_000), row(2, b"x" * 40_000)])
    assert not table.is_brief([row(1, LongBody({}, lambda _: b""))])  # type: ignore[arg-type]


# ── the writer ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def writer(files: SessionFiles, monkeypatch: pytest.MonkeyPatch) -> SessionWriter:
    # On a busy machine anything may take long.
    monkeypatch.setattr(writer_pool, "SLOW_S", HANG_S)
    return SessionWriter(OwnedFile(files, FakeClock()), SESSION_ID)


def put(writer: SessionWriter, *rows: Row, attempt: int = 0) -> asyncio.Future[Any]:
    return begun(lambda done: writer.put(Append(rows, attempt, done)))


async def close(writer: SessionWriter) -> object:
    return await answer_from(lambda done: writer.put(Close(done)))


async def test_a_brief_commit_is_answered_before_it_returns_and_wakes_no_thread(
    writer: SessionWriter, files: SessionFiles
) -> None:
    assert await put(writer, row(1)) is None
    await until_free(writer)
    turns = writer.progress
    assert [put(writer, row(n)).done() for n in (2, 3, 4)] == [True] * 3
    assert writer.progress == turns
    assert await close(writer) is None
    assert numbers(files) == [1, 2, 3, 4]


async def test_a_long_commit_goes_to_a_thread_and_those_behind_it_keep_their_order(
    writer: SessionWriter, files: SessionFiles
) -> None:
    await put(writer, row(1))
    await until_free(writer)
    order: list[int] = []
    long, brief = put(writer, row(2, b'"%b"' % (b"x" * 70_000))), put(writer, row(3))
    for n, future in ((2, long), (3, brief)):
        assert not future.done()
        future.add_done_callback(lambda _, n=n: order.append(n))
    assert await asyncio.wait_for(asyncio.gather(long, brief), HANG_S) == [None, None]
    assert order == [2, 3]
    await close(writer)
    assert numbers(files) == [1, 2, 3]


async def test_what_a_thread_has_done_and_not_told_yet_is_told_first(writer: SessionWriter) -> None:
    await put(writer, row(1))
    await until_free(writer)
    writer.put(Claim(lambda _: None))
    deadline = asyncio.get_running_loop().time() + HANG_S
    while writer._waiting:
        # Blocks the loop, so that the answer stays with the pool.
        assert asyncio.get_running_loop().time() < deadline
        threading.Event().wait(0.001)
    late = put(writer, row(2))
    assert not late.done()
    assert await asyncio.wait_for(late, HANG_S) is None
    await close(writer)


async def test_a_turn_that_a_thread_has_is_not_taken(writer: SessionWriter) -> None:
    await put(writer, row(1))
    await until_free(writer)
    assert writer.take_turn()
    waiting = put(writer, row(2))
    assert not waiting.done()
    assert not writer.run()
    assert not writer.rest()
    await asyncio.sleep(0)
    writer._pool.tell()  # type: ignore[union-attr]
    assert await asyncio.wait_for(waiting, HANG_S) is None
    await close(writer)


async def test_after_a_slow_commit_threads_do_it_for_a_while(
    writer: SessionWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a disk in trouble holds up the loop for a twentieth of its time at most."""
    await put(writer, row(1))
    await until_free(writer)
    pool = writer._pool
    assert pool is not None
    now, sleeps = pool.now(), 0
    monkeypatch.setattr(writer_pool, "SLOW_S", 0.05)
    for module in (writer_pool, sqlite_store):
        monkeypatch.setattr(module, "count_sleeps", lambda: sleeps)
    monkeypatch.setattr(pool, "now", lambda: now)
    commit = OwnedFile.commit_at_once

    def slow(file: OwnedFile, rows: Sequence[Row]) -> bool:
        nonlocal now, sleeps
        now, sleeps = now + 0.5, sleeps + 1
        return commit(file, rows)

    def preempted(file: OwnedFile, rows: Sequence[Row]) -> bool:
        nonlocal now
        now += 0.5
        return commit(file, rows)

    with monkeypatch.context() as patch:
        patch.setattr(OwnedFile, "commit_at_once", preempted)
        assert put(writer, row(2)).done()
        patch.setattr(OwnedFile, "commit_at_once", slow)
        assert put(writer, row(3)).done(), "other programs had the processor, and the disk was not slow"
    late = put(writer, row(4))
    assert not late.done()
    assert await asyncio.wait_for(late, HANG_S) is None
    await until_free(writer)
    now += 10
    assert put(writer, row(5)).done()
    await close(writer)


async def test_what_is_flushed_goes_to_threads_while_the_disk_is_slow(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow flush holds up the loop once; while threads find it slow the loop does not try; the rest does not wait."""
    durable = SessionWriter(OwnedFile(files, FakeClock(), "full"), SESSION_ID, waits_for_disk=True)
    other_files = session_files(files.home.with_name("other"), SESSION_ID)
    other = SessionWriter(OwnedFile(other_files, FakeClock()), SESSION_ID)
    for writer in (durable, other):
        for n in range(1, 11):
            await put(writer, row(n))
            await until_free(writer)
    pool = durable._pool
    assert pool is not None
    pool.flush_slow_until = 0.0
    now, took = pool.now(), 0.0
    monkeypatch.setattr(pool, "now", lambda: now)
    insert = table.insert

    def timed(*arguments: Any) -> int:
        nonlocal now
        now += took
        return insert(*arguments)

    monkeypatch.setattr(table, "insert", timed)
    assert put(durable, row(11)).done(), "the disk is quick"
    took = 0.01
    assert put(durable, row(12)).done(), "nothing was known of it"
    for n in (13, 14):
        now += 0.15
        late = put(durable, row(n))
        assert not late.done(), "a thread had it slow, too"
        assert await asyncio.wait_for(late, HANG_S) is None
        await until_free(durable)
    took = 0.0
    assert put(other, row(11)).done(), "what is not flushed does not wait for the disk"
    now += 0.21
    assert put(durable, row(15)).done()
    for writer in (durable, other):
        await close(writer)
    assert numbers(files) == list(range(1, 16))


async def test_what_follows_a_failure_under_the_same_attempt_fails_like_it(
    writer: SessionWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(writer, row(1))
    await until_free(writer)

    def fail(*_: Any) -> None:
        raise StorageError("no room", kind="full")

    with monkeypatch.context() as patch:
        patch.setattr(OwnedFile, "commit", fail)
        patch.setattr(OwnedFile, "commit_at_once", lambda *_: False)
        assert isinstance(await put(writer, row(2)), StorageError)
    await until_free(writer)
    assert isinstance(await asyncio.wait_for(put(writer, row(2)), HANG_S), StorageError)
    await until_free(writer)
    assert await put(writer, row(2), attempt=1) is None
    await close(writer)


async def test_a_fault_of_ours_breaks_the_writer_and_leaves_no_caller_waiting(
    writer: SessionWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(writer, row(1))
    await until_free(writer)

    def fault(*_: Any) -> bool:
        raise ZeroDivisionError

    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    with monkeypatch.context() as patch:
        patch.setattr(OwnedFile, "commit_at_once", fault)
        with pytest.raises(ZeroDivisionError):
            writer.put(Append([row(2)], 0, answer.set_result))
    assert isinstance(await asyncio.wait_for(answer, HANG_S), StorageError)
    assert isinstance(await asyncio.wait_for(put(writer, row(3)), HANG_S), StorageError)


async def test_files_that_are_used_on_the_loop_are_not_idle(
    writer: SessionWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(writer, row(1))
    await until_free(writer)
    pool = writer._pool
    assert pool is not None
    before = pool._open[writer]
    monkeypatch.setattr(pool, "now", lambda: before + 0.01)
    assert put(writer, row(2)).done()
    assert pool._open[writer] == before + 0.01
    del pool._open[writer]
    assert put(writer, row(3)).done()
    assert writer not in pool._open
    await close(writer)


async def until_free(writer: SessionWriter) -> None:
    """Until no thread has it, and all is told."""
    deadline = asyncio.get_running_loop().time() + HANG_S
    while writer._waiting or writer._handed:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0)
