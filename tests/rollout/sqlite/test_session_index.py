"""The index: always right, never needed, and without a word of anybody."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import BusyError, InvalidParamsError, NotFoundError, StorageError
from tertulia.protocol.ids import new_session_id
from tertulia.protocol.storage import HeadersOnly, StoragePolicy, Ttl
from tertulia.rollout.sqlite import session_index as index_module
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.ownership import Ownership, is_held
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.session_index import (
    SessionEntry,
    find_files,
    find_session,
    latest_session,
    list_sessions,
    refresh,
    remove_session,
)
from tertulia.rollout.sqlite.snapshots import Snapshots
from tertulia.rollout.store import Row
from tests.deadlines import HANG_S
from tests.rollout.homes import add_session, age, encoded, everything_in, session_rows
from tests.rollout.stages import FULL, NOW, row
from tests.rollout.still_clock import FakeClock


@pytest.fixture
def home(room: Path) -> Path:
    return room / "home"


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions that were opened."""
    opened: list[str] = []
    real = index_module._look

    def look(files: Any, blank: SessionEntry, snapshots: Snapshots) -> SessionEntry:
        opened.append(files.session_id)
        return real(files, blank, snapshots)

    monkeypatch.setattr(index_module, "_look", look)
    return opened


def _latest(home: Path, directory: str | None = None) -> str | None:
    entry = latest_session(home, directory)
    return None if entry is None else entry.id


def test_a_home_without_sessions(home: Path) -> None:
    assert list_sessions(home) == []
    assert latest_session(home) is None
    assert not home.exists()


def test_what_an_entry_tells(home: Path) -> None:
    files = add_session(home, session_rows("hello", "again", policy=Ttl(60)))
    (entry,) = list_sessions(home)
    assert entry == SessionEntry(
        id=files.session_id,
        stamp=(int(NOW * 1e9), files.db.stat().st_size, 0, 0),
        size=files.db.stat().st_size,
        created=NOW,
        updated=NOW + 1,
        model="scripted/tour",
        storage={"ttl": 60.0},
        conversations=1,
        items=3,
        events=1,
        bodies=4,
        due=NOW + 60,
        due_rows=NOW + 60,
        reached=entry.reached,
        keeps_less=True,
    )
    assert find_session(home, files.session_id) == entry
    assert [path.name for path in files.db.parent.iterdir() if path.name.startswith(files.session_id)] == [
        files.db.name
    ]


def test_an_entry_adds_up_what_requests_used_as_far_as_their_headers_can_be_read(home: Path) -> None:
    """Issue 23: a list of sessions shows tokens and cost without opening any of them."""
    counts = [
        encoded(usage=[1, 0, 2, 0, 3], cost_usd=0.25),
        encoded(usage=[1, 0, 2, 0, 4]),
        encoded(usage="none", cost_usd="free"),
        b"{",
        b"\xff",
    ]
    rows = [row(20 + place, None, type="token_count", header=header) for place, header in enumerate(counts)]
    add_session(home, [*session_rows("hello"), *rows])
    (entry,) = list_sessions(home)
    assert (entry.trouble, entry.tokens, entry.cost_usd, entry.keeps_less) == (None, 7, 0.25, False)


def test_the_newest_comes_first_and_a_limit_cuts_the_rest(home: Path) -> None:
    ids = [add_session(home, session_rows("x", ts=NOW + age)).session_id for age in (5, 50, 20)]
    assert [entry.id for entry in list_sessions(home)] == [ids[1], ids[2], ids[0]]
    assert [entry.id for entry in list_sessions(home, limit=1)] == [ids[1]]
    assert _latest(home) == ids[1]


def _working_in(*directories: str, age: float, policy: StoragePolicy = FULL, **configured: Any) -> list[Row]:
    """A session whose root works in these, one after the other."""
    rows = session_rows("x", policy=policy, ts=NOW + age)
    header = encoded(model="scripted/tour", **configured)
    rows[1] = row(2, None, HeadersOnly(), type="session_configured", conversation=0, ts=NOW, header=header)
    for place, directory in enumerate(directories):
        body = encoded(title="canary", cwd=directory)
        rows.append(row(20 + place, body, policy, kind="terms", type="", conversation=3, ts=NOW + age))
    return rows


def test_a_session_that_works_in_the_directory_comes_before_newer_ones(home: Path) -> None:
    """Issue 19, 6: where the root works now counts, and no path is in the index."""
    here = add_session(home, _working_in("/elsewhere", "/canary/here", age=5)).session_id
    moved = add_session(home, _working_in("/canary/here", "/elsewhere", age=50)).session_id
    assert _latest(home) == moved
    assert _latest(home, "/canary/here") == here
    assert _latest(home, "/elsewhere") == moved
    assert _latest(home, "/nowhere") == moved
    assert b"canary" not in (home / "sessions" / "index.db").read_bytes()


def test_where_a_session_works_is_not_known_once_that_has_expired(home: Path) -> None:
    """E4: whether or not it was swept by then."""
    expired = add_session(home, _working_in("/here", age=5, policy=Ttl(60)))
    entry = find_session(home, expired.session_id)
    assert (entry.directory_key, entry.works_elsewhere("/there")) == (None, False)
    add_session(home, _working_in("/elsewhere", age=50))
    assert _latest(home, "/there") == expired.session_id


def test_a_session_that_serves_other_programs_is_never_the_latest(home: Path) -> None:
    assert _latest(home) is None
    broker = add_session(home, _working_in("/here", age=50, purpose="broker"))
    assert find_session(home, broker.session_id).purpose == "broker"
    assert _latest(home, "/here") is None
    person = add_session(home, _working_in("/there", age=5)).session_id
    assert _latest(home, "/here") == person


def test_an_index_of_an_older_form_is_read_anew_and_keeps_its_marks(home: Path) -> None:
    """R2: a mark only ever grows."""
    add_session(home, session_rows("x"))
    before, index = list_sessions(home), home / "sessions" / "index.db"
    with closing(sqlite3.connect(index, isolation_level=None)) as connection:
        connection.execute("UPDATE mark SET reached = 77")
        connection.execute("UPDATE entry SET entry = '[]'")
        connection.execute("PRAGMA user_version = 2")
    assert list_sessions(home) == before
    with closing(sqlite3.connect(index)) as connection:
        assert connection.execute("SELECT reached FROM mark").fetchone() == (77,)


def test_only_what_has_changed_is_read_again(home: Path, looked: list[str]) -> None:
    ids = {add_session(home, session_rows("x")).session_id for _ in range(5)}
    first = refresh(home)
    assert set(looked) == ids
    looked.clear()
    assert refresh(home) == first
    assert looked == []
    changed = session_files(home, sorted(ids)[2])
    add_session(home, [row(50)], changed.session_id)
    age(changed, 9)
    assert refresh(home)[changed.session_id].events == 2
    assert looked == [changed.session_id]


def test_a_file_so_young_that_it_could_change_unseen_is_read_again(home: Path, looked: list[str]) -> None:
    files = add_session(home, session_rows("x"))
    os.utime(files.db)
    refresh(home)
    refresh(home)
    assert looked == [files.session_id] * 2


def test_a_live_session_is_read_beside_its_owner(home: Path) -> None:
    files = add_session(home, session_rows("x"))
    owner = OwnedFile(files, FakeClock())
    owner.commit([row(50)])
    (entry,) = list_sessions(home)
    assert (entry.events, entry.stamp[3] > 0) == (2, True)
    assert is_held(files)
    owner.commit([row(51)])
    assert list_sessions(home)[0].events == 3
    owner.close()
    assert not is_held(files)


def test_an_owner_who_comes_while_a_file_is_looked_at_is_noticed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = add_session(home, session_rows("x"))
    real = index_module._summed

    def summed(connection: sqlite3.Connection, blank: SessionEntry) -> SessionEntry:
        if not files.wal.exists():
            files.wal.touch()
            return SessionEntry("nonsense", blank.stamp, 0, 0, 0)
        return real(connection, blank)

    monkeypatch.setattr(index_module, "_summed", summed)
    assert list_sessions(home)[0].id == files.session_id


def test_there_is_no_word_of_a_conversation_in_it(home: Path) -> None:
    """E1, E3: titles and previews are not cached."""
    add_session(home, session_rows("canary one", title="canary two"))
    list_sessions(home)
    assert b"canary" not in (home / "sessions" / "index.db").read_bytes()
    assert b"scripted/tour" in (home / "sessions" / "index.db").read_bytes()


@pytest.mark.parametrize("wrong", ["garbage", "torn", "link", "crafted", "deleted", "newer", "directory"])
def test_an_index_that_is_not_one_is_made_anew(home: Path, room: Path, wrong: str) -> None:
    """A cache that may be deleted at any time."""
    add_session(home, session_rows("x"))
    before = list_sessions(home)
    index = home / "sessions" / "index.db"
    match wrong:
        case "garbage":
            index.write_bytes(os.urandom(20_000))
        case "torn":
            index.write_bytes(index.read_bytes()[:5000])
        case "link":
            index.rename(room / "theirs")
            index.symlink_to(room / "theirs")
        case "deleted":
            index.unlink()
        case "directory":
            index.unlink()
            index.mkdir()
        case _:
            with closing(sqlite3.connect(index, isolation_level=None)) as connection:
                if wrong == "newer":
                    connection.execute("PRAGMA user_version = 99")
                else:
                    connection.execute("UPDATE entry SET entry = '[5, {}, null]'")
    assert list_sessions(home) == before
    assert list_sessions(home) == before
    if wrong != "directory":
        assert index.is_file()
        assert not index.is_symlink()
        assert index.stat().st_mode & 0o777 == 0o600


def test_an_index_that_somebody_else_writes_is_done_without(home: Path) -> None:
    add_session(home, session_rows("x"))
    before = list_sessions(home)
    add_session(home, session_rows("y", ts=NOW - 9))
    with closing(sqlite3.connect(home / "sessions" / "index.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert list_sessions(home)[0] == before[0]
        assert len(list_sessions(home)) == 2
    assert len(list_sessions(home)) == 2


def test_many_who_refresh_at_once_do_each_other_no_harm(home: Path) -> None:
    ids = {add_session(home, session_rows("x")).session_id for _ in range(20)}
    found: list[set[str]] = []
    threads = [threading.Thread(target=lambda: found.append(set(refresh(home)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert found == [ids] * 6


def test_a_session_that_cannot_be_read_says_so_and_the_others_are_there(home: Path) -> None:
    """Issue 5: other sessions unaffected."""
    good = add_session(home, session_rows("x"))
    bad = add_session(home, session_rows("x", ts=NOW + 50))
    bad.db.write_bytes(b"garbage" * 999)
    unknown = session_files(home, new_session_id())
    with closing(sqlite3.connect(unknown.db)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    errors = {entry.id: entry.trouble for entry in list_sessions(home)}
    assert errors[good.session_id] is None
    assert "damaged" in (errors[bad.session_id] or "")
    assert "not a session's record" in (errors[unknown.session_id] or "")
    assert _latest(home) == good.session_id


def test_what_is_not_a_session_is_not_listed(home: Path, room: Path) -> None:
    files = add_session(home, session_rows("x"))
    folder = files.db.parent
    (folder / "notes.db").write_bytes(b"x")
    (folder / f"{new_session_id()}.db").symlink_to(files.db)
    (folder / f"{new_session_id()}.db").mkdir()
    (folder / "README").touch()
    (folder / "x.lock").touch()
    assert [entry.id for entry in list_sessions(home)] == [files.session_id]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE record SET ts = 'x', expires = 'y'",
        "UPDATE record SET header = X'ff'",
        "UPDATE record SET header = CAST('[1]' AS BLOB)",
        "UPDATE record SET header = zeroblob(90000)",
        "UPDATE record SET header = CAST(replace(hex(zeroblob(30000)), '00', '[') AS BLOB)",
        """UPDATE record SET header = CAST('{"model": 5, "storage": {"ttl": "x"}}' AS BLOB)""",
        "DELETE FROM record",
    ],
)
def test_crafted_records_make_a_poor_entry_and_no_error(home: Path, change: str) -> None:
    """E8."""
    files = add_session(home, session_rows("x", policy=Ttl(5)))
    with closing(sqlite3.connect(files.db, isolation_level=None)) as connection:
        connection.execute(change)
    (entry,) = list_sessions(home)
    assert entry.trouble is None
    assert entry.id == files.session_id


def test_headers_that_are_not_there_leave_gaps(home: Path) -> None:
    add_session(home, [row(1, None, HeadersOnly())])
    (entry,) = list_sessions(home)
    assert (entry.model, entry.storage, entry.bodies) == (None, None, 0)


# ── finding and removing ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_there_is_not_found(home: Path) -> None:
    for act in (find_session, find_files, remove_session):
        with pytest.raises(NotFoundError, match="there is no session"):
            act(home, new_session_id())
        with pytest.raises(InvalidParamsError):
            act(home, "../x")


def test_removing_takes_every_file_and_no_other(home: Path) -> None:
    keep, gone = add_session(home, session_rows("kept")), add_session(home, session_rows("canary"))
    gone.wal.write_bytes(b"canary")
    gone.shm.touch()
    remove_session(home, gone.session_id)
    assert b"canary" not in everything_in(home)
    assert [path.name for path in keep.db.parent.iterdir()] == [keep.db.name]
    assert [entry.id for entry in list_sessions(home)] == [keep.session_id]


def test_a_session_that_is_forgotten_leaves_the_index_too(home: Path) -> None:
    add_session(home, session_rows("x"))
    gone = add_session(home, session_rows("y"))
    list_sessions(home)
    remove_session(home, gone.session_id)
    list_sessions(home)
    with closing(sqlite3.connect(home / "sessions" / "index.db")) as connection:
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (1,)


def test_a_session_that_is_open_is_not_removed(home: Path) -> None:
    files = add_session(home, session_rows("x"))
    owner = Ownership.take(files)
    with pytest.raises(BusyError, match="--follow"):
        remove_session(home, files.session_id)
    assert files.db.exists()
    owner.release()
    remove_session(home, files.session_id)
    assert not files.db.exists()


def test_what_cannot_be_removed_is_named(home: Path) -> None:
    files = add_session(home, session_rows("x"))
    files.wal.mkdir()
    with pytest.raises(StorageError, match="not a plain file"):
        remove_session(home, files.session_id)
    files.wal.rmdir()
    files.unborn.mkdir()
    with pytest.raises(StorageError) as refusal:
        remove_session(home, files.session_id)
    assert str(files.db) in refusal.value.message
    assert files.db.exists()
    assert not files.lock.exists()


def test_a_file_that_vanishes_while_the_folder_is_read_is_not_there(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_session(home, session_rows("x"))

    class Vanishing:
        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name = entry.name
            self.is_file = entry.is_file

        def stat(self, **_: object) -> None:
            raise FileNotFoundError

    class Folder:
        def __enter__(self) -> list[Vanishing]:
            return [Vanishing(entry) for entry in real(home / "sessions")]

        def __exit__(self, *_: object) -> None:
            pass

    real = os.scandir
    with monkeypatch.context() as patch:
        patch.setattr(index_module.os, "scandir", lambda path: Folder())
        assert list_sessions(home) == []
