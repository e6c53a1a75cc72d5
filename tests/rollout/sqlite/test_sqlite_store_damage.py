"""F3, F4: files torn and corrupted at every place come to sound records, damaged ones or one clear error."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.store import StoredRow
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import row, same
from tests.rollout.still_clock import FakeClock

ROWS = [row(n, b'{"text":"%d"}' % n * (900 if n == 5 else 40), conversation=n % 3) for n in range(1, 31)]
IN_FILE = 20


@pytest.fixture
def files(room: Path) -> SessionFiles:
    """Twenty records in the file, ten more in five commits in the journal; the owner died."""
    files = session_files(room / "home", SESSION_ID)
    owner = OwnedFile(files, FakeClock())
    owner.commit(ROWS[:IN_FILE])
    owner.close()
    owner = OwnedFile(files, FakeClock())
    for n in range(IN_FILE, 30, 2):
        owner.commit(ROWS[n : n + 2])
    for path in (files.db, files.wal):
        shutil.copy(path, room / path.name)
    owner.close()
    put_back(files, room)
    return files


def put_back(files: SessionFiles, room: Path, db: bytes | None = None, wal: bytes | None = None) -> None:
    files.shm.unlink(missing_ok=True)
    files.db.write_bytes((room / files.db.name).read_bytes() if db is None else db)
    files.wal.write_bytes((room / files.wal.name).read_bytes() if wal is None else wal)


def read(files: SessionFiles) -> tuple[list[StoredRow], StorageError | None]:
    """All records, or those before the error and the error."""
    found: list[StoredRow] = []
    try:
        with closing(SqliteReader(files.db)) as reader:
            found.extend(reader.rows())
    except StorageError as error:
        return found, error
    return found, None


def check(result: tuple[list[StoredRow], StorageError | None]) -> int:
    """Whatever is not marked as damaged is as it was written; how many there are."""
    found, _ = result
    sound = [record for record in found if not record.damaged]
    assert [same(ROWS[record.n - 1]) for record in sound] == sound
    assert [record.n for record in found] == sorted({record.n for record in found})
    return len(sound)


def noticed(result: tuple[list[StoredRow], StorageError | None]) -> bool:
    """Whether something is said to be wrong."""
    found, error = result
    assert error is None or f"{SESSION_ID}.db" in error.message
    return error is not None or any(record.damaged for record in found)


def test_the_file_is_read_with_its_journal_and_without_its_shared_memory(files: SessionFiles, room: Path) -> None:
    assert check(read(files)) == 30
    put_back(files, room)
    files.shm.write_bytes(b"\xff" * 32768)
    assert check(read(files)) == 30
    put_back(files, room)
    files.shm.write_bytes(b"torn")
    assert check(read(files)) == 30


def test_without_its_journal_the_file_is_as_it_was_before(files: SessionFiles) -> None:
    files.wal.unlink()
    files.shm.unlink(missing_ok=True)
    assert check(read(files)) == IN_FILE


def _tear_journal(files: SessionFiles, room: Path, offsets: Iterable[int]) -> set[int]:
    whole, seen = (room / files.wal.name).read_bytes(), set[int]()
    for offset in offsets:
        put_back(files, room, wal=whole[:offset])
        found = check(read(files))
        assert found >= IN_FILE
        assert (found - IN_FILE) % 2 == 0, "half a commit"
        seen.add(found)
    return seen


def _tear_file(files: SessionFiles, room: Path, offsets: Iterable[int]) -> None:
    whole = (room / files.db.name).read_bytes()
    for offset in offsets:
        put_back(files, room, db=whole[:offset], wal=b"")
        check(read(files))


def _corrupt(files: SessionFiles, room: Path, name: str, offsets: Iterable[int]) -> int:
    """One byte at a time; how many times it made a difference."""
    whole, differences = bytearray((room / getattr(files, name).name).read_bytes()), 0
    for offset in offsets:
        before = whole[offset]
        whole[offset] ^= 0x55
        put_back(files, room, **{name: bytes(whole)})
        whole[offset] = before
        result = read(files)
        differences += check(result) < 30
        # A journal is cut at the wrong byte. A pointer may lead nowhere: then whoever counts notices (`seq`).
        assert check(result) == 30 or noticed(result) or len(result[0]) < 30
    return differences


def test_a_journal_torn_anywhere_is_cut_at_a_commit(files: SessionFiles, room: Path) -> None:
    """F3: the rest intact."""
    size = (room / files.wal.name).stat().st_size
    seen = _tear_journal(files, room, [*range(0, size, 331), size - 1, size])
    assert seen == {20, 22, 24, 26, 28, 30}


def test_a_file_torn_anywhere_is_read_as_far_as_it_goes_or_refused(files: SessionFiles, room: Path) -> None:
    """F3."""
    _tear_file(files, room, range(0, (room / files.db.name).stat().st_size, 509))


@pytest.mark.parametrize("name", ["db", "wal"])
def test_a_wrong_byte_never_comes_back_as_a_sound_record(files: SessionFiles, room: Path, name: str) -> None:
    """F4."""
    size = (room / getattr(files, name).name).stat().st_size
    dice = random.Random(4)
    assert _corrupt(files, room, name, sorted(dice.sample(range(size), 250))) > 10


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["db", "wal"])
def test_no_wrong_byte_at_all_comes_back_as_a_sound_record(files: SessionFiles, room: Path, name: str) -> None:
    """F4: every offset."""
    size = (room / getattr(files, name).name).stat().st_size
    _corrupt(files, room, name, range(size))


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_torn_at_every_offset(files: SessionFiles, room: Path) -> None:
    """F3: every offset."""
    _tear_journal(files, room, range((room / files.wal.name).stat().st_size + 1))
    _tear_file(files, room, range((room / files.db.name).stat().st_size + 1))


def test_a_block_of_zeros_in_the_middle_is_noticed(files: SessionFiles, room: Path) -> None:
    """F4: at every page but the first of the file."""
    whole = (room / files.db.name).read_bytes()
    for page in range(8192, len(whole), 8192):
        put_back(files, room, db=whole[:page] + bytes(8192) + whole[page + 8192 :], wal=b"")
        result = read(files)
        assert noticed(result)
        assert check(result) < IN_FILE


def test_pages_that_changed_places_are_noticed(files: SessionFiles, room: Path) -> None:
    """F4: swapped, duplicated."""
    whole = (room / files.db.name).read_bytes()
    pages = [whole[at : at + 8192] for at in range(0, len(whole), 8192)]
    for first in range(1, len(pages)):
        for second in range(1, len(pages)):
            if first != second:
                mixed = pages.copy()
                mixed[first] = pages[second]
                put_back(files, room, db=b"".join(mixed), wal=b"")
                check(read(files))


def test_other_sessions_do_not_notice(files: SessionFiles, room: Path) -> None:
    """Issue 5: other sessions unaffected."""
    other = session_files(files.home, SESSION_ID.replace("0", "a"))
    owner = OwnedFile(other, FakeClock())
    owner.commit(ROWS)
    put_back(files, room, db=b"garbage" * 1000)
    assert noticed(read(files))
    assert check(read(other)) == 30
    owner.close()


def test_the_owner_of_a_damaged_file_is_told_and_harms_nothing(files: SessionFiles, room: Path) -> None:
    whole = (room / files.db.name).read_bytes()
    put_back(files, room, db=b"SQLite format 4\0" + whole[16:], wal=b"")
    owner = OwnedFile(files, FakeClock())
    with pytest.raises(StorageError, match="it is damaged; restore it"):
        owner.commit([row(99)])
    owner.close()
    assert files.db.read_bytes()[16:] == whole[16:]


def test_what_stands_before_the_damage_is_given(files: SessionFiles, room: Path) -> None:
    """F4: the rest readable, as far as the damage."""
    files.wal.unlink()
    with closing(sqlite3.connect(files.db)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    whole = bytearray((room / files.db.name).read_bytes())
    whole[(pages - 1) * 8192 : pages * 8192] = bytes(8192)
    put_back(files, room, db=bytes(whole), wal=b"")
    found, error = result = read(files)
    assert error is not None
    assert "damaged" in error.message
    assert 5 < check(result) == len(found) < IN_FILE
