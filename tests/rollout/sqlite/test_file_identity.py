"""R1: the files of a running session are still those that its owner opened, or nothing more is written."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.protocol.storage import Ttl
from tertulia.rollout.sqlite import file_identity, owned_file, table
from tertulia.rollout.sqlite.head import Head
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.ownership import Ownership
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.store import Row
from tests.deadlines import HANG_S
from tests.durability.lost_stores import HARMS
from tests.rollout.scribe import SESSION_ID
from tests.rollout.sqlite.test_owned_file import failing, read
from tests.rollout.stages import NOW, row
from tests.rollout.still_clock import FakeClock


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return session_files(tmp_path / "home", SESSION_ID)


@pytest.fixture
def file(files: SessionFiles) -> Iterator[OwnedFile]:
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(1, b"x" * 30_000), row(2)])
    yield file
    file.close() if file._broken is None else refused_close(file)


def refused_close(file: OwnedFile) -> None:
    with pytest.raises(StorageError, match="while the session was running") as refusal:
        file.close()
    assert refusal.value.detail["kind"] == "lost"


@pytest.mark.parametrize("harm", HARMS)
def test_nothing_is_committed_to_a_store_that_is_not_there(files: SessionFiles, file: OwnedFile, harm: str) -> None:
    """R1: told with the file that is meant, and from then on every time."""
    file._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # type: ignore[union-attr]
    file.commit([row(3, b"x" * 30_000)])
    HARMS[harm](files)
    for _ in range(2):
        with pytest.raises(StorageError, match="so nothing more is recorded there; put it back") as refusal:
            file.commit([row(4)])
        assert refusal.value.detail == {"file": str(files.db), "kind": "lost"}
    with pytest.raises(StorageError, match="while the session was running"):
        file.sweep(NOW, "delete")


@pytest.mark.parametrize("how", ["PASSIVE", "TRUNCATE"])
def test_a_journal_that_another_program_moved_into_the_file_is_no_loss(
    files: SessionFiles, file: OwnedFile, how: str
) -> None:
    """R1: what counts is whether everything is found."""
    other = (
        f"import sqlite3; print(sqlite3.connect({str(files.db)!r}).execute('PRAGMA wal_checkpoint({how})').fetchone())"
    )
    subprocess.run([sys.executable, "-c", other], timeout=HANG_S, check=True)
    file.commit([row(3)])
    file.commit([row(4)])
    assert [found.n for found in read(files)] == [1, 2, 3, 4]


_DELETIONS = ("DELETE FROM record WHERE n = 1", "DELETE FROM record WHERE n > 0")
_OTHERS = "conversation, 0, 0, expires, header_crc, body_crc, header, body"
_EDITS = (
    *_DELETIONS,
    "UPDATE record SET n = 7 WHERE n = 2",
    "UPDATE record SET header_crc = header_crc + 1, header = x'7b7d' WHERE n = 2",
    f"INSERT INTO record SELECT 9, kind, type, ts, 9, {_OTHERS} FROM record",
)


# What is edited in a former life, and not deleted, is found by `--verify` and by whoever reads it.
@pytest.mark.parametrize(("edit", "lives"), [*((edit, 1) for edit in _EDITS), *((edit, 2) for edit in _DELETIONS)])
def test_a_store_that_another_program_edits_is_noticed_at_the_next_answer(
    files: SessionFiles, file: OwnedFile, edit: str, lives: int
) -> None:
    """R1: by way of SQLite, so that every reader finds it so; messages went on to be completed."""
    if lives == 2:
        file.close()
        file.commit([row(3)])
    edit = f"{edit} WHERE n = 2" if edit.startswith("INSERT") else edit
    other = f"import sqlite3; c = sqlite3.connect({str(files.db)!r}); c.execute({edit!r}); c.commit()"
    subprocess.run([sys.executable, "-c", other], timeout=HANG_S, check=True)
    for _ in range(2):
        with pytest.raises(StorageError, match="was changed by another program") as refusal:
            file.commit([row(4)])
        assert refusal.value.detail == {"file": str(files.db), "kind": "lost"}


def test_a_file_that_was_only_touched_is_the_same_file(files: SessionFiles, file: OwnedFile) -> None:
    os.utime(files.db)
    file.commit([row(3)])
    assert len(read(files)) == 3


def test_what_its_owner_did_and_could_not_end_is_no_loss(files: SessionFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: the file was made anew and shorter when the disk was full. Seen by `test_sqlite_faults` at one `openat`."""
    file = OwnedFile(files, FakeClock(NOW), "full")
    file.commit([row(n, b"x" * 30_000, policy=Ttl(1)) for n in range(1, 5)])
    file.close()

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(owned_file, "flush", full)
        with pytest.raises(StorageError, match="the disk is full"):
            file.sweep(NOW + 10, "headers_only")
    file.commit([row(9)])
    file.close()
    assert [found.n for found in read(files)] == [1, 2, 3, 4, 9]


def test_what_cannot_be_looked_at_now_is_looked_at_again(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: too many files are open. Nothing is committed, and nothing is called lost."""

    def crowded(path: Path) -> sqlite3.Connection:
        raise OSError(errno.EMFILE, "crowded")

    os.utime(files.wal)
    with monkeypatch.context() as patch:
        patch.setattr(file_identity, "connect_reader", crowded)
        with pytest.raises(StorageError, match="too many files are open"):
            file.commit([row(3)])
    file.commit([row(4)])
    assert [found.n for found in read(files)] == [1, 2, 4]


def test_a_look_that_fails_is_told_as_what_it_is_and_loses_nothing(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1"""

    def failing_look(connection: sqlite3.Connection) -> int:
        raise OSError(errno.EMFILE, "crowded")

    with monkeypatch.context() as patch:
        patch.setattr(file_identity, "_changes_of_others", failing_look)
        with pytest.raises(StorageError, match="too many files are open"):
            file.commit([row(3)])
    file.commit([row(4)])
    assert [found.n for found in read(files)] == [1, 2, 4]


def test_a_file_that_is_of_another_form_by_now_is_lost(files: SessionFiles, file: OwnedFile) -> None:
    """R1"""
    other = f"import sqlite3; sqlite3.connect({str(files.db)!r}).execute('PRAGMA user_version = 99')"
    subprocess.run([sys.executable, "-c", other], timeout=HANG_S, check=True)
    with pytest.raises(StorageError, match="was cut short or overwritten"):
        file.commit([row(3)])


def test_what_is_deleted_while_the_disk_takes_its_time_is_noticed_before_the_answer(
    files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: durability full; and with either durability when the journal itself goes."""
    insert = table.insert

    def slowly(gone: Path) -> None:
        def late(connection: sqlite3.Connection, rows: Sequence[Row], head: Head) -> int:
            size = insert(connection, rows, head)
            gone.unlink()
            return size

        monkeypatch.setattr(table, "insert", late)

    for durability, gone in (("full", files.db), ("full", files.wal), ("normal", files.wal)):
        file = OwnedFile(files, FakeClock(NOW), durability)  # type: ignore[arg-type]
        file.claim()
        slowly(gone)
        with pytest.raises(StorageError, match="deleted or moved away"):
            file.commit([row(1)])
        refused_close(file)
        for path in (files.db, files.wal, files.shm):
            path.unlink(missing_ok=True)


def test_a_file_that_is_opened_anew_must_be_the_one_it_was(
    files: SessionFiles, file: OwnedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: after an error of the disk; and one that is gone is not made anew."""
    with monkeypatch.context() as patch:
        failing(patch, sqlite3.SQLITE_IOERR_WRITE)
        file.journal.checkpoint_at = 0
        file.checkpoint_if_grown()
    assert file._connection is None
    files.db.rename(files.home / "away")
    with pytest.raises(StorageError, match="it is not there"):
        file.commit([row(3)])
    assert not files.db.exists()
    (files.home / "copy").write_bytes((files.home / "away").read_bytes())
    (files.home / "copy").rename(files.db)
    with pytest.raises(StorageError, match="was replaced by another file"):
        file.commit([row(3)])


def test_a_journal_that_is_too_long_is_not_moved_into_another_file(
    files: SessionFiles, file: OwnedFile, caplog: pytest.LogCaptureFixture
) -> None:
    HARMS["db replaced"](files)
    file.journal.checkpoint_at = 0
    file.checkpoint_if_grown()
    assert "was replaced by another file" in caplog.text


def test_a_lock_that_another_owner_has_by_now_is_left_alone(files: SessionFiles, file: OwnedFile) -> None:
    """R1: ours was deleted, so another process could become the owner."""
    files.lock.unlink()
    other = Ownership.take(files)
    with pytest.raises(StorageError, match=r"lock was replaced"):
        file.commit([row(3)])
    refused_close(file)
    assert files.lock.exists()
    other.release()
    assert not files.lock.exists()


def test_room_is_made_only_in_the_journal_that_is_known(files: SessionFiles, file: OwnedFile) -> None:
    identity = file._identity
    assert identity is not None
    size = files.wal.stat().st_size
    assert identity.make_room(100) == size + 100
    assert files.wal.read_bytes()[size:] == bytes(100)
    # It looks otherwise now: another program may have been there.
    assert identity.make_room(100) == size
    assert files.wal.stat().st_size == size + 100
    os.truncate(files.wal, size)
    identity.note_commit()
    away = files.wal.rename(files.wal.with_name("away"))
    files.wal.symlink_to(away)
    assert identity.make_room(100) == size
    assert away.stat().st_size == size
    files.wal.unlink()
    assert identity.make_room(100) == size
    assert not files.wal.exists()
    away.rename(files.wal)
