"""Serves the operation set as JSON-RPC to one client, and sends it the events of the sessions that it follows.

Used by `tertulia app-server` and by the WebSockets of `tertulia serve`. Knows no transport: lines come in by `receive`,
messages go out through a `Sink`. Adds nothing to the operation set but what belongs to a connection: `initialize`,
`events/subscribe` and `host/subscribe`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec.structs import asdict

from tertulia.errors import ClosedError, InvalidParamsError, InvalidRequestError, NotInitializedError
from tertulia.events.subscription import Subscription
from tertulia.protocol.inputs import Initialize, NoParams
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.protocol.subscriptions import Subscribe
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.event_batching import EventBatcher, EventSender, ResponseSink, Sink
from tertulia.server.jsonrpc.host_sender import HostSender
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.request_runner import MethodResult, RpcDialect
from tertulia.session.answers import InitializeAnswer, ObserveAnswer, ServerInfo, SubscribeAnswer
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.describe import PROTOCOL_VERSION, capabilities
from tertulia.session.host import Host
from tertulia.session.inputs import parse, to_snake_case
from tertulia.session.operations import NO_OWN_SESSION, call
from tertulia.session.session import Session
from tertulia.version import __version__


class ClientSessions:
    """The sessions that the client follows, each with a feed. It answers approvals there only where it said so."""

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
        """Whether the client said with `initialize` that it answers the approvals of all sessions that it follows."""
        self._began: list[Session] = []
        self._feeds: dict[str, EventSender] = {}
        """By session, also of sessions that other clients started."""
        self._closing = False
        self._leaving = False
        self._host_sender: HostSender | None = None

    def adopt(self, session: Session) -> None:
        """Send the client the session's events from the first on, and close the session with the connection.

        Calling it twice has no effect.
        """
        if session in self._began:
            return
        self._began = [*(other for other in self._began if not other.closed), session]
        self._follow(session, session.events(session.activity.began_after, attend=self.attends))
        # Now that it is followed: what a crash cut may have questions.
        session.activity.go_on()
        if self._closing:
            self._close(session)

    async def join(self, session_id: str) -> Session:
        """Follow a session that runs, from now on; resume one that is stored."""
        running = any(session.id == session_id for session in self._host.sessions)
        session = await self._host.resume(session_id)
        if running:
            self._follow(session, session.events(attend=self.attends))
        else:
            self.adopt(session)
        return session

    def subscribe(self, session: Session, request: Subscribe) -> SubscribeAnswer:
        """Replace the client's subscription to the session. The answer goes out at once, a replay follows it."""
        last_seq = session.activity.last_seq
        if request.conversation_id is not None:
            session.conversation(request.conversation_id)
        if request.after_seq is not None and not 0 <= request.after_seq <= last_seq:
            raise InvalidParamsError(f"after_seq must be between 0 and {last_seq}, the last event so far")
        attend = self.attends if request.attend is None else request.attend
        events = session.events(
            request.after_seq,
            request.conversation_id,
            attend=attend,
            passing=request.passing,
            types=request.types,
        )
        self._follow(session, events)
        return SubscribeAnswer(subscribed=True, last_seq=last_seq)

    async def subscribe_to_host(self, request: NoParams) -> MethodResult:
        """All sessions that run, then what becomes of them. Replaces what the client followed of the host before."""
        subscription, answer = await self._host.services.feed.subscribe()
        sender = HostSender(subscription, self._sink)
        if self._host_sender is not None:
            self._host_sender.close()
        self._host_sender = sender
        if self._leaving or self._closing:
            sender.close()
        return MethodResult(answer, lambda: self._start(sender.run(), "host feed"))

    async def sent(self, session_id: str, seq: int) -> None:
        """Return when no event of the session numbered so or below is still to be sent."""
        feed = self._feeds.get(session_id)
        if feed is not None:
            await feed.sent(seq)

    def leave(self) -> None:
        """Send nothing more. Every session stays open."""
        self._leaving = True
        self._leave_host()
        for feed in list(self._feeds.values()):
            feed.close()

    async def close(self) -> None:
        """Close the sessions that were started here, and unsubscribe from the others. Last events are still sent."""
        self._closing = True
        self._leave_host()
        for session in self._host.sessions:
            if session not in self._began and (feed := self._feeds.get(session.id)) is not None:
                feed.close()
        closing = [self._close(session) for session in self._began if not session.closed]
        if closing:
            await asyncio.wait(closing)

    def _leave_host(self) -> None:
        if self._host_sender is not None:
            self._host_sender.close()

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
    """The storage policy that the log obeys: the strictest of all conversations, since a request may be about any."""
    return strictest(host.settings.rights.storage_policy, *(session.activity.storage for session in host.sessions))


class Relay(Protocol):
    """The way to sessions that other processes hold, for one client."""

    def reaches(self, session_id: str) -> bool:
        """Whether another process seems to hold the session."""
        ...

    async def call(
        self, session_id: str, method: str, params: dict[str, Any], *, client: str, attend: bool
    ) -> MethodResult:
        """Carry out an operation there, for the client of that name."""
        ...

    async def close(self) -> None:
        """The client is gone, or the server ends."""
        ...


MAX_BATCH = 100
_NOT_RELAYED = ("record/", "host/", "session/start", "session/resume")
_DIALECT = RpcDialect(
    counted_apart=frozenset({"conversation/message", "conversation/compact"}), max_batch=MAX_BATCH, asks_client=False
)
_LAST_GRACE_S = 1.0
"""How many seconds cancelled requests have when a connection ends."""


class RpcConnection:
    """One client, from its first line to its last: see `Peer` for what its requests are promised.

    A response is sent as soon as there is one, but a task's after all events of that task.
    """

    def __init__(
        self,
        host: Host,
        sink: Sink,
        ready: Session | None = None,
        relay: Callable[[Sink], Relay] | None = None,
    ) -> None:
        """`ready`: a session that was started before the client came. `relay`: makes the way to sessions of other
        processes, whose events it sends to that sink."""
        self._host = host
        self._ready = ready
        self._own: Session | None = None
        self._client = "JSON-RPC client"
        self._observing = False
        """Whether it was initialized without a session of its own."""
        self._events = EventBatcher(sink, lambda: len(self._peer.requests) > 0)
        self._peer = Peer(ResponseSink(self._events), self._serve, _DIALECT, lambda: log_policy(host))
        self.receive = self._peer.receive
        self.refuse = self._peer.refuse
        self.idle = self._peer.idle
        self._relay = None if relay is None else relay(self._events)
        self._nursery = Nursery()
        self._feeds: set[asyncio.Task[None]] = set()
        self._following = ClientSessions(host, self._events, self._nursery, self._start_feed)

    @property
    def is_initialized(self) -> bool:
        """Whether the client has a session, or wants none."""
        return self._own is not None or self._observing

    def input_ended(self) -> None:
        """The client's input has ended; its requests go on and are answered as long as it reads."""

    async def leave(self) -> None:
        """The client is gone: nothing more is sent to it, nothing stops. Returns when all its requests have ended."""
        self._following.leave()
        if self._relay is not None:
            await self._relay.close()
        while running := self._feeds | self._peer.requests.tasks:
            await asyncio.wait(running)

    async def close(self, timeout_s: float) -> bool:
        """Close the sessions that were started here, then wait at most so long for the client to take what is left.

        Returns whether it took everything. The sink is left open; nothing is sent to it any more.
        """
        await self._following.close()
        if self._relay is not None:
            await self._relay.close()
        if running := self._feeds | self._peer.requests.tasks:
            await asyncio.wait(running, timeout=timeout_s)
        is_taken = not (self._feeds or self._peer.requests.tasks)
        await self._peer.close(0)
        await self._nursery.close(_LAST_GRACE_S)
        self._events.flush()
        return is_taken

    # ── methods ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _serve(self, method: str, params: dict[str, Any]) -> MethodResult:
        match method:
            case "initialize":
                return MethodResult(await self._initialize(params))
            case "initialized":
                return MethodResult()
            case _ if not self.is_initialized:
                raise NotInitializedError("send `initialize` first")
            case _ if self._relay is not None and (session_id := self._elsewhere(self._relay, method, params)):
                attends = self._following.attends
                return await self._relay.call(session_id, method, params, client=self._client, attend=attends)
            case "events/subscribe":
                session = self._session(params)
                fields = {name: value for name, value in to_snake_case(params).items() if name != "session_id"}
                return MethodResult(self._following.subscribe(session, parse(Subscribe, fields)))
            case "host/subscribe":
                return await self._following.subscribe_to_host(parse(NoParams, params))
            case _:
                return await self._operate(method, params)

    async def _initialize(self, params: dict[str, Any]) -> InitializeAnswer | ObserveAnswer:
        if self.is_initialized:
            raise InvalidRequestError("this connection is initialized already")
        wanted = parse(Initialize, params)
        if wanted.client is not None:
            self._client = f"{wanted.client.name} {wanted.client.version}".strip()
        server = ServerInfo("tertulia", __version__)
        if wanted.observe:
            if wanted.session_id is not None:
                raise InvalidParamsError(
                    "observe makes no session: name it with `events/subscribe` {session_id} instead"
                )
            self._observing, self._following.attends = True, bool(wanted.attend)
            return ObserveAnswer(
                protocol_version=PROTOCOL_VERSION, version=__version__, server=server, capabilities=capabilities()
            )
        self._following.attends = bool(wanted.attend)
        if wanted.session_id is None:
            self._own = session = self._ready or await self._host.start()
            self._following.adopt(session)
        else:
            self._own = session = await self._following.join(wanted.session_id)
        return InitializeAnswer(**asdict(session.info), server=server, capabilities=capabilities())

    async def _operate(self, method: str, params: dict[str, Any]) -> MethodResult:
        own = self._own
        with answering_as(self._client):
            done = await call(self._host, own, method, params)
        if method in ("session/start", "session/resume"):
            self._following.adopt(self._host[done.answer.session_id])
        elif done.after_seq:
            session_id = session_id_param(params) or (own.id if own is not None else "")
            await self._following.sent(session_id, done.after_seq)
            # The response repeats a text that may be long and still on its way: one copy of it at a time.
            await self._events.drain()
        return MethodResult(done.answer)

    def _elsewhere(self, relay: Relay, method: str, params: dict[str, Any]) -> str | None:
        """The session that a request is about, if another process holds it. Records are read here all the same."""
        session_id = session_id_param(params)
        if not isinstance(session_id, str) or method.startswith(_NOT_RELAYED):
            return None
        return session_id if relay.reaches(session_id) else None

    def _session(self, params: dict[str, Any]) -> Session:
        """The session that a request is about."""
        own, session_id = self._own, session_id_param(params)
        if isinstance(session_id, str):
            return self._host[session_id]
        if session_id is not None:
            raise InvalidParamsError("session_id must be a string")
        if own is None:
            raise InvalidParamsError(NO_OWN_SESSION)
        if own.closed:
            raise ClosedError("this connection's own session is closed; name another one, or start one")
        return own

    def _start_feed(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        feed = self._nursery.start(work, name)
        self._feeds.add(feed)
        feed.add_done_callback(self._feeds.discard)
        return feed


def session_id_param(params: dict[str, Any]) -> Any:
    """The session that a request names, in either spelling."""
    return params.get("session_id", params.get("sessionId"))
