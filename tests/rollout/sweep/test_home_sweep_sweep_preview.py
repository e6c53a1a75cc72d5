"""What a sweep would do: the same that it does then, and nothing is touched before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tertulia.protocol.storage import Ttl
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.session_files import SessionFiles, sessions_folder
from tertulia.rollout.sweep.home_sweep import preview_sweep, sweep_home
from tertulia.rollout.sweep.retention import HomeSweepResult, Retention
from tests.rollout.homes import add_session, session_rows
from tests.rollout.stages import NOW, row
from tests.rollout.still_clock import FakeClock

DAY = 86_400


@pytest.fixture
def home(room: Path) -> Path:
    return room / "home"


def content(home: Path) -> dict[str, bytes]:
    """All but the index, which is only a cache."""
    return {path.name: path.read_bytes() for path in sessions_folder(home).iterdir() if path.name != "index.db"}


def foretold(home: Path, retention: Retention, now: float) -> HomeSweepResult:
    """What is foretold; it must come true, and only then."""
    before = content(home)
    preview = preview_sweep(home, retention, FakeClock(now))
    assert content(home) == before
    assert sweep_home(home, retention, FakeClock(now)) == preview
    return preview


@pytest.mark.parametrize("action", ["headers_only", "delete"])
def test_what_expires_is_foretold(home: Path, action) -> None:
    """X-31."""
    add_session(home, session_rows("due", policy=Ttl(60)))
    add_session(home, session_rows("later", policy=Ttl(6000)))
    add_session(home, session_rows("never"))
    assert foretold(home, Retention(ttl_action=action), NOW + 59) == HomeSweepResult()
    due = foretold(home, Retention(ttl_action=action), NOW + 60)
    assert due == (HomeSweepResult(bodies=3) if action == "headers_only" else HomeSweepResult(rows=3))
    assert foretold(home, Retention(ttl_action=action), NOW + 61) == HomeSweepResult()


@pytest.mark.parametrize("act", [preview_sweep, sweep_home])
def test_it_tells_how_many_sessions_are_read_and_then_how_many_are_done(home: Path, act) -> None:
    for name in ("one", "two", "three"):
        add_session(home, session_rows(name))
    steps: list[tuple[int, int]] = []
    act(home, Retention(), FakeClock(NOW), progress=lambda done, total: steps.append((done, total)))
    assert steps == 2 * [(0, 3), (1, 3), (2, 3)]
    # What has not changed is not read again.
    steps.clear()
    act(home, Retention(), FakeClock(NOW), progress=lambda done, total: steps.append((done, total)))
    assert steps == [(0, 3), (1, 3), (2, 3)]


def test_a_text_that_goes_for_two_reasons_is_counted_once(home: Path) -> None:
    add_session(home, [*session_rows("due", policy=Ttl(60)), row(50, b"stays", conversation=3)])
    assert foretold(home, Retention(max_age_days=1), NOW + 2 * DAY) == HomeSweepResult(bodies=4)


def test_sessions_that_would_go_are_named(home: Path) -> None:
    old = add_session(home, session_rows("old"))
    assert foretold(home, Retention(max_age_days=1, ttl_action="delete"), NOW + 2 * DAY).removed == (old.session_id,)


def test_what_is_too_much_is_foretold_by_an_estimate(home: Path) -> None:
    """The oldest lose their texts first; what a file shrinks to is known only when it has shrunk."""
    first = add_session(home, session_rows("x" * 300_000))
    second = add_session(home, session_rows("y" * 300_000, ts=NOW + 10))
    before = content(home)
    limit = Retention(max_total_mb=0.4)
    assert preview_sweep(home, limit, FakeClock(NOW + 20)) == HomeSweepResult(bodies=3)
    everything = preview_sweep(home, Retention(max_total_mb=0.000001), FakeClock(NOW + 20))
    assert everything == HomeSweepResult(bodies=6, removed=(first.session_id, second.session_id))
    assert content(home) == before
    assert sweep_home(home, limit, FakeClock(NOW + 20)) == HomeSweepResult(bodies=3)


@pytest.fixture
def in_use(home: Path) -> Iterator[SessionFiles]:
    files = add_session(home, session_rows("mine", policy=Ttl(60)))
    owner = OwnedFile(files, FakeClock(NOW))
    owner.claim()
    yield files
    owner.close()


@pytest.mark.parametrize("limits", [Retention(), Retention(max_age_days=1, ttl_action="delete")])
def test_a_session_in_use_is_left_to_its_owner(home: Path, in_use: SessionFiles, limits: Retention) -> None:
    assert preview_sweep(home, limits, FakeClock(NOW + 2 * DAY)) == HomeSweepResult(skipped=(in_use.session_id,))


def test_what_cannot_be_read_is_told(home: Path) -> None:
    files = add_session(home, session_rows("due", policy=Ttl(60)))
    assert preview_sweep(home, Retention(), FakeClock(NOW)) == HomeSweepResult()
    age = files.db.stat()
    content = bytearray(files.db.read_bytes())
    content[60:64] = b"\0\0\0\x63"  # a version that nobody has made yet
    files.db.write_bytes(content)
    os.utime(files.db, ns=(age.st_atime_ns, age.st_mtime_ns))
    (error,) = preview_sweep(home, Retention(), FakeClock(NOW + 60)).troubles
    assert "upgrade" in error
    files.db.write_bytes(b"not a database" * 4096)
    os.truncate(files.db, age.st_size)
    os.utime(files.db, ns=(age.st_atime_ns, age.st_mtime_ns))
    (error,) = preview_sweep(home, Retention(), FakeClock(NOW + 60)).troubles
    assert str(files.db) in error


def test_remains_of_a_removal_that_was_cut_short_stay_until_they_are_swept(home: Path) -> None:
    files = add_session(home, session_rows("x"))
    files.db.rename(files.unborn)
    assert preview_sweep(home, Retention(), FakeClock(NOW)) == HomeSweepResult()
    assert files.unborn.exists()
