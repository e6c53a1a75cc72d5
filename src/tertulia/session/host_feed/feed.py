"""Tells clients which sessions run, and when one changes or ends. Where no client follows, nothing is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from tertulia.rollout.sqlite.session_index import SessionEntry
from tertulia.scheduler.nursery import Nursery
from tertulia.session.host_feed.cards import HostAnswer, HostEvent, OtherSessions
from tertulia.session.host_feed.session_watch import SessionWatch
from tertulia.session.session import Session


class HostSubscription:
    """The changes that one client has not been sent: of each session the last, however slow the client is."""

    def __init__(self, leave: Callable[[HostSubscription], None]) -> None:
        self._leave = leave
        self._waiting: dict[str, HostEvent] = {}
        self._news = asyncio.Event()
        self._closed = False

    def put(self, event: HostEvent) -> None:
        """Something happened to a session."""
        id = event.session.session_id
        before = self._waiting.pop(id, None)
        if before is not None and before.type == "session_opened" and event.type == "session_changed":
            event = replace(event, type="session_opened")
        self._waiting[id] = event
        self._news.set()

    def forget(self, session_id: str) -> None:
        """What is known of a session was sent in another way."""
        self._waiting.pop(session_id, None)

    async def wait(self) -> bool:
        """Return True as soon as there is something to take, False when it is closed."""
        while not self._waiting and not self._closed:
            self._news.clear()
            await self._news.wait()
        return not self._closed

    def take(self) -> list[HostEvent]:
        """All that waits, in the order in which it changed last."""
        events, self._waiting = list(self._waiting.values()), {}
        return events

    def close(self) -> None:
        """Listen no more. Calling it twice has no effect."""
        if not self._closed:
            self._closed = True
            self._news.set()
            self._leave(self)


class HostFeed:
    """The sessions of one host, and those of other processes."""

    def __init__(
        self,
        sessions: Callable[[], list[Session]],
        read_entry: Callable[[str], Awaitable[SessionEntry]],
        nursery: Nursery,
    ) -> None:
        """`read_entry`: returns what is stored of a session, in numbers."""
        self._sessions = sessions
        self._read_entry = read_entry
        self._nursery = nursery
        self._watches: dict[str, SessionWatch] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By session: first what prepares its watch, then what follows it."""
        self._subscriptions: list[HostSubscription] = []
        self._leave_others: Callable[[], None] | None = None
        self.others: OtherSessions | None = None
        """The sessions of other processes, where there is a way to them. Set before the first client follows."""

    async def subscribe(self) -> tuple[HostSubscription, HostAnswer]:
        """The sessions that run now, and what becomes of them from then on."""
        subscription = HostSubscription(self._left)
        self._subscriptions.append(subscription)
        if self.others is not None and self._leave_others is None:
            self._leave_others = self.others.follow(self._tell)
        try:
            cards = [] if self.others is None else await self.others.cards()
            for session in self._sessions():
                if not session.closed:
                    await self._watch(session)
        except BaseException:
            subscription.close()
            raise
        # From here on nothing waits: what was told of these sessions meanwhile is in their cards.
        own = [watch.card() for watch in self._watches.values() if watch.is_running]
        for card in own:
            subscription.forget(card.session_id)
        return subscription, HostAnswer([*own, *cards])

    def opened(self, session: Session) -> None:
        """A session has begun here."""
        if self._subscriptions and session.id not in self._watches:
            self._nursery.start(self._introduce(session), "watch a session")

    async def _introduce(self, session: Session) -> None:
        watch = await self._watch(session)
        if watch.is_running:
            self._tell(HostEvent("session_opened", watch.card()))

    async def _watch(self, session: Session) -> SessionWatch:
        """The watch of a session, once it can make cards; made where there is none."""
        watch = self._watches.get(session.id)
        if watch is None:
            watch = self._watches[session.id] = SessionWatch(session, self._read_entry)
            self._tasks[session.id] = self._nursery.start(self._follow(session.id, watch), "follow a session")
        await watch.prepared.wait()
        return watch

    async def _follow(self, session_id: str, watch: SessionWatch) -> None:
        try:
            await watch.run(lambda card: self._tell(HostEvent("session_changed", card)))
        finally:
            if self._watches.get(session_id) is watch:
                del self._watches[session_id], self._tasks[session_id]
        if watch.last is not None:
            self._tell(HostEvent("session_closed", replace(watch.last, state="idle", running=0, questions=0)))

    def _tell(self, event: HostEvent) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)

    def _left(self, subscription: HostSubscription) -> None:
        self._subscriptions.remove(subscription)
        if self._subscriptions:
            return
        tasks, self._tasks, self._watches = self._tasks, {}, {}
        for task in tasks.values():
            task.cancel()
        if self._leave_others is not None:
            self._leave_others()
            self._leave_others = None
