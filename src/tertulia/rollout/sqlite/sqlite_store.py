"""The store of this machine: one SQLite file a session, written by the threads that all sessions of a loop share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tertulia.errors import BusyError, StorageError
from tertulia.events.clock import Clock
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.job_runner import Append, Claim, Close, Enforce, Sweep
from tertulia.rollout.sqlite.owned_file import Durability, OwnedFile
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.writer_pool import SessionWriter
from tertulia.rollout.store import OnDone, Row, SweepResult, TtlAction


class SqliteStore:
    """A RolloutStore in `<home>/sessions/<id>.db`. Nothing is made on the disk before the first use.

    Raises InvalidParams for an id that is no UUID.
    """

    def __init__(self, home: Path, session_id: str, clock: Clock, durability: Durability = "normal") -> None:
        files = session_files(home, session_id)
        self._place = str(files.db)
        file = OwnedFile(files, clock, durability)
        self._writer = SessionWriter(file, session_id, waits_for_disk=durability == "full")

    @property
    def place(self) -> str:
        """The path of the file."""
        return self._place

    def claim(self, done: Callable[[StorageError | BusyError | None], None]) -> None:
        """Become the owner before anything is appended: a resumed session does so before it reads.

        BusyError where another process is; an append that finds the session owned says the same as a StorageError.
        """
        self._writer.put(Claim(done))

    def append(self, rows: Sequence[Row], attempt: int, done: OnDone) -> None:
        """Commit the rows, all or none."""
        for row in rows:
            row.check()
        self._writer.put(Append(rows, attempt, done))

    def enforce(
        self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str], attempt: int, done: OnDone
    ) -> None:
        """Make everything stored of a conversation obey a stricter policy."""
        self._writer.put(Enforce(conversation, policy, skeleton, attempt, done))

    def sweep(self, now: float, action: TtlAction, done: Callable[[SweepResult | StorageError], None]) -> None:
        """Remove what has expired by `now`."""
        self._writer.put(Sweep(now, action, done))

    def close(self, done: OnDone) -> None:
        """Give up ownership of the session."""
        self._writer.put(Close(done))
