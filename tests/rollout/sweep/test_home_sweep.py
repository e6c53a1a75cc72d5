"""Sweeping a home: what may not be there any more is gone before anybody is served."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import HeadersOnly, Ttl
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.sqlite.session_index import list_sessions
from tertulia.rollout.sweep import home_sweep
from tertulia.rollout.sweep.home_sweep import sweep_home
from tertulia.rollout.sweep.retention import HomeSweepResult, Retention
from tests.rollout.homes import add_session, everything_in, session_rows
from tests.rollout.stages import NOW, row
from tests.rollout.still_clock import FakeClock

DAY = 86_400
NO_LIMITS = Retention()


@pytest.fixture
def home(room: Path) -> Path:
    return room / "home"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions that were opened to be swept."""
    seen: list[str] = []

    class Seen(OwnedFile):
        def __init__(self, files: SessionFiles, *args: Any, **kwargs: Any) -> None:
            seen.append(files.session_id)
            super().__init__(files, *args, **kwargs)

    monkeypatch.setattr(home_sweep, "OwnedFile", Seen)
    return seen


def texts(files: SessionFiles) -> int:
    with closing(SqliteReader(files.db)) as reader:
        return sum(record.body is not None for record in reader.rows())


def swept(home: Path, retention: Retention = NO_LIMITS, now: float = NOW) -> HomeSweepResult:
    return sweep_home(home, retention, FakeClock(now))


def test_an_empty_home_is_swept(home: Path) -> None:
    assert swept(home) == HomeSweepResult()
    (home / "sessions").mkdir(parents=True)
    assert swept(home) == HomeSweepResult()


def test_what_expired_while_nobody_ran_is_gone_before_anybody_is_served(home: Path, opened: list[str]) -> None:
    """E4, S002-18: only files that are due are opened."""
    due = add_session(home, session_rows("canary", policy=Ttl(60)))
    later = add_session(home, session_rows("later", policy=Ttl(6000)))
    never = add_session(home, session_rows("never"))
    assert swept(home, now=NOW + 59) == HomeSweepResult()
    assert swept(home, now=NOW + 60) == HomeSweepResult(bodies=3)
    assert opened == [due.session_id]
    assert b"canary" not in everything_in(home)
    assert (texts(due), texts(later), texts(never)) == (0, 3, 3)
    assert swept(home, now=NOW + 61) == HomeSweepResult()


def test_delete_takes_the_records_whole(home: Path) -> None:
    """Issue 5, 3: ttl_action = delete."""
    files = add_session(home, session_rows("canary", policy=Ttl(60)))
    assert swept(home, Retention(ttl_action="delete"), NOW + 60) == HomeSweepResult(rows=3)
    assert b"canary" not in everything_in(home)
    with closing(SqliteReader(files.db)) as reader:
        assert [record.kind for record in reader.rows()] == ["session", "event", "conversation", "agreed"]


def test_a_clock_that_went_back_is_not_believed(home: Path) -> None:
    """E4."""
    add_session(home, [*session_rows("canary", policy=Ttl(60)), row(90, ts=NOW + 100)])
    assert swept(home, now=NOW - 1e7).bodies == 3


def test_what_a_dead_owner_left_in_his_journal_is_tidied_up(home: Path) -> None:
    """E2, E5: an erasure that was cut short is ended, though nobody resumes the session."""
    files = session_files(home, new_session_id())
    pid = os.fork()
    if pid == 0:
        owner = OwnedFile(files, FakeClock(NOW))
        owner.commit(session_rows("canary" * 1000))
        owner._connection.set_trace_callback(  # type: ignore[union-attr]
            lambda statement: os._exit(9) if statement.startswith("VACUUM") else None
        )
        owner.enforce(3, HeadersOnly(), ())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert b"canary" in everything_in(home)
    assert swept(home) == HomeSweepResult()
    assert b"canary" not in everything_in(home)
    assert not files.lock.exists()
    assert texts(files) == 0


def test_remains_of_a_removal_that_was_cut_short_are_removed(home: Path) -> None:
    keep = add_session(home, session_rows("x"))
    gone = session_files(home, new_session_id())
    gone.wal.write_bytes(b"canary")
    gone.unborn.touch()
    (home / "sessions" / "notes.txt").touch()
    assert swept(home) == HomeSweepResult()
    assert sorted(path.name for path in (home / "sessions").iterdir()) == sorted(
        ["index.db", "notes.txt", keep.db.name]
    )


def test_an_old_session_loses_its_texts_and_keeps_its_headers(home: Path, opened: list[str]) -> None:
    """DESIGN, Sessions: expired sessions keep their headers."""
    old, new = add_session(home, session_rows("canary")), add_session(home, session_rows("new", ts=NOW + 5 * DAY))
    size = old.size()
    big = add_session(home, session_rows("canary" * 20_000))
    retention = Retention(max_age_days=3)
    assert swept(home, retention, NOW + 5 * DAY).bodies == 6
    assert set(opened) == {old.session_id, big.session_id}
    assert b"canary" not in everything_in(home)
    assert (texts(old), texts(new)) == (0, 3)
    assert big.size() <= size, "the file has shrunk"
    opened.clear()
    assert swept(home, retention, NOW + 5 * DAY) == HomeSweepResult()
    assert opened == []


def test_an_old_session_goes_whole_where_that_is_said(home: Path) -> None:
    old, new = add_session(home, session_rows("canary")), add_session(home, session_rows("new", ts=NOW + 5 * DAY))
    assert swept(home, Retention(max_age_days=3, ttl_action="delete"), NOW + 5 * DAY).removed == (old.session_id,)
    assert [entry.id for entry in list_sessions(home)] == [new.session_id]


def test_too_much_in_all_costs_the_oldest_their_texts_and_then_themselves(home: Path) -> None:
    """Issue 5, 3: max_total_mb."""
    files = [add_session(home, session_rows("x" * 200_000, ts=NOW + day * DAY)) for day in range(4)]
    assert swept(home, Retention(max_total_mb=1)) == HomeSweepResult()
    assert swept(home, Retention(max_total_mb=0.5)).bodies == 6
    assert [texts(file) for file in files] == [0, 0, 3, 3]
    assert swept(home, Retention(max_total_mb=0.3)).bodies == 3
    assert [texts(file) for file in files] == [0, 0, 0, 3]
    bare = sum(file.size() for file in files[:2])
    result = swept(home, Retention(max_total_mb=(bare + 1) / 1e6))
    assert (result.bodies, result.removed) == (3, (files[0].session_id, files[1].session_id))
    assert [file.db.exists() for file in files] == [False, False, True, True]


def test_a_session_that_is_open_is_left_alone(home: Path) -> None:
    """Its owner sweeps it; live ones never go."""
    files = add_session(home, session_rows("canary", policy=Ttl(60)))
    owner = OwnedFile(files, FakeClock(NOW))
    owner.commit([row(50)])
    for retention in (
        Retention(),
        Retention(max_total_mb=0.001),
        Retention(max_age_days=1, ttl_action="delete"),
        Retention(max_age_days=1),
    ):
        result = swept(home, retention, NOW + 9 * DAY)
        assert result == HomeSweepResult(skipped=(files.session_id,))
    owner.close()
    assert texts(files) == 4


def test_what_cannot_be_swept_is_reported_and_stops_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never fails the start."""
    bad = add_session(home, session_rows("canary", policy=Ttl(60)))
    good = add_session(home, session_rows("canary", policy=Ttl(60)))
    list_sessions(home)
    bad.wal.mkdir()
    result = swept(home, now=NOW + 60)
    assert (result.bodies, len(result.troubles)) == (3, 1)
    assert bad.session_id in result.troubles[0]
    assert texts(good) == 0
    bad.wal.rmdir()

    def remove(files: SessionFiles) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(home_sweep, "remove_files", remove)
    result = swept(home, Retention(max_age_days=1, ttl_action="delete"), NOW + 9 * DAY)
    assert (result.removed, len(result.troubles)) == ((), 2)
    assert "it cannot be written" in result.troubles[0]


def test_a_home_that_cannot_be_read_is_reported(home: Path) -> None:
    home.mkdir()
    (home / "sessions").write_bytes(b"a file")
    result = swept(home)
    assert len(result.troubles) == 1
    assert str(home) in result.troubles[0]
