"""A file in its owner's hands: made private, erased without a trace, tidied up after those who died."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tertulia.errors import BusyError, StorageError
from tertulia.protocol.storage import HeadersOnly, NoStorage, Ttl
from tertulia.rollout.sqlite import database, owned_file, table
from tertulia.rollout.sqlite.database import VERSION
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.store import Row, StoredRow
from tests.deadlines import HANG_S
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import NOW, row
from tests.rollout.still_clock import FakeClock


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return session_files(tmp_path / "home", SESSION_ID)


@pytest.fixture
def file(files: SessionFiles) -> Iterator[OwnedFile]:
    file = OwnedFile(files, FakeClock(NOW))
    yield file
    file.close()


def read(files: SessionFiles) -> list[StoredRow]:
    with closing(SqliteReader(files.db)) as reader:
        return list(reader.rows())


def found_in(files: SessionFiles, text: bytes) -> list[str]:
    """E3: the files of the folder in which it stands. Read by another process: ours has locks to lose."""
    command = ["grep", "-r", "-l", "-a", "-F", text.decode(), str(files.home)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    return [Path(line).name for line in ran.stdout.splitlines()]


# ── modes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("umask", [0, 0o777])
@pytest.mark.parametrize("durability", ["normal", "full"])
def test_every_file_is_ours_alone_whatever_the_umask(files: SessionFiles, umask: int, durability) -> None:
    """E7: database, journal, shared memory and lock."""
    before = os.umask(umask)
    try:
        file = OwnedFile(files, FakeClock(), durability)
        file.commit([row(1)])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.db.parent.iterdir()}
        assert modes == {path.name: 0o600 for path in (files.db, files.wal, files.shm, files.lock)}
        assert stat.S_IMODE(files.db.parent.stat().st_mode) == 0o700
        file.close()
    finally:
        os.umask(before)
    assert [path.name for path in files.db.parent.iterdir()] == [files.db.name]


def test_a_file_that_others_could_read_is_closed_to_them(files: SessionFiles, file: OwnedFile) -> None:
    file.commit([row(1)])
    file.close()
    files.db.chmod(0o644)
    file.claim()
    assert stat.S_IMODE(files.db.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["db", "wal", "shm", "lock"])
def test_a_planted_link_stops_it_and_what_it_leads_to_stays(
    files: SessionFiles, file: OwnedFile, tmp_path: Path, name: str
) -> None:
    """E7."""
    files.db.parent.mkdir(0o700, parents=True)
    files.home.chmod(0o700)
    (tmp_path / "precious").write_bytes(b"precious")
    getattr(files, name).symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match="not a plain file"):
        file.commit([row(1)])
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_what_half_made_file_a_crash_left_is_made_again(files: SessionFiles, file: OwnedFile) -> None:
    files.db.parent.mkdir(0o700, parents=True)
    files.home.chmod(0o700)
    files.unborn.write_bytes(b"half")
    file.commit([row(1)])
    assert not files.unborn.exists()
    assert len(read(files)) == 1


def test_who_may_not_make_a_file_makes_none(files: SessionFiles) -> None:
    file = OwnedFile(files, FakeClock(), create=False)
    with pytest.raises(StorageError) as refusal:
        file.claim()
    assert refusal.value.detail["kind"] == "missing"
    file.close()
    assert list(files.db.parent.iterdir()) == []


def test_a_newer_file_is_refused_and_left_alone(files: SessionFiles, file: OwnedFile) -> None:
    """F12."""
    file.commit([row(1)])
    file.close()
    with closing(sqlite3.connect(files.db)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = files.db.read_bytes()
    with pytest.raises(StorageError, match="upgrade"):
        file.commit([row(2)])
    file.close()
    assert files.db.read_bytes() == before


# ── erasing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def diary(conversations: int = 4) -> list[Row]:
    """Records of all sizes, from a few bytes to several pages, of several conversations."""
    dice = random.Random(3)
    return [
        row(
            n,
            b"canary-%d-%d." % (n % conversations, n) * dice.choice([1, 5, 60, 700, 4000]),
            conversation=n % conversations + 1000,
        )
        for n in range(1, 160)
    ]


def test_what_was_erased_stands_in_no_file(files: SessionFiles, file: OwnedFile) -> None:
    """E3, E5, target 7: database, free pages and journal; with everything else still there."""
    for rows in (diary()[:80], diary()[80:]):
        file.commit(rows)
    assert found_in(files, b"canary-0-") != []
    sizes = [files.size()]
    for conversation in range(4):
        policy = (HeadersOnly(), NoStorage(), Ttl(1), HeadersOnly())[conversation]
        file._clock.advance(10)  # type: ignore[attr-defined]
        file.enforce(conversation + 1000, policy, ("note",))
        assert found_in(files, b"canary-%d-" % conversation) == []
        left = [found for found in read(files) if found.body is not None]
        assert {found.conversation for found in left} == set(range(1001 + conversation, 1004))
        assert bool(found_in(files, b"canary-")) is bool(left)
        sizes.append(files.size())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 10


def test_what_expired_stands_in_no_file(files: SessionFiles) -> None:
    """E3, E4."""
    file = OwnedFile(files, FakeClock(NOW), "full")
    file.commit([row(n, b"canary-%d." % (n % 2) * 500, Ttl(10 if n % 2 else 20)) for n in range(1, 60)])
    assert file.sweep(NOW + 10, "headers_only").bodies == 30
    assert (found_in(files, b"canary-1."), found_in(files, b"canary-0.") == []) == ([], False)
    assert file.sweep(NOW + 20, "delete").rows == 59
    assert found_in(files, b"canary") == []
    assert read(files) == []
    file.close()


def test_an_erasure_waits_for_who_reads_and_says_so_if_it_cannot(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E3: no acknowledgement while the journal holds it; the next one takes it up."""
    monkeypatch.setattr(database, "PATIENCE_S", 0.05)
    file.commit([row(1, b"canary" * 50)])
    with closing(sqlite3.connect(files.db, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM record").fetchall()
        with pytest.raises(StorageError, match="another program reads the file") as refusal:
            file.enforce(1, HeadersOnly(), ())
        assert refusal.value.detail["kind"] == "busy"
        assert found_in(files, b"canary") != []
        file.commit([row(2)])  # writing goes on
    assert read(files)[0].body is None
    file.enforce(77, HeadersOnly(), ())  # has nothing to do but this
    assert found_in(files, b"canary") == []


def test_who_is_in_the_way_of_an_erasure_is_named(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E3: and what to do about it."""
    monkeypatch.setattr(database, "PATIENCE_S", 0.05)
    file.commit([row(1, b"canary" * 50)])
    reading = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); db.execute('BEGIN');"
        "db.execute('SELECT * FROM record').fetchall(); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", reading, str(files.db)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        with pytest.raises(StorageError, match=f"process {reader.pid} reads the file; end that program") as refusal:
            file.enforce(1, HeadersOnly(), ())
        assert refusal.value.detail["readers"] == [str(reader.pid)]
        reader.communicate(timeout=HANG_S)
    assert file.sweep(NOW, "headers_only").bodies == 0
    assert found_in(files, b"canary") == []


@pytest.mark.parametrize("before", ["VACUUM", "DELETE", "PRAGMA wal_checkpoint"])
def test_an_erasure_that_was_cut_short_is_ended_by_the_next_owner(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """E2, E3, E5: killed in the middle."""
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(n, b"canary" * 300) for n in range(1, 20)])
    file.close()
    pid = os.fork()
    if pid == 0:

        def trace(statement: str) -> None:
            if statement.startswith(before):
                os._exit(9)

        child = OwnedFile(files, FakeClock(NOW))
        child.claim()
        child._connection.set_trace_callback(trace)  # type: ignore[union-attr]
        child.enforce(1, HeadersOnly(), ())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert found_in(files, b"canary") != []
    after = OwnedFile(files, FakeClock(NOW))
    after.claim()
    assert found_in(files, b"canary") == []
    after.close()
    assert [found.body for found in read(files)] == [None] * 19


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_journal_that_has_grown_is_emptied(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "GROWN_BYTES", 50_000)
    file.journal.checkpoint_at = 50_000
    file.checkpoint_if_grown()
    for n in range(1, 5):  # it may be that much by then, and is not
        file.commit([row(n)])
        file.checkpoint_if_grown()
    assert 0 < files.wal.stat().st_size < 50_000
    file.commit([row(5, b"x" * 60_000)])
    file.checkpoint_if_grown()
    assert files.wal.stat().st_size == 0
    assert len(read(files)) == 5


def test_a_journal_that_is_flushed_with_every_commit_has_room_for_many(files: SessionFiles) -> None:
    """To flush a file that grows takes the disk ten times as long. What is not written yet holds nothing."""
    file = OwnedFile(files, FakeClock(NOW), "full")
    sizes: list[int] = []
    for n in range(1, 41):
        file.commit([row(n)])
        sizes.append(files.wal.stat().st_size)
    assert len(set(sizes)) < 10, "it grows with most commits"
    assert len(read(files)) == 40
    assert files.wal.read_bytes().endswith(bytes(4096))
    file.journal.checkpoint_at = 0
    file.checkpoint_if_grown()
    assert files.wal.stat().st_size == 0
    file.commit([row(41)])
    file.commit([row(42)])
    file.let_go()
    file.commit([row(43)])
    file.close()
    assert [stored.n for stored in read(files)] == [*range(1, 44)]


def test_a_journal_that_is_not_flushed_is_as_long_as_what_is_in_it(files: SessionFiles, file: OwnedFile) -> None:
    for n in range(1, 11):
        file.commit([row(n)])
    assert not files.wal.read_bytes().endswith(bytes(8192))


def test_readers_are_not_waited_for_when_it_has_grown(files: SessionFiles, file: OwnedFile) -> None:
    file.commit([row(1)])
    with closing(sqlite3.connect(files.db, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM record").fetchall()
        file.journal.checkpoint_at = 0
        file.checkpoint_if_grown()
        size = files.wal.stat().st_size
        assert size > 0
        assert file.journal.checkpoint_at > size
    file.commit([row(2)])
    assert len(read(files)) == 2


def failing(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(connection: sqlite3.Connection) -> bool:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(owned_file, "_empty_journal", fail)


def test_a_flush_that_fails_behind_the_scenes_is_not_forgotten(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F6: also when nobody was waiting for it."""
    file.commit([row(1)])
    file.journal.checkpoint_at = 0
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        failing(patch, sqlite3.SQLITE_IOERR_FSYNC)
        file.checkpoint_if_grown()
    assert "the journal could not be moved" in caplog.text
    with pytest.raises(StorageError, match="nothing more is recorded"):
        file.commit([row(2)])
    file.close()
    assert [found.n for found in read(files)] == [1]


def test_a_full_disk_behind_the_scenes_costs_nothing(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5."""
    file.commit([row(1)])
    file.journal.checkpoint_at = 0
    with monkeypatch.context() as patch:
        failing(patch, sqlite3.SQLITE_FULL)
        file.checkpoint_if_grown()
        with pytest.raises(StorageError, match="the disk is full"):
            file.close()  # and is closed all the same
    assert not files.lock.exists()
    assert [found.n for found in read(files)] == [1]


def test_what_a_dead_owner_left_can_wait_for_room_but_not_on_a_bad_disk(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = OwnedFile(files, FakeClock())
    first.commit([row(1)])
    first._ownership.release()  # type: ignore[union-attr]
    second = OwnedFile(files, FakeClock())
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        failing(patch, sqlite3.SQLITE_IOERR_WRITE)
        with pytest.raises(StorageError, match="the disk reports an error"):
            second.claim()
        failing(patch, sqlite3.SQLITE_FULL)
        second.claim()
    assert "not tidied up yet" in caplog.text
    second.commit([row(2)])
    first._disconnect()
    second.close()
    assert [found.n for found in read(files)] == [1, 2]


def test_another_program_that_writes_is_waited_for_and_then_named(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE_S", 0.05)
    file.commit([row(1)])
    with closing(sqlite3.connect(files.db, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="another program keeps it locked"):
            file.commit([row(2)])
    file.commit([row(2)])
    assert len(read(files)) == 2


def test_memory_that_runs_out_is_an_error_and_not_the_end(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8: ENOMEM."""
    file.commit([row(1)])
    with monkeypatch.context() as patch:
        patch.setattr(table, "insert", lambda connection, rows, head: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(StorageError, match="not enough memory"):
            file.commit([row(2)])
    file.commit([row(2)])
    assert len(read(files)) == 2


def test_a_second_owner_is_busy_and_closing_him_disturbs_nobody(files: SessionFiles, file: OwnedFile) -> None:
    """F9: in one process too, where closing a file can drop the locks of others."""
    file.commit([row(1)])
    other = OwnedFile(files, FakeClock())
    with pytest.raises(BusyError):
        other.commit([row(2)])
    other.close()
    # Had our locks gone with his, a stranger would now take himself for the last one, and the journal away.
    stranger = f"import sqlite3; c = sqlite3.connect({str(files.db)!r}); c.execute('SELECT * FROM record').fetchall()"
    subprocess.run([sys.executable, "-c", stranger], timeout=HANG_S, check=True)
    assert files.wal.stat().st_size > 0
    file.commit([row(3)])
    assert [found.n for found in read(files)] == [1, 3]
