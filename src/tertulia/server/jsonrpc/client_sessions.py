"""The sessions that one client hears of, and those that it began: what becomes of them when it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tertulia.errors import InvalidParamsError
from tertulia.events.subscription import Subscription
from tertulia.protocol.inputs import Subscribe
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.event_sender import EventSender, Sink
from tertulia.session.answers import SubscribeAnswer
from tertulia.session.host import Host
from tertulia.session.session import Session


class ClientSessions:
    """One feed for each session. The client answers approvals only where it said so, and as far as it listens."""

    def __init__(
        self,
        host: Host,
        sink: Sink,
        nursery: Nursery,
        start: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    ) -> None:
        """`start` runs the feeds; `nursery` the closing of sessions."""
        self._host = host
        self._sink = sink
        self._nursery = nursery
        self._start = start
        self.attends = False
        """What the client said with `initialize`: it answers the approvals of all sessions that it hears of."""
        self._began: list[Session] = []
        self._feeds: dict[str, EventSender] = {}
        """By session, also of sessions that others began."""
        self._closing = False
        self._leaving = False

    def adopt(self, session: Session) -> None:
        """The client hears of it from its first event on, and it ends with the connection. Once more is nothing."""
        if session in self._began:
            return
        self._began = [*(other for other in self._began if not other.closed), session]
        self._follow(session, session.events(session.activity.began_after, attend=self.attends))
        if self._closing:
            self._close(session)

    async def join(self, session_id: str) -> Session:
        """One that runs goes on as it is, and is heard of from now on; one that is stored is brought back."""
        running = any(session.id == session_id for session in self._host.sessions())
        session = await self._host.resume(session_id)
        if running:
            self._follow(session, session.events(attend=self.attends))
        else:
            self.adopt(session)
        return session

    def subscribe(self, session: Session, request: Subscribe) -> SubscribeAnswer:
        """Replaces what the client heard of the session. The answer goes out at once, a replay follows it."""
        last_seq = session.activity.last_seq
        if request.conversation_id is not None:
            session.conversation(request.conversation_id)
        if request.after_seq is not None and not 0 <= request.after_seq <= last_seq:
            raise InvalidParamsError(f"after_seq must be between 0 and {last_seq}, the last event so far")
        attend = self.attends if request.attend is None else request.attend
        self._follow(session, session.events(request.after_seq, request.conversation_id, attend=attend))
        return SubscribeAnswer(subscribed=True, last_seq=last_seq)

    async def sent(self, session_id: str, seq: int) -> None:
        """Return when no event of the session numbered so or below is still to be sent."""
        feed = self._feeds.get(session_id)
        if feed is not None:
            await feed.sent(seq)

    def leave(self) -> None:
        """Send nothing more. Every session stays."""
        self._leaving = True
        for feed in list(self._feeds.values()):
            feed.close()

    async def close(self) -> None:
        """Close what began here, and hear no more of the rest. Last events are still sent."""
        self._closing = True
        for session in self._host.sessions():
            if session not in self._began and (feed := self._feeds.get(session.id)) is not None:
                feed.close()
        closing = [self._close(session) for session in self._began if not session.closed]
        if closing:
            await asyncio.wait(closing)

    def _close(self, session: Session) -> asyncio.Task[bool]:
        return self._nursery.start(self._host.close_session(session), "close session")

    def _follow(self, session: Session, subscription: Subscription) -> None:
        former = self._feeds.get(session.id)
        feed = EventSender(subscription, self._sink) if former is None else former.replace(subscription)

        async def run() -> None:
            await feed.run()
            if self._feeds.get(session.id) is feed:
                del self._feeds[session.id]

        self._feeds[session.id] = feed
        if self._leaving:
            feed.close()
        self._start(run(), "feed")


def log_policy(host: Host) -> StoragePolicy:
    """What the log may tell of a request: it is not known which of all conversations that was about."""
    return strictest(host.settings.rights().storage_policy, *(session.activity.storage for session in host.sessions()))
