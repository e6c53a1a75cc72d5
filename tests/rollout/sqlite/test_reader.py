"""Reading in batches: bounded, in order, and never more than data."""

from __future__ import annotations

import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tertulia.errors import StorageError
from tertulia.protocol.storage import Ttl
from tertulia.rollout.sqlite import reader as reader_module
from tertulia.rollout.sqlite import table
from tertulia.rollout.sqlite.database import MAX_HEADER_BYTES
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.table import damaged_row
from tertulia.rollout.store import Row, StoredRow
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import row, same
from tests.rollout.still_clock import FakeClock


def written(tmp_path: Path, rows: list[Row]) -> Path:
    files = session_files(tmp_path / "home", SESSION_ID)
    file = OwnedFile(files, FakeClock())
    file.commit(rows)
    file.close()
    return files.db


def read(file: Path, after: int = 0) -> list[StoredRow]:
    with closing(SqliteReader(file)) as reader:
        return list(reader.rows(after))


def craft(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("limit", ["rows", "bytes"])
def test_batches_neither_lose_nor_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(reader_module, "_BATCH_ROWS" if limit == "rows" else "_BATCH_BYTES", 3)
    rows = [row(n) for n in (1, 2, 5, 6, 7, 10, 11)]
    file = written(tmp_path, rows)
    assert read(file) == [same(row) for row in rows]
    assert [found.n for found in read(file, after=5)] == [6, 7, 10, 11]


def test_what_comes_while_reading_is_for_the_next_time_and_nothing_is_held_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 5, 6: a slow reader never keeps the owner from erasing."""
    monkeypatch.setattr(reader_module, "_BATCH_ROWS", 2)
    written(tmp_path, [row(n) for n in range(1, 7)])
    owner = OwnedFile(session_files(tmp_path / "home", SESSION_ID), FakeClock())
    owner.claim()
    with closing(SqliteReader(session_files(tmp_path / "home", SESSION_ID).db)) as reader:
        rows = reader.rows()
        assert next(rows).n == 1
        owner.commit([row(7)])
        assert owner.erase_bodies() == 7
        assert [(found.n, found.body is None) for found in rows] == [
            (2, False), (3, True), (4, True), (5, True), (6, True),
        ]  # fmt: skip
        assert [found.n for found in reader.rows(6)] == [7]
    owner.close()


def test_rows_that_vanish_while_reading_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_BATCH_ROWS", 1)
    file = written(tmp_path, [row(1), row(2)])
    with closing(SqliteReader(file)) as reader:
        rows = reader.rows()
        next(rows)
        craft(file, "DELETE FROM record WHERE n = 2")
        assert list(rows) == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"none\.db: it is not there"):
        SqliteReader(tmp_path / "none.db")


def test_closing_twice_is_harmless_and_reading_afterwards_is_an_error(tmp_path: Path) -> None:
    reader = SqliteReader(written(tmp_path, [row(1)]))
    reader.close()
    reader.close()
    with pytest.raises(StorageError):
        list(reader.rows())


def test_a_header_of_any_size_costs_no_memory(tmp_path: Path) -> None:
    """E8: huge values are not read; the record is damaged, the others are sound."""
    file = written(tmp_path, [row(1), row(2), row(3)])
    craft(file, f"UPDATE record SET header = zeroblob({MAX_HEADER_BYTES * 3}) WHERE n = 2")
    tracemalloc.start()
    found = read(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [same(row(1)), damaged_row(2), same(row(3))]
    assert peak < 1_000_000


def test_a_name_of_any_size_is_not_read_either(tmp_path: Path) -> None:
    """E8: what SQLite itself refuses to load is passed over."""
    file = written(tmp_path, [row(1), row(2), row(3), row(4)])
    craft(file, "UPDATE record SET kind = zeroblob(3000000) WHERE n IN (1, 3)")
    reader = SqliteReader(file)
    reader._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2_000_000)
    assert list(reader.rows()) == [damaged_row(1), same(row(2)), damaged_row(3), same(row(4))]
    reader.close()


def test_briefly_what_only_repeats_or_measures_is_left_out(tmp_path: Path) -> None:
    """What is left out counts for the ends all the same: its numbers are taken."""
    echoes = [row(2, kind="asked", type="", seq=None), row(3, kind="event", type="token_count", seq=7)]
    file = written(tmp_path, [row(1), *echoes])
    with closing(SqliteReader(file)) as reader:
        assert [record.n for record in reader.rows(brief=True)] == [1]
        assert [record.n for record in reader.rows()] == [1, 2, 3]
        assert reader.ends() == (3, 7)


def test_briefly_tasks_that_are_over_are_counted_and_not_read(tmp_path: Path) -> None:
    """A task of which more is told than that it began and ended is read, and so is one that has no end."""
    rows = [
        row(1, kind="task", type="task", seq=None, task=1),
        row(2, type="task_started", task=1),
        row(3, type="task_complete", task=1),
        row(4, kind="task", type="task", seq=None, task=4),
        row(5, type="task_started", task=4),
        row(6, type="warning", task=4),
        row(7, type="task_complete", task=4),
        row(8, kind="task", type="task", seq=None, task=8),
        row(9, type="task_started", task=8),
    ]
    with closing(SqliteReader(written(tmp_path, rows))) as reader:
        assert [record.n for record in reader.rows(brief=True)] == [4, 5, 6, 7, 8, 9]
        assert reader.finished() == {1: 2}


def test_briefly_nothing_is_left_out_where_somebody_may_ask_for_the_answer_again(tmp_path: Path) -> None:
    rows = [row(1, kind="submitted", type="", seq=None), row(2, type="task_complete", task=9)]
    with closing(SqliteReader(written(tmp_path, rows))) as reader:
        assert [record.n for record in reader.rows(brief=True)] == [1, 2]


@pytest.mark.parametrize("act", ["ends", "finished"])
def test_what_cannot_be_counted_is_an_error_that_names_the_file(tmp_path: Path, act: str) -> None:
    """F4"""
    file = written(tmp_path, [row(1)])
    reader = SqliteReader(file)
    reader.close()
    with pytest.raises(StorageError, match=file.name):
        getattr(reader, act)()


def test_where_it_cannot_be_told_what_is_over_nothing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(1, kind="task", type="task", seq=None, task=1), row(2, type="task_complete", task=1)]
    monkeypatch.setattr(reader_module, "FIND_FINISHED", "no statement")
    with closing(SqliteReader(written(tmp_path, rows))) as reader:
        assert [record.n for record in reader.rows(brief=True)] == [1, 2]


def test_records_out_of_order_are_damage_and_not_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E8: a crafted tree can break any order."""
    file = written(tmp_path, [row(1), row(2), row(3)])
    crafted = table.SELECT.replace("ORDER BY n", "ORDER BY n = 2")
    monkeypatch.setattr(reader_module, "SELECT", crafted)
    with closing(SqliteReader(file)) as reader:
        rows = reader.rows()
        assert [next(rows).n, next(rows).n] == [1, 3]
        assert list(rows) == []
    monkeypatch.setattr(reader_module, "SELECT", crafted.replace("n > ?", "n <> ?"))
    with closing(SqliteReader(file)) as reader, pytest.raises(StorageError, match="out of order"):
        list(reader.rows(2))


def test_odd_encodings_are_damaged_records(tmp_path: Path) -> None:
    """E8."""
    file = written(tmp_path, [row(1), row(2)])
    craft(file, "UPDATE record SET kind = CAST(X'ff00fe' AS TEXT) WHERE n = 1")
    assert read(file) == [damaged_row(1), same(row(2))]


def test_with_a_clock_a_text_that_has_expired_is_not_read_although_nobody_has_swept_it(tmp_path: Path) -> None:
    """E4: the process was down when it expired, and somebody only looks."""
    clock = FakeClock()
    valid, gone = row(1), msgspec.structs.replace(row(2), ts=clock.now(), policy=Ttl(10))
    file = written(tmp_path, [valid, gone])
    with closing(SqliteReader(file, clock)) as reader:
        assert list(reader.rows()) == [same(valid), same(gone)]
        clock.advance(11)
        first, second = reader.rows()
        assert first == same(valid)
        assert (second.n, second.header, second.body, second.damaged) == (2, gone.header, None, False)
    assert read(file) == [same(valid), same(gone)]


def test_a_link_is_not_read_through(tmp_path: Path) -> None:
    """E7"""
    file = written(tmp_path, [row(1)])
    link = tmp_path / "link.db"
    link.symlink_to(file)
    with pytest.raises(StorageError, match=r"link\.db is not a plain file"):
        SqliteReader(link)


def test_the_newest_terms_of_the_root(tmp_path: Path) -> None:
    root = {"kind": "terms", "type": "", "conversation": 3}
    talk = row(3, None, kind="conversation", type="conversation", conversation=3)
    file = written(tmp_path, [talk, row(4, b"1", **root), row(5, b"2", **root), row(6, b"3", kind="terms", type="")])
    with closing(SqliteReader(file)) as reader:
        terms = reader.root_terms()
    assert terms is not None
    assert (terms.n, terms.body) == (5, b"2")


def test_a_session_without_terms_has_none_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, [row(1)])
    with closing(SqliteReader(file)) as reader:
        assert reader.root_terms() is None
        reader._connection.close()
        with pytest.raises(StorageError):
            reader.root_terms()


def test_what_requests_used_cannot_be_read_from_a_file_without_records(tmp_path: Path) -> None:
    file = written(tmp_path, [row(1)])
    with closing(SqliteReader(file)) as reader:
        assert reader.token_counts() == []
        craft(file, "DROP TABLE record")
        with pytest.raises(StorageError, match=file.name):
            reader.token_counts()
