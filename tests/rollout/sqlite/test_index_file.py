"""R2: how far a session has come stands in the index too, so that an older copy of its file is known for one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from tertulia.rollout.sqlite.head import Proof
from tertulia.rollout.sqlite.index_file import NAME, connect_index, mark_of, note_mark
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles, session_files
from tertulia.rollout.sqlite.session_index import list_sessions
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import NOW, row
from tests.rollout.still_clock import FakeClock


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return session_files(tmp_path / "home", SESSION_ID)


def live(files: SessionFiles, numbers: Iterable[int]) -> None:
    """Answer so often."""
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([row(n, type="task_complete") for n in numbers])
    file.close()


def judged(files: SessionFiles) -> tuple[Proof, int]:
    with closing(SqliteReader(files.db)) as reader:
        return reader.proof(), reader.missing()


def test_an_older_copy_is_no_proof_and_is_still_known_when_the_session_has_gone_on(
    files: SessionFiles, tmp_path: Path
) -> None:
    """R2: with a head that is sound in itself; and without one, as an earlier version had none."""
    live(files, (1, 2))
    shutil.copyfile(files.db, tmp_path / "old")
    list_sessions(files.home)
    live(files, (3, 4))
    assert judged(files) == (Proof(), 0)
    shutil.copyfile(tmp_path / "old", files.db)
    proof, missing = judged(files)
    assert proof.faults == ("it had come to event 4, and this comes to 2: it is an older copy, or its end was cut",)
    assert missing == -1
    list_sessions(files.home)
    assert mark_of(files.db) == 4, "whoever looks at the copy takes nothing back"
    live(files, range(5, 9))
    proof, missing = judged(files)
    assert "was gone, or an older one, when the session was resumed" in proof.faults[0]
    assert missing == -1


def test_what_a_head_knows_is_told_in_its_own_words(files: SessionFiles) -> None:
    """R2: where the end was cut out of the file itself."""
    live(files, (1, 2, 3))
    list_sessions(files.home)
    with closing(sqlite3.connect(files.db, isolation_level=None)) as connection:
        connection.execute("DELETE FROM record WHERE n = 3")
    proof, missing = judged(files)
    assert proof.faults == ("1 record is missing at the end: 3 was written last, and 2 is the last that is there",)
    assert missing == 1


def test_a_mark_only_grows_and_goes_with_its_session(files: SessionFiles) -> None:
    live(files, (1, 2))
    assert mark_of(files.db) == 0, "there is no index yet, and none is made"
    assert not files.db.with_name(NAME).exists()
    list_sessions(files.home)
    for reached, known in ((7, 7), (5, 7)):
        note_mark(files.db, reached)
        assert mark_of(files.db) == known
    live(session_files(files.home, SESSION_ID.replace("0", "1")), (1,))
    files.db.unlink()
    list_sessions(files.home)
    assert mark_of(files.db) == 0


@pytest.mark.parametrize("harm", ["junk", "link", "nonsense"])
def test_an_index_that_makes_no_sense_says_nothing(files: SessionFiles, tmp_path: Path, harm: str) -> None:
    """R2: it is a cache, and may be anything."""
    live(files, (1, 2))
    index = files.db.with_name(NAME)
    if harm == "junk":
        index.write_bytes(b"junk" * 999)
    elif harm == "link":
        connect_index(tmp_path / "other").close()
        index.symlink_to(tmp_path / "other")
    else:
        with closing(connect_index(index)) as connection:
            connection.execute("INSERT INTO mark VALUES (?, 'far')", (SESSION_ID,))
    assert mark_of(files.db) == 0
    if harm != "nonsense":
        live(files, (3,))
    assert judged(files) == (Proof(), 0)
