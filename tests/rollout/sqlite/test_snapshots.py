"""Looks at many files through one connection: what each holds, and nothing of the one before."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.rollout.sqlite import snapshots as snapshots_module
from tertulia.rollout.sqlite.database import blank
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.session_files import SessionFiles
from tertulia.rollout.sqlite.snapshots import Snapshots
from tests.rollout.homes import add_session, session_rows
from tests.rollout.stages import row
from tests.rollout.still_clock import FakeClock


def _texts(snapshots: Snapshots, files: SessionFiles) -> int:
    with snapshots.look(str(files.db)) as connection:
        return connection.execute("SELECT count(*) FROM record WHERE n > 0").fetchone()[0]


@pytest.fixture
def home(room: Path) -> Path:
    return room / "home"


def test_files_are_looked_at_one_after_the_other_and_nothing_is_left_beside_them(home: Path) -> None:
    files = [add_session(home, session_rows(*["x"] * count)) for count in (1, 3, 2)]
    names = sorted(os.listdir(home / "sessions"))
    with closing(Snapshots()) as snapshots:
        counts = [_texts(snapshots, one) for one in files]
    assert [count - counts[0] for count in counts] == [0, 2, 1]
    assert sorted(os.listdir(home / "sessions")) == names


def test_a_large_file_is_read_where_it_lies(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = add_session(home, session_rows("x"))
    count = _texts(Snapshots(), files)
    monkeypatch.setattr(snapshots_module, "_SMALL_BYTES", 1024)
    with closing(Snapshots()) as snapshots:
        assert _texts(snapshots, files) == count
        snapshots.close()


def test_a_damaged_file_is_told_and_the_next_one_is_read(home: Path) -> None:
    sound, damaged = (add_session(home, session_rows("x")) for _ in range(2))
    owner = OwnedFile(damaged, FakeClock())
    owner.commit([row(n, b'"' + b"x" * 5000 + b'"') for n in range(50, 80)])
    owner.close()
    content = damaged.db.read_bytes()
    with closing(Snapshots()) as snapshots:
        count = _texts(snapshots, sound)
        for wrong in (
            b"",
            content[:16],
            content[:600],
            b"no database at all" * 500,
            content[:8192] + b"\xff" * (len(content) - 8192),
            blank().replace(b"trtu", b"else"),
        ):
            damaged.db.write_bytes(wrong)
            with pytest.raises((sqlite3.DatabaseError, StorageError)):
                _texts(snapshots, damaged)
            assert _texts(snapshots, sound) == count


def test_what_is_not_there_or_no_plain_file_is_an_error(home: Path) -> None:
    files = add_session(home, session_rows("x"))
    files.db.unlink()
    with closing(Snapshots()) as snapshots:
        with pytest.raises(sqlite3.OperationalError):
            _texts(snapshots, files)
        files.db.mkdir()
        with pytest.raises(StorageError, match="plain file"):
            _texts(snapshots, files)
