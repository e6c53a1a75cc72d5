"""Clients that are told when a list is another: those of the new era that listen for it, and those of the old one.

Nobody waits for anybody: a client that does not read its news keeps them from no other.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from tertulia.mcp.server_connection import MODERN, Spawn

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import ServerEvent, SubscriptionBus

Send = Callable[[], Awaitable[object]]


class LatestOnlySender:
    """Holds one task at most and one piece of news at most, however much there is to tell."""

    __slots__ = ("_name", "_next", "_spawn", "_task")

    def __init__(self, spawn: Spawn, name: str) -> None:
        self._spawn = spawn
        self._name = name
        self._next: Send | None = None
        self._task: asyncio.Task[Any] | None = None

    def tell(self, send: Send) -> None:
        """Send this, now or as soon as what is under way has arrived."""
        self._next = send
        if self._task is None or self._task.done():
            self._task = self._spawn(self._run(), self._name)

    def close(self) -> None:
        """Nobody has to be told any more."""
        self._next = None
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while (send := self._next) is not None:
            self._next = None
            await send()


MAX_LISTENERS = 256
"""Clients of one broker and one list that are told. Whoever was there last is."""
NOTICE_INTERVAL_S = 0.1
"""Between two pieces of news for one client: a hundred changes at once are one."""

NotifyClient = Callable[["ServerSession"], Awaitable[None]]


class ListChangedSubscribers:
    """Of one list."""

    def __init__(self, spawn: Spawn, bus: SubscriptionBus, event: ServerEvent, send: NotifyClient) -> None:
        """`event`: what listeners of the new era hear on `bus`. `send`: how a client of the old one is told."""
        self._spawn = spawn
        self._bus = bus
        self._event = event
        self._send = send
        self._listening = self._newest()
        # Held, and by connection: the SDK makes a session for every request, and none of them lasts by itself.
        self._old: OrderedDict[Hashable, tuple[ServerSession, LatestOnlySender]] = OrderedDict()

    def remember(self, ctx: ServerRequestContext[Any]) -> None:
        """A client that has the list now, or might have it. Those of the new era say themselves that they listen.

        Over a stream the lifespan is the connection's own; over HTTP all have the same, and a session id.
        """
        if ctx.protocol_version >= MODERN:
            return
        http = ctx.request
        connection: Hashable = ctx.lifespan_context if http is None else http.headers.get("mcp-session-id", "")
        _, news = self._old.pop(connection, (None, None))
        self._old[connection] = (ctx.session, news or self._newest())
        if len(self._old) > MAX_LISTENERS:
            self._old.popitem(last=False)[1][1].close()

    def forget(self, connection: Hashable) -> None:
        """It is closed."""
        _, news = self._old.pop(connection, (None, None))
        if news is not None:
            news.close()

    def tell(self) -> None:
        """Soon, and once for all that changes until then."""
        self._listening.tell(partial(self._unhurried, partial(self._bus.publish, self._event)))
        for session, news in self._old.values():
            # To one that is gone this does nothing.
            news.tell(partial(self._unhurried, partial(self._send, session)))

    def close(self) -> None:
        """Nobody is told anything any more."""
        self._listening.close()
        for _, news in self._old.values():
            news.close()
        self._old.clear()

    def _newest(self) -> LatestOnlySender:
        return LatestOnlySender(self._spawn, "tell a client that a list is another")

    async def _unhurried(self, send: Callable[[], Awaitable[None]]) -> None:
        await send()
        await asyncio.sleep(NOTICE_INTERVAL_S)
