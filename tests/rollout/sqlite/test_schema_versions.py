"""The form of a file: recognised word for word, or not at all."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.rollout.sqlite.database import APPLICATION_ID, VERSION, blank
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.session_index import list_sessions
from tests.rollout.scribe import NOW, SESSION_ID
from tests.rollout.still_clock import FakeClock

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.db"
    path.write_bytes(blank())
    return path


def change(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_blank_file_is_a_session_without_records(file: Path) -> None:
    assert len(blank()) == 16_384
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with closing(SqliteReader(file)) as reader:
        assert list(reader.rows()) == []


def test_a_newer_form_asks_for_an_upgrade(file: Path) -> None:
    """F12, issue 5: a newer schema."""
    change(file, f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StorageError, match=r"newer version of Tertulia.*upgrade") as refusal:
        SqliteReader(file)
    assert refusal.value.detail == {"file": str(file), "kind": "version", "format": VERSION + 1}
    assert str(file) in refusal.value.message


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_form_is_refused_with_a_way_out(tmp_path: Path, version: int) -> None:
    """Issue 21: nothing of it was released, so nothing reads it."""
    folder = tmp_path / "home" / "sessions"
    folder.mkdir(0o700, parents=True)
    file = folder / f"{SESSION_ID}.db"
    shutil.copy(FIXTURES / f"version_{version}.db", file)
    before = file.read_bytes()
    owner = OwnedFile(session_files(tmp_path / "home", SESSION_ID), FakeClock(NOW), create=False)
    for act in (lambda: SqliteReader(file), owner.claim):
        with pytest.raises(
            StorageError, match=rf"format {version}, this one reads {VERSION}\); move it away"
        ) as refusal:
            act()
        assert refusal.value.detail == {"file": str(file), "kind": "version", "format": version}
    owner.close()
    assert file.read_bytes() == before
    assert [entry.trouble for entry in list_sessions(tmp_path / "home")] == [refusal.value.message]


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA application_id = 7",
        "CREATE TABLE other (x)",
        "CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END",
        "CREATE VIEW v AS SELECT * FROM record",
        "ALTER TABLE record ADD COLUMN more",
        "DROP TABLE record",
    ],
)
def test_any_other_form_is_not_ours(file: Path, statement: str) -> None:
    """E8: a crafted schema could run things when it is read."""
    change(file, statement)
    with pytest.raises(StorageError, match="move it away") as refusal:
        SqliteReader(file)
    assert refusal.value.detail["kind"] == "unknown"
