"""Sweeps all sessions: what has expired, is too old, or is too much. Blocks; run it off the loop."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from tertulia.errors import BusyError, StorageError
from tertulia.events.clock import Clock
from tertulia.rollout.sqlite import table
from tertulia.rollout.sqlite.database import close_reader, connect_reader
from tertulia.rollout.sqlite.error_text import STORAGE_EXCEPTIONS, explain
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.ownership import is_held
from tertulia.rollout.sqlite.session_files import SessionFiles, is_session_id, names_in, sessions_folder
from tertulia.rollout.sqlite.session_index import Progress, SessionEntry, no_progress, refresh, remove_files
from tertulia.rollout.store import SweepResult, TtlAction
from tertulia.rollout.sweep.retention import HomeSweepResult, Retention

_DAY_S = 86_400
_MEGABYTE = 1_000_000


class SweepActions(Protocol):
    """What a sweep does to one session. Raise BusyError where a process owns it, StorageError or OSError otherwise."""

    def sweep(self, files: SessionFiles, now: float, action: TtlAction) -> SweepResult:
        """Erase what has expired by `now`."""
        ...

    def strip(self, files: SessionFiles) -> SweepResult:
        """Erase every text of a session."""
        ...

    def remove(self, files: SessionFiles) -> None:
        """Delete all files of a session."""
        ...

    def size(self, files: SessionFiles) -> int:
        """The bytes that are left of it."""
        ...


def sweep_home(
    home: Path,
    retention: Retention,
    clock: Clock,
    hands: SweepActions | None = None,
    *,
    progress: Progress = no_progress,
) -> HomeSweepResult:
    """Remove from every session what may not be there any more. Never raises: what could not be done is reported.

    Opens only files that have something to lose. Sessions that a process owns are left alone.
    """
    sweeper = _Sweeper(home, retention, clock.now(), hands or _RealActions(clock))
    try:
        entries = refresh(home, progress)
    except OSError as error:
        return HomeSweepResult(troubles=(explain(error, sessions_folder(home)).message,))
    sweeper.drop_remains(entries)
    for count, entry in enumerate(sorted(entries.values(), key=lambda entry: entry.updated)):
        progress(count, len(entries))
        sweeper.sweep(entry)
    sweeper.shrink()
    return sweeper.swept


class _RealActions:
    """Carries out the actions on the files."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def sweep(self, files: SessionFiles, now: float, action: TtlAction) -> SweepResult:
        return self._open(files, lambda file: file.sweep(now, action))

    def strip(self, files: SessionFiles) -> SweepResult:
        return self._open(files, lambda file: SweepResult(bodies=file.erase_bodies()))

    def remove(self, files: SessionFiles) -> None:
        remove_files(files)

    def size(self, files: SessionFiles) -> int:
        return files.size()

    def _open(self, files: SessionFiles, act: Callable[[OwnedFile], SweepResult]) -> SweepResult:
        file = OwnedFile(files, self._clock, create=False)
        try:
            return act(file)
        finally:
            file.close()


class _Sweeper:
    def __init__(self, home: Path, retention: Retention, now: float, hands: SweepActions) -> None:
        self._home = home
        self._retention = retention
        self._now = now
        self._hands = hands
        self._counted = SweepResult()
        self._removed: list[str] = []
        self._skipped: dict[str, None] = {}
        self._troubles: list[str] = []
        self._left: list[SessionEntry] = []

    @property
    def swept(self) -> HomeSweepResult:
        return HomeSweepResult(
            self._counted.bodies,
            self._counted.rows,
            tuple(self._removed),
            tuple(self._skipped),
            tuple(self._troubles),
        )

    def drop_remains(self, entries: Mapping[str, SessionEntry]) -> None:
        """Delete what was left of sessions whose removal, or making, was cut short."""
        for name in {name.partition(".")[0] for name in names_in(self._home)}:
            if is_session_id(name) and name not in entries:
                files = SessionFiles(self._home, name)
                self._try(name, lambda files=files: None if files.db.exists() else self._hands.remove(files))

    def sweep(self, entry: SessionEntry) -> None:
        """What has expired or grown too old in one session."""
        if self._is_old(entry) and self._retention.ttl_action == "delete":
            self._remove(entry)
            return
        self._left.append(entry)
        if self._is_due(entry):
            self._count(entry, lambda files: self._hands.sweep(files, self._now, self._retention.ttl_action))
        if self._is_old(entry) and entry.bodies:
            self._strip(entry)

    def shrink(self) -> None:
        """The oldest lose their texts, then go, until the rest is small enough."""
        if self._retention.max_total_mb is None:
            return
        limit = self._retention.max_total_mb * _MEGABYTE
        for act in (self._strip, self._remove):
            for entry in self._left:
                if sum(self._hands.size(SessionFiles(self._home, left.id)) for left in self._left) <= limit:
                    return
                if entry.id not in self._skipped:
                    act(entry)

    def _is_due(self, entry: SessionEntry) -> bool:
        due = entry.due_rows if self._retention.ttl_action == "delete" else entry.due
        # A journal without an owner was left by a process that died: what it had erased may still be in it.
        return entry.untidy or entry.stamp[3] > 0 or (due is not None and due <= max(self._now, entry.updated))

    def _is_old(self, entry: SessionEntry) -> bool:
        days = self._retention.max_age_days
        return days is not None and entry.updated < self._now - days * _DAY_S

    def _strip(self, entry: SessionEntry) -> None:
        if entry.bodies:
            self._count(entry, self._hands.strip)

    def _remove(self, entry: SessionEntry) -> None:
        def remove() -> None:
            self._hands.remove(SessionFiles(self._home, entry.id))
            self._removed.append(entry.id)

        self._try(entry.id, remove)

    def _count(self, entry: SessionEntry, act: Callable[[SessionFiles], SweepResult]) -> None:
        def work() -> None:
            swept = act(SessionFiles(self._home, entry.id))
            self._counted = SweepResult(self._counted.bodies + swept.bodies, self._counted.rows + swept.rows)

        self._try(entry.id, work)

    def _try(self, session_id: str, act: Callable[[], object]) -> None:
        if session_id in self._skipped:
            return
        try:
            act()
        except BusyError:
            self._skipped[session_id] = None
        except StorageError as error:
            self._troubles.append(error.message)
        except OSError as error:
            self._troubles.append(explain(error, SessionFiles(self._home, session_id).db).message)


_Found = TypeVar("_Found")


def preview_sweep(
    home: Path, retention: Retention, clock: Clock, *, progress: Progress = no_progress
) -> HomeSweepResult:
    """What `sweep_home` would do; nothing is done."""
    return sweep_home(home, retention, clock, _PreviewActions(), progress=progress)


class _PreviewActions:
    """Hands that only point. They remember what they would have taken: nothing is taken twice."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._freed: dict[str, int] = {}

    def sweep(self, files: SessionFiles, now: float, action: TtlAction) -> SweepResult:
        swept = self._look(files, lambda db: table.preview_expire(db, table.latest_time(db, now), action))
        self._taken[files.session_id] = swept.bodies
        return swept

    def strip(self, files: SessionFiles) -> SweepResult:
        bodies, size = self._look(files, table.count_bodies)
        self._freed[files.session_id] = size
        return SweepResult(bodies=max(0, bodies - self._taken.get(files.session_id, 0)))

    def remove(self, files: SessionFiles) -> None:
        if is_held(files):
            raise BusyError(f"session {files.session_id} is in use")
        self._freed[files.session_id] = files.size()

    def size(self, files: SessionFiles) -> int:
        return max(0, files.size() - self._freed.get(files.session_id, 0))

    def _look(self, files: SessionFiles, act: Callable[[sqlite3.Connection], _Found]) -> _Found:
        if is_held(files):
            raise BusyError(f"session {files.session_id} is in use")
        try:
            connection = connect_reader(files.db)
            try:
                return act(connection)
            finally:
                close_reader(connection, files.db)
        except STORAGE_EXCEPTIONS as error:
            raise explain(error, files.db) from error
