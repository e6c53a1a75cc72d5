"""R2: what was deleted from a record, at its end or in the middle, is known by its head."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.protocol.storage import NoStorage, Ttl
from tertulia.rollout.sqlite.database import connect_owner
from tertulia.rollout.sqlite.head import Head, Proof, count_missing, load
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import NOW, row
from tests.rollout.still_clock import FakeClock

END = {"type": "task_complete"}


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return session_files(tmp_path / "home", SESSION_ID)


def write(files: SessionFiles, *numbers: int, end: bool = True) -> None:
    """One life of a session."""
    file = OwnedFile(files, FakeClock(NOW))
    for n in numbers:
        file.commit([row(n, **END) if end and n == numbers[-1] else row(n)])
    file.close()


def proof(files: SessionFiles) -> Proof:
    with closing(SqliteReader(files.db)) as reader:
        return reader.proof()


def missing(files: SessionFiles) -> int:
    with closing(SqliteReader(files.db)) as reader:
        return reader.missing()


def by_hand(files: SessionFiles, *statements: str) -> None:
    with closing(sqlite3.connect(files.db, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_record_of_several_lives_is_whole(files: SessionFiles) -> None:
    """R2: numbers may have gaps, and the last life may have ended no task."""
    write(files, 1, 2, 5)
    write(files, 6, 7, 9)
    write(files, 10, 12, end=False)
    write(files)
    assert (proof(files), missing(files)) == (Proof(), 0)


@pytest.mark.parametrize(
    ("where", "expected", "gone"),
    [
        ("n >= 9", "1 record is missing at the end: 9 was written last, and 7 is the last that is there", 1),
        ("n >= 6", "3 records are missing at the end: 9 was written last, and 5 is the last that is there", 3),
        ("n = 2", "1 record is missing between 1 and 5", 1),
        ("n IN (6, 7)", "2 records are missing between 5 and 9", 2),
        ("n > 0", "3 records are missing at the end: 5 was written last, and 0 is the last that is there", 6),
    ],
)
def test_what_was_deleted_is_named(files: SessionFiles, where: str, expected: str, gone: int) -> None:
    """R2: from the last message on, or in the middle; all of them, too."""
    write(files, 1, 2, 5)
    write(files, 6, 7, 9)
    by_hand(files, f"DELETE FROM record WHERE {where} AND n > 0")
    assert proof(files).faults[0] == expected
    assert missing(files) == gone


def test_a_record_in_another_s_place_is_found(files: SessionFiles) -> None:
    """R2: as many as there were, and not the same."""
    write(files, 1, 2, 3)
    by_hand(files, "UPDATE record SET header_crc = header_crc + 1 WHERE n = 2")
    assert proof(files).faults == ("records 1 to 3 are not those that were written",)
    by_hand(files, "UPDATE record SET header_crc = 'text' WHERE n = 2")
    assert proof(files).faults == ("records 1 to 3 are not those that were written",)
    write(files, 4)
    assert missing(files) == 0


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM record WHERE n = -2",
        "UPDATE record SET header = X'5b5d' WHERE n = -2",
        "UPDATE record SET header = '[]' WHERE n = -2",
        "UPDATE record SET header = X'22', header_crc = 123907689 WHERE n = -2",
    ],
)
def test_a_head_that_was_removed_or_changed_is_no_proof(files: SessionFiles, statement: str) -> None:
    """R2: nor is it forgotten when the session goes on."""
    write(files, 1, 2)
    by_hand(files, statement)
    assert "was removed or cannot be read" in proof(files).faults[0]
    assert missing(files) == -1
    write(files, 3)
    assert proof(files).faults == (
        "the head of the record was gone, or an older one, when the session was resumed; what was lost is not known",
    )
    assert missing(files) == -1
    file = OwnedFile(files, FakeClock(NOW))
    file.enforce(1, NoStorage(), ())
    file.close()
    assert missing(files) == -1


def test_a_loss_is_not_forgotten_when_the_session_goes_on(files: SessionFiles) -> None:
    """R2: what is written later is proved, and the loss is still said."""
    write(files, 1, 2, 3)
    by_hand(files, "DELETE FROM record WHERE n = 2")
    write(files, 4)
    write(files, 5)
    assert missing(files) == 1
    assert proof(files).faults == (
        "1 record is missing between 1 and 3",
        "1 record is missing since before the session was resumed",
    )
    by_hand(files, "DELETE FROM record WHERE n = 4")
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(6, conversation=6), row(7)])
    file.enforce(1, NoStorage(), ("task_complete",))
    file.close()
    assert missing(files) == 2
    assert proof(files).faults == ("2 records are missing since before the session was resumed",)


def test_records_that_were_erased_by_their_policy_are_not_missing(files: SessionFiles) -> None:
    """R2, S002-17: `none`, and texts that expired whole."""
    file = OwnedFile(files, FakeClock(NOW))
    file.commit(
        [
            row(1, type="conversation"),
            row(2),
            row(3, policy=Ttl(5)),
            row(4, conversation=4),
            row(5, conversation=4, **END),
        ]
    )
    assert file.sweep(NOW + 60, "delete").rows == 1
    assert proof(files) == Proof()
    file.enforce(1, NoStorage(), ("conversation",))
    file.commit([row(6, conversation=4, **END)])
    assert proof(files) == Proof()
    file.close()
    assert (proof(files), missing(files)) == (Proof(), 0)


def test_an_erasure_that_fails_leaves_the_head_as_it_was(files: SessionFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """R2: on a full disk, with the connection that stays open."""
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(1, policy=Ttl(5)), row(2, **END)])
    error = sqlite3.OperationalError("full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL  # type: ignore[attr-defined]

    def full(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Head, "write", full)
        with pytest.raises(StorageError, match="the disk is full"):
            file.sweep(NOW + 60, "delete")
    file.commit([row(3, **END)])
    file.close()
    assert (proof(files), missing(files)) == (Proof(), 0)


def test_what_came_after_the_last_answer_is_said_where_its_owner_died(files: SessionFiles) -> None:
    """R2: nothing is known of what followed; the next owner takes it in."""
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(1), row(2, **END)])
    file.commit([row(3)])
    assert proof(files) == Proof(uncovered=1)
    file._disconnect()
    file._ownership.release()  # type: ignore[union-attr]
    write(files, 4)
    assert proof(files) == Proof()


def test_a_head_of_very_many_lives_becomes_short_again(files: SessionFiles) -> None:
    """R2: and what was missing stays known."""
    for n in range(1, 67):
        write(files, n)
        if n == 30:
            by_hand(files, "DELETE FROM record WHERE n = 7")
    with closing(connect_owner(files.db, durable=False)) as connection:
        parts = load(connection)
        assert parts is not None
        assert len(parts) < 5
        assert (sum(part.count for part in parts), count_missing(connection)) == (65, 1)
    assert proof(files).faults == ("1 record is missing since before the session was resumed",)


def test_a_file_that_cannot_be_read_says_so(files: SessionFiles) -> None:
    write(files, 1)
    with closing(SqliteReader(files.db)) as reader:
        by_hand(files, "DROP TABLE record")
        for ask in (reader.proof, reader.missing):
            with pytest.raises(StorageError):
                ask()


def test_a_cell_that_is_no_checksum_does_not_keep_a_file_from_being_opened(files: SessionFiles) -> None:
    """R2: records after the last head are read with whatever stands there, and are chained from then on."""
    write(files, 1, 2)
    by_hand(files, "DELETE FROM record WHERE n = -2", "UPDATE record SET header_crc = 'text' WHERE n = 2")
    write(files, 3)
    assert missing(files) == -1
    with closing(connect_owner(files.db, durable=False)) as connection:
        assert Head.of(connection).is_in(connection)
    by_hand(files, "UPDATE record SET header_crc = 4294967296 * 5 WHERE n = 3", "DELETE FROM record WHERE n = -2")
    with closing(connect_owner(files.db, durable=False)) as connection:
        assert Head.of(connection).is_in(connection)
