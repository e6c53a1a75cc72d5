"""Sessions that were, and what their records say."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.session.settings.settings import current_environment


def home() -> Path:
    return current_environment().home


def lines(session_id: str) -> list[RecordLine]:
    """Everything that is written down of a session."""
    with closing(SqliteReader(find_files(home(), session_id).db)) as rows:
        return list(RowReader().lines(rows.rows()))


def stored_bytes(session_id: str) -> bytes:
    """All files of a session."""
    folder = home() / "sessions"
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.name.startswith(session_id))


def session_ids() -> set[str]:
    folder = home() / "sessions"
    return {path.stem for path in folder.glob("*.db") if path.stem != "index"} if folder.exists() else set()
