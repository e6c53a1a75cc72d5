"""Servers of a session that no conversation sees: stopped after their time. A call would start one again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from tertulia.events.clock import Clock
from tertulia.mcp.member import Member

LOOK_EVERY_S = 30.0


class IdleServers:
    """Notes since when nobody sees a server. What other sessions share is not for one session to stop."""

    def __init__(self, members: Collection[Member], clock: Clock, is_seen: Callable[[str], bool]) -> None:
        """`is_seen`: whether any conversation sees a tool of the server of that name."""
        self._members = members
        self._clock = clock
        self._is_seen = is_seen
        self._unseen: dict[str, float] = {}

    async def watch(self, every_s: float = LOOK_EVERY_S) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await self.stop_unseen()

    async def stop_unseen(self) -> None:
        """Those whose time is over."""
        now = self._clock.monotonic()
        for member in self._members:
            name, definition, server = member.candidate.name, member.candidate.definition, member.server
            if definition is None or server is None or definition.idle_timeout_s is None or definition.share == "host":
                continue
            if server.calls or self._is_seen(name):
                self._unseen.pop(name, None)
            elif now - self._unseen.setdefault(name, now) >= definition.idle_timeout_s and server.status == "ready":
                await server.stop()
