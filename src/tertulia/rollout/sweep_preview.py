"""What a sweep would come to. Changes no session; what it says of sizes is an estimate."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tertulia.errors import BusyError
from tertulia.events.clock import Clock
from tertulia.rollout import table
from tertulia.rollout.database import connect_reader, leave
from tertulia.rollout.files import SessionFiles, is_held
from tertulia.rollout.home_sweep import sweep_home
from tertulia.rollout.retention import HomeSwept, Retention
from tertulia.rollout.store import Swept, TtlAction
from tertulia.rollout.trouble import TROUBLE, explain

_Found = TypeVar("_Found")


def preview_sweep(home: Path, retention: Retention, clock: Clock) -> HomeSwept:
    """The same decisions as `sweep_home`, and nothing done."""
    return sweep_home(home, retention, clock, _Idle())


class _Idle:
    """Hands that only point. They remember what they would have taken: nothing is taken twice."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._freed: dict[str, int] = {}

    def sweep(self, files: SessionFiles, now: float, action: TtlAction) -> Swept:
        swept = self._look(files, lambda db: table.expired(db, table.latest_time(db, now), action))
        self._taken[files.session_id] = swept.bodies
        return swept

    def strip(self, files: SessionFiles) -> Swept:
        bodies, size = self._look(files, table.texts)
        self._freed[files.session_id] = size
        return Swept(bodies=max(0, bodies - self._taken.get(files.session_id, 0)))

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
                leave(connection, files.db)
        except TROUBLE as error:
            raise explain(error, files.db) from error
