"""Opening: with our settings, leaving nothing open behind when it fails, and from places that cannot be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tertulia.errors import StorageError
from tertulia.rollout.sqlite import database, table
from tertulia.rollout.sqlite.database import (
    VERSION,
    blank,
    close_reader,
    connect_owner,
    connect_reader,
    connect_snapshot,
)
from tertulia.rollout.sqlite.head import Head
from tests.rollout.stages import row


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a session's ?file#1.db"
    path.write_bytes(blank())
    return path


@pytest.mark.parametrize(("durable", "synchronous"), [(False, 1), (True, 2)])
def test_an_owner_s_settings(file: Path, durable: bool, synchronous: int) -> None:
    with closing(connect_owner(file, durable=durable)) as connection:
        settings = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("secure_delete", "synchronous", "wal_autocheckpoint", "temp_store", "trusted_schema")
        }
        assert connection.execute("PRAGMA journal_mode").fetchone() == (b"wal",)
    assert settings == {
        "secure_delete": 1, "synchronous": synchronous, "wal_autocheckpoint": 0, "temp_store": 2, "trusted_schema": 0,
    }  # fmt: skip


def test_a_passer_by_leaves_no_trace_and_a_reader_writes_nothing(file: Path) -> None:
    with closing(connect_snapshot(file)):
        assert list(file.parent.iterdir()) == [file]
    with closing(connect_reader(file)) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM record")


def beside(file: Path) -> set[str]:
    """What lies there besides the file itself."""
    return {path.name.removeprefix(file.name) for path in file.parent.iterdir()} - {""}


def test_who_read_leaves_nothing_beside_the_file(file: Path) -> None:
    before = file.read_bytes()
    first, second = connect_reader(file), connect_reader(file)
    assert beside(file) == {"-wal", "-shm"}
    close_reader(first, file)
    assert second.execute("SELECT count(*) FROM record WHERE n > 0").fetchone() == (0,)
    close_reader(second, file)
    close_reader(second, file)
    assert beside(file) == set()
    assert file.read_bytes() == before


def test_who_is_refused_leaves_nothing_beside_the_file(file: Path) -> None:
    """F12."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StorageError, match="upgrade"):
        connect_reader(file)
    assert beside(file) == set()


def test_who_read_takes_nothing_from_an_owner(file: Path) -> None:
    """Also while the journal is empty: it is his, and he goes on."""
    with closing(connect_owner(file, durable=False)) as owner:
        reader = connect_reader(file)
        close_reader(reader, file)
        assert beside(file) == {"-wal", "-shm"}
        table.insert(owner, [row(1)], Head.of(owner))
        reader = connect_reader(file)
        assert reader.execute("SELECT count(*) FROM record WHERE n > 0").fetchone() == (1,)
        close_reader(reader, file)
    assert beside(file) == set()


def test_what_a_dead_owner_left_in_his_journal_stays_there(file: Path, tmp_path: Path) -> None:
    """F1: whoever looks changes nothing."""
    with closing(connect_owner(file, durable=False)) as owner:
        table.insert(owner, [row(1)], Head.of(owner))
        after = tmp_path / "after"
        after.mkdir()
        for name in ("", "-wal"):
            shutil.copyfile(f"{file}{name}", after / f"x.db{name}")
    before = (after / "x.db-wal").read_bytes()
    reader = connect_reader(after / "x.db")
    assert reader.execute("SELECT count(*) FROM record WHERE n > 0").fetchone() == (1,)
    close_reader(reader, after / "x.db")
    assert (after / "x.db-wal").read_bytes() == before


@pytest.mark.parametrize("connect", [connect_reader, connect_snapshot, lambda file: connect_owner(file, durable=False)])
@pytest.mark.parametrize("content", [b"", b"not a database at all" * 300, blank()[:5000]])
def test_what_cannot_be_opened_is_closed_again(file: Path, connect: Any, content: bytes) -> None:
    file.write_bytes(content)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises((StorageError, sqlite3.DatabaseError)):
        connect(file)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    for connect in (connect_reader, connect_snapshot, lambda file: connect_owner(file, durable=False)):
        with pytest.raises(sqlite3.OperationalError):
            connect(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_where_no_journal_can_be_made_the_file_is_read_as_it_lies(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: read-only media. The real thing is in test_sqlite_places.py; SQLite's refusal is played here."""
    real = database._connect

    def connect(file: Path, how: str) -> sqlite3.Connection:
        if how == "mode=ro":
            raise sqlite3.OperationalError("unable to open database file")
        return real(file, how)

    monkeypatch.setattr(database, "_connect", connect)
    with pytest.raises(sqlite3.OperationalError):
        connect_reader(file)  # the folder could be written: it is another error
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    with closing(connect_reader(file)) as connection:
        assert connection.execute("SELECT count(*) FROM record WHERE n > 0").fetchone() == (0,)
    file.with_name(file.name + "-wal").write_bytes(b"")
    connect_reader(file).close()
    file.with_name(file.name + "-wal").write_bytes(b"what was committed last")
    with pytest.raises(sqlite3.OperationalError):
        connect_reader(file)
