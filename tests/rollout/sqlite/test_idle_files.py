"""The files of an idle session are let go: it stays owned, and what happens to them meanwhile is noticed (R1)."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tertulia.errors import BusyError, StorageError
from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import HeadersOnly
from tertulia.rollout.job_runner import Append, Claim, Close
from tertulia.rollout.sqlite import owned_file, writer_pool
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.ownership import Ownership, is_held
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.sqlite.sqlite_store import SessionWriter
from tertulia.rollout.sqlite.writer_pool import LEAST_OPEN, MOST_OPEN
from tests.deadlines import HANG_S
from tests.durability.lost_stores import HARMS
from tests.rollout.scribe import SESSION_ID
from tests.rollout.sqlite.test_owned_file import read
from tests.rollout.stages import NOW, answer_from, row
from tests.rollout.still_clock import FakeClock


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return session_files(tmp_path / "home", SESSION_ID)


@pytest.fixture
def file(files: SessionFiles) -> Iterator[OwnedFile]:
    """With records in the file and in its journal, and let go."""
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(1, b"x" * 30_000), row(2)])
    file._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # type: ignore[union-attr]
    file.commit([row(3, b"x" * 30_000)])
    file.let_go()
    assert not file.is_open
    yield file
    if file._ownership is not None:
        file.close()


def open_files(home: Path) -> list[str]:
    """Those of the sessions that this process has open, but for the locks."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    return [link for link in links if link.startswith(str(home)) and not link.endswith(".lock")]


def test_it_holds_no_descriptor_stays_owned_and_goes_on(files: SessionFiles, file: OwnedFile) -> None:
    assert open_files(files.home) == []
    assert is_held(files)
    with pytest.raises(BusyError):
        Ownership.take(files)
    assert files.wal.stat().st_size, "nothing waits for the disk"
    assert [found.n for found in read(files)] == [1, 2, 3]
    file.let_go()
    file.commit([row(4)])
    assert file.is_open
    file.let_go()
    file.enforce(0, HeadersOnly(), ())
    file.let_go()
    file.close()
    assert [found.n for found in read(files)] == [1, 2, 3, 4]
    assert not is_held(files)
    assert not files.wal.exists()


# A journal of the same content has lost nothing: no process had the one before open.
@pytest.mark.parametrize("harm", [harm for harm in HARMS if harm != "journal replaced"])
@pytest.mark.parametrize("act", ["commit", "sweep", "close"])
def test_what_happens_to_files_meanwhile_is_noticed(files: SessionFiles, file: OwnedFile, harm: str, act: str) -> None:
    """R1: told with the file that is meant, and from then on every time; closing does not pretend either."""
    HARMS[harm](files)
    if act != "close":
        for _ in range(2):
            with pytest.raises(StorageError, match="so nothing more is recorded there; put it back") as refusal:
                file.commit([row(4)]) if act == "commit" else file.sweep(NOW, "delete")
            assert refusal.value.detail == {"file": str(files.db), "kind": "lost"}
    with pytest.raises(StorageError, match="while the session was running") as refusal:
        file.close()
    assert refusal.value.detail["kind"] == "lost"
    assert open_files(files.home) == []


def _by_another(files: SessionFiles, statement: str) -> None:
    program = f"import sqlite3; c = sqlite3.connect({str(files.db)!r}); c.execute({statement!r}); c.commit()"
    subprocess.run([sys.executable, "-c", program], timeout=HANG_S, check=True)


@pytest.mark.parametrize("statement", ["SELECT 1 FROM record", "PRAGMA wal_checkpoint(TRUNCATE)"])
def test_a_journal_that_another_program_moved_into_the_file_is_no_loss(
    files: SessionFiles, file: OwnedFile, statement: str
) -> None:
    """The last program that closes a database moves its journal, and removes it."""
    _by_another(files, statement)
    file.commit([row(4)])
    assert [found.n for found in read(files)] == [1, 2, 3, 4]


@pytest.mark.parametrize("statement", ["DELETE FROM record WHERE n = 1", "UPDATE record SET n = 7 WHERE n = 3"])
def test_a_store_that_another_program_edits_meanwhile_is_noticed(
    files: SessionFiles, file: OwnedFile, statement: str
) -> None:
    _by_another(files, statement)
    with pytest.raises(StorageError, match="was cut short or overwritten") as refusal:
        file.commit([row(4)])
    assert refusal.value.detail["kind"] == "lost"
    with pytest.raises(StorageError):
        file.close()


def test_a_file_that_is_no_database_any_more_is_lost(files: SessionFiles, file: OwnedFile) -> None:
    """R1: nothing of it is in the journal either."""
    file.commit([row(4)])
    file._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]
    file.let_go()
    HARMS["db overwritten"](files)
    for _ in range(2):
        with pytest.raises(StorageError, match="was cut short or overwritten") as refusal:
            file.commit([row(5)])
        assert refusal.value.detail["kind"] == "lost"
    with pytest.raises(StorageError):
        file.close()


def test_where_no_descriptor_is_to_be_had_it_is_tried_again(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8: too many files are open for the moment; that is no loss."""

    def refuse(*args: object, **named: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(owned_file, "connect_owner", refuse)
        with pytest.raises(StorageError, match="too many files are open"):
            file.commit([row(4)])
    file.commit([row(5)])
    assert [found.n for found in read(files)] == [1, 2, 3, 5]


def test_files_that_cannot_be_let_go_stay_open(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """To leave the journal as it is takes a descriptor more."""
    file.commit([row(4)])

    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(owned_file, "close_and_keep_journal", refuse)
        file.let_go()
    assert "could not be closed" in caplog.text
    assert file.is_open
    file.commit([row(5)])


def test_what_is_not_erased_to_the_end_is_not_let_go(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E3: the next sweep takes it up again, and knows that it has to."""
    file.commit([row(4)])
    reader = sqlite3.connect(files.db)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM record").fetchone()
    monkeypatch.setattr(owned_file, "PATIENCE_S", 0)
    file._connection.execute("PRAGMA busy_timeout = 0")  # type: ignore[union-attr]
    with pytest.raises(StorageError):
        file.erase_bodies()
    file.let_go()
    assert file.is_open
    reader.close()


async def until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + HANG_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0)


# ── in the pool ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_only_so_many_sessions_have_their_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were used last; all of them stay owned, and go on when they are asked."""
    monkeypatch.setattr(writer_pool, "MOST_OPEN", LEAST_OPEN)
    home = tmp_path / "home"
    all_files = [session_files(home, new_session_id()) for _ in range(4 * LEAST_OPEN)]
    writers = [SessionWriter(OwnedFile(files, FakeClock()), files.session_id) for files in all_files]
    for writer in writers:
        assert await answer_from(lambda done, writer=writer: writer.put(Append([row(1)], 0, done))) is None
    # All at once: none of those that are open is idle.
    put = [
        partial(answer_from, lambda done, writer=writer: writer.put(Append([row(2)], 0, done))) for writer in writers
    ]
    assert await asyncio.gather(*(act() for act in put)) == [None] * len(writers)
    assert await answer_from(lambda done: writers[0].put(Claim(done))) is None
    pool = next(iter(writer_pool._pools.values()))
    await until(lambda: len({Path(name).name[:36] for name in open_files(home)}) == LEAST_OPEN)
    await until(lambda: writers[0] in pool._open)
    assert len(pool._open) == LEAST_OPEN
    assert all(is_held(files) for files in all_files)
    for writer in writers:
        assert await answer_from(lambda done, writer=writer: writer.put(Close(done))) is None
    assert [[found.n for found in read(files)] for files in all_files] == [[1, 2]] * len(all_files)
    assert open_files(home) == []


async def test_files_that_were_not_used_for_a_while_are_let_go_and_then_no_timer_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_pool, "IDLE_OPEN", 3)
    monkeypatch.setattr(writer_pool, "IDLE_S", 0.05)
    home = tmp_path / "home"
    all_files = [session_files(home, new_session_id()) for _ in range(9)]
    writers = [SessionWriter(OwnedFile(files, FakeClock()), files.session_id) for files in all_files]
    claims = [partial(answer_from, lambda done, writer=writer: writer.put(Claim(done))) for writer in writers]
    await asyncio.gather(*(act() for act in claims))
    await claims[0]()
    pool = next(iter(writer_pool._pools.values()))
    await until(lambda: len({Path(name).name[:36] for name in open_files(home)}) == 3)
    await until(lambda: pool._idle_look is None)
    pool._let_idle_go()
    assert pool._idle_look is None, "nothing more is to be let go"
    assert all(is_held(files) for files in all_files)
    await asyncio.gather(*(act() for act in claims))
    for writer in writers:
        assert await answer_from(lambda done, writer=writer: writer.put(Close(done))) is None


async def test_files_are_let_go_also_when_the_thread_is_slower_than_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine an answer may be given before the thread that wrote it goes on."""
    answered, tell = threading.Event(), writer_pool.WriterPool.tell

    def tell_and_wait(pool: writer_pool.WriterPool, *, is_last: bool = False) -> None:
        tell(pool, is_last=is_last)
        assert answered.wait(HANG_S)

    monkeypatch.setattr(writer_pool, "IDLE_OPEN", 3)
    monkeypatch.setattr(writer_pool, "IDLE_S", 0.01)
    monkeypatch.setattr(writer_pool.WriterPool, "tell", tell_and_wait)
    home = tmp_path / "home"
    all_files = [session_files(home, new_session_id()) for _ in range(4)]
    writers = [SessionWriter(OwnedFile(files, FakeClock()), files.session_id) for files in all_files]
    for writer in writers:
        answered.clear()
        assert await answer_from(lambda done, writer=writer: writer.put(Claim(done))) is None
        answered.set()
    await until(lambda: len({Path(name).name[:36] for name in open_files(home)}) == 3)
    for writer in writers:
        assert await answer_from(lambda done, writer=writer: writer.put(Close(done))) is None


async def test_a_session_that_is_used_again_in_time_keeps_its_files(tmp_path: Path) -> None:
    file = OwnedFile(session_files(tmp_path / "home", SESSION_ID), FakeClock())
    writer = SessionWriter(file, SESSION_ID)
    assert await answer_from(lambda done: writer.put(Claim(done))) is None
    await until(lambda: not writer._waiting)
    assert writer.take_turn()
    assert not writer.take_turn()
    answers: list[object] = []
    writer.put(Append([row(1)], 0, answers.append))
    assert not writer.run()
    assert file.is_open
    assert not writer.rest()
    assert await answer_from(lambda done: writer.put(Close(done))) is None
    assert answers == [None]


@pytest.mark.parametrize(
    ("limit", "most"),
    [(20, LEAST_OPEN), (1024, 128), (100_000, MOST_OPEN), (resource.RLIM_INFINITY, MOST_OPEN)],
)
def test_how_many_depends_on_the_limit_of_descriptors(monkeypatch: pytest.MonkeyPatch, limit: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (limit, limit))
    assert writer_pool._most_open() == most


class SessionAtWork:
    """A session whose files are open, and which waits for a turn already."""

    waits_for_disk = False
    is_open = True

    def take_turn(self) -> bool:
        return False

    def run(self) -> bool:
        return False

    def rest(self) -> bool:
        return False

    def let_go(self) -> None:
        self.is_open = False


async def test_where_all_open_files_are_in_use_a_session_lets_its_own_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_pool, "_most_open", lambda: 1)
    monkeypatch.setattr(writer_pool, "_start", lambda run: None)
    pool = writer_pool.WriterPool(asyncio.get_running_loop())
    sessions = [SessionAtWork(), SessionAtWork()]
    pool._ready += sessions
    pool._write_all()
    assert [session.is_open for session in sessions] == [True, False]
    assert pool._waker is not None
    pool._waker.close()
