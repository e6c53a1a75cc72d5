"""Sweeping a home: what has expired, what has grown old, what there is too much of. Blocks; run it off the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tertulia.errors import BusyError, StorageError
from tertulia.events.clock import Clock
from tertulia.rollout.files import SessionFiles, is_session_id, names_in, sessions_folder
from tertulia.rollout.index import Entry, refresh, remove_files
from tertulia.rollout.owned_file import OwnedFile
from tertulia.rollout.retention import HomeSwept, Retention
from tertulia.rollout.store import Swept, TtlAction
from tertulia.rollout.trouble import explain

_DAY_S = 86_400
_MEGABYTE = 1_000_000


class Hands(Protocol):
    """Do what a broom decides. Raise Busy where somebody owns the session, StorageError or OSError for the rest."""

    def sweep(self, files: SessionFiles, now: float, action: TtlAction) -> Swept:
        """Erase what has expired."""
        ...

    def strip(self, files: SessionFiles) -> Swept:
        """Erase every text."""
        ...

    def remove(self, files: SessionFiles) -> None:
        """Delete all of it."""
        ...

    def size(self, files: SessionFiles) -> int:
        """The bytes that are left of it."""
        ...


def sweep_home(home: Path, retention: Retention, clock: Clock, hands: Hands | None = None) -> HomeSwept:
    """Remove from every session what may not be there any more. Never raises: what could not be done is reported.

    Opens only files that have something to lose. Sessions that somebody owns are left alone.
    """
    broom = _Broom(home, retention, clock.now(), hands or _Strong(clock))
    try:
        entries = refresh(home)
    except OSError as error:
        return HomeSwept(troubles=(explain(error, sessions_folder(home)).message,))
    broom.drop_remains(entries)
    for entry in sorted(entries.values(), key=lambda entry: entry.updated):
        broom.sweep(entry)
    broom.shrink()
    return broom.swept


class _Strong:
    """Hands that do it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def sweep(self, files: SessionFiles, now: float, action: TtlAction) -> Swept:
        return self._open(files, lambda file: file.sweep(now, action))

    def strip(self, files: SessionFiles) -> Swept:
        return self._open(files, lambda file: Swept(bodies=file.erase_bodies()))

    def remove(self, files: SessionFiles) -> None:
        remove_files(files)

    def size(self, files: SessionFiles) -> int:
        return files.size()

    def _open(self, files: SessionFiles, act: Callable[[OwnedFile], Swept]) -> Swept:
        file = OwnedFile(files, self._clock, create=False)
        try:
            return act(file)
        finally:
            file.close()


class _Broom:
    def __init__(self, home: Path, retention: Retention, now: float, hands: Hands) -> None:
        self._home = home
        self._retention = retention
        self._now = now
        self._hands = hands
        self._counted = Swept()
        self._removed: list[str] = []
        self._skipped: dict[str, None] = {}
        self._troubles: list[str] = []
        self._left: list[Entry] = []

    @property
    def swept(self) -> HomeSwept:
        return HomeSwept(
            self._counted.bodies,
            self._counted.rows,
            tuple(self._removed),
            tuple(self._skipped),
            tuple(self._troubles),
        )

    def drop_remains(self, entries: Mapping[str, Entry]) -> None:
        """Delete what was left of sessions whose removal, or making, was cut short."""
        for name in {name.partition(".")[0] for name in names_in(self._home)}:
            if is_session_id(name) and name not in entries:
                files = SessionFiles(self._home, name)
                self._try(name, lambda files=files: None if files.db.exists() else self._hands.remove(files))

    def sweep(self, entry: Entry) -> None:
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

    def _is_due(self, entry: Entry) -> bool:
        due = entry.due_rows if self._retention.ttl_action == "delete" else entry.due
        # A journal that nobody owns was left by somebody who died: what he had erased may still be in it.
        return entry.untidy or entry.stamp[3] > 0 or (due is not None and due <= max(self._now, entry.updated))

    def _is_old(self, entry: Entry) -> bool:
        days = self._retention.max_age_days
        return days is not None and entry.updated < self._now - days * _DAY_S

    def _strip(self, entry: Entry) -> None:
        if entry.bodies:
            self._count(entry, self._hands.strip)

    def _remove(self, entry: Entry) -> None:
        def remove() -> None:
            self._hands.remove(SessionFiles(self._home, entry.id))
            self._removed.append(entry.id)

        self._try(entry.id, remove)

    def _count(self, entry: Entry, act: Callable[[SessionFiles], Swept]) -> None:
        def work() -> None:
            swept = act(SessionFiles(self._home, entry.id))
            self._counted = Swept(self._counted.bodies + swept.bodies, self._counted.rows + swept.rows)

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
