"""The file of a session's record, with bytes changed anywhere in it (F3, F4)."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from tertulia.errors import StorageError
from tertulia.rollout.format.row_reader import read_rows
from tertulia.rollout.sqlite.reader import SqliteReader

_ROOM = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, _ROOM, ignore_errors=True)
_FILE = _ROOM / "session.db"

SEEDS = [(Path(__file__).parents[1] / "rollout" / "fixtures" / "version_3.db").read_bytes()]
WORDS = [b"SQLite format 3\0", b"record", b"CREATE TABLE", b"\r\0\0\0", b"\5\0\0\0", b"\xff\xff\xff\xff"]


def fuzz(data: bytes) -> None:
    """It comes to lines, each once, or to one clear error; and nothing is left beside it."""
    _FILE.write_bytes(data)
    seen: set[int] = set()
    try:
        reader = SqliteReader(_FILE)
        try:
            for line in read_rows(reader.rows()):
                assert line.n not in seen
                seen.add(line.n)
            reader.ends()
            reader.finished()
        finally:
            reader.close()
    except StorageError:
        pass
    finally:
        for beside in _ROOM.iterdir():
            beside.unlink()
