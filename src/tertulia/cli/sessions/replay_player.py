"""Playing a record: what is there, at some speed, and what its owner adds to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from tertulia.cli.stop_signals import on_stop_signal
from tertulia.events.clock import SystemClock
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles, is_held
from tertulia.rollout.sqlite.session_index import find_files

LONGEST_PAUSE_S = 3.0
"""However long nothing happened, nobody wants to look at it."""
_LOOK_EVERY_S = 0.2


async def play_record(
    home: Path, session_id: str, show: Callable[[RecordLine], None], *, speed: float | None = None, follow: bool = False
) -> bool:
    """Show every line; whether it came to its end before somebody stopped it.

    `speed` 1 is as fast as it was, None as fast as can be. With `follow` the end is when nobody owns the session.
    """
    files = find_files(home, session_id)
    stopped = asyncio.Event()
    with on_stop_signal(stopped.set), closing(SqliteReader(files.db, SystemClock())) as rows:
        player = _Player(rows, show, stopped, speed)
        await player.play()
        while follow and not stopped.is_set() and _is_owned(files):
            await player.pause(_LOOK_EVERY_S)
            await player.play()
        if follow:
            # What was written between the last look and the owner's end.
            await player.play()
    return not stopped.is_set()


def _is_owned(files: SessionFiles) -> bool:
    return is_held(files)


class _Player:
    def __init__(
        self, rows: SqliteReader, show: Callable[[RecordLine], None], stopped: asyncio.Event, speed: float | None
    ) -> None:
        self._rows = rows
        self._reader = RowReader()
        self._show = show
        self._stopped = stopped
        self._speed = speed
        self._last: float | None = None

    async def play(self) -> None:
        """What has come since the last time."""
        for line in self._reader.lines(self._rows.rows(self._reader.known.last_n)):
            await self._wait_for(line)
            if self._stopped.is_set():
                return
            self._show(line)

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until somebody stops it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    async def _wait_for(self, line: RecordLine) -> None:
        last, self._last = self._last, line.ts
        if self._speed is None or last is None:
            # A signal has to have its turn.
            await asyncio.sleep(0)
        else:
            await self.pause(min(max(line.ts - last, 0) / self._speed, LONGEST_PAUSE_S))
