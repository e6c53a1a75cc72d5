"""Closes sessions that no client follows, after a while. What is stored of them can be resumed."""

from __future__ import annotations

import asyncio

from tertulia.events.clock import Clock
from tertulia.protocol.storage import Full
from tertulia.session.host import Host
from tertulia.session.session import Session

IDLE_S = 3_600.0
_UNSTORED_FACTOR = 24
"""The factor for a session that is not stored in full: what it does not store is lost when it is closed."""
LOOK_EVERY_S = 60.0


class IdleSessionCloser:
    """Closes sessions without a client, where nothing runs and nothing has happened for so long."""

    def __init__(self, host: Host, clock: Clock, idle_s: float = IDLE_S) -> None:
        self._host = host
        self._clock = clock
        self._idle_s = idle_s
        self._still: dict[str, tuple[int, float]] = {}
        """By session: its last event, and when that was first seen."""

    async def keep_looking(self) -> None:
        """Look every so often, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Close the sessions that have been idle for long enough."""
        now = self._clock.monotonic()
        before, self._still = self._still, {}
        for session in self._host.sessions:
            if session.closed or not session.activity.is_idle:
                continue
            last = session.activity.last_seq
            seq, since = before.get(session.id, (last, now))
            self._still[session.id] = (last, since if seq == last else now)
            if now - self._still[session.id][1] >= self._idle_s * (1 if _is_stored(session) else _UNSTORED_FACTOR):
                await self._host.close_session(session)


def _is_stored(session: Session) -> bool:
    return isinstance(session.activity.storage, Full)
