"""JSON-RPC of our own for one client: the operation set, `initialize`, and the events of its sessions.

Used by `tertulia app-server` and by the WebSockets of `tertulia serve`. Knows no transport: lines come in by `receive`,
messages go out through a `Sink`. Adds nothing to the operation set but what belongs to a connection: `initialize` and
`events/subscribe`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import asdict

from tertulia.errors import ClosedError, InvalidParamsError, InvalidRequestError, NotInitializedError
from tertulia.protocol.inputs import Initialize, Subscribe
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.client_sessions import ClientSessions, log_policy
from tertulia.server.jsonrpc.event_sender import EventBatcher, ResponseSink, Sink
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.request_runner import MethodResult, RpcDialect
from tertulia.session.answers import InitializeAnswer, ObserveAnswer, ServerInfo
from tertulia.session.approvals.approvals import answering_as
from tertulia.session.describe import PROTOCOL_VERSION, capabilities
from tertulia.session.host import Host
from tertulia.session.inputs import parse, to_snake_case
from tertulia.session.operations import NO_OWN_SESSION, call
from tertulia.session.session import Session
from tertulia.version import __version__

MAX_BATCH = 100
_DIALECT = RpcDialect(
    counted_apart=frozenset({"conversation/message", "conversation/compact"}), max_batch=MAX_BATCH, asks_client=False
)
_LAST_GRACE_S = 1.0
"""For what is cancelled when a connection ends."""


class RpcConnection:
    """One client, from its first line to its last: see `Peer` for what its requests are promised.

    A response is sent as soon as there is one, but a task's after all events of that task.
    """

    def __init__(self, host: Host, sink: Sink, ready: Session | None = None) -> None:
        """`ready`: a session that was started before the client came."""
        self._host = host
        self._ready = ready
        self._own: Session | None = None
        self._client = "JSON-RPC client"
        self._observing = False
        """It is initialized without a session of its own."""
        self._events = EventBatcher(sink, lambda: len(self._peer.requests) > 0)
        self._peer = Peer(ResponseSink(self._events), self._serve, _DIALECT, lambda: log_policy(host))
        self.receive = self._peer.receive
        self.refuse = self._peer.refuse
        self.idle = self._peer.idle
        self._nursery = Nursery()
        self._feeds: set[asyncio.Task[None]] = set()
        self._following = ClientSessions(host, self._events, self._nursery, self._start_feed)

    @property
    def is_initialized(self) -> bool:
        """Whether the client has a session, or wants none."""
        return self._own is not None or self._observing

    def input_ended(self) -> None:
        """Requests go on: they are answered as long as the client reads."""

    async def leave(self) -> None:
        """The client is gone: nothing more is sent to it, nothing stops. Returns when all its requests have ended."""
        self._following.leave()
        while running := self._feeds | self._peer.requests.tasks:
            await asyncio.wait(running)

    async def close(self, timeout_s: float) -> bool:
        """Close the sessions that were started here, then wait at most so long for the client to take what is left.

        Whether it took everything. The sink is left open; nothing is sent to it any more.
        """
        await self._following.close()
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
                raise NotInitializedError("say `initialize` first")
            case "events/subscribe":
                session = self._session(params)
                fields = {name: value for name, value in to_snake_case(params).items() if name != "session_id"}
                return MethodResult(self._following.subscribe(session, parse(Subscribe, fields)))
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
            self._following.adopt(self._host.find(done.answer.session_id))
        elif done.after_seq:
            session_id = _session_id_param(params) or (own.id if own is not None else "")
            await self._following.sent(session_id, done.after_seq)
            # The response repeats a text that may be long and still on its way: one copy of it at a time.
            await self._events.drain()
        return MethodResult(done.answer)

    def _session(self, params: dict[str, Any]) -> Session:
        """The session that a request is about."""
        own, session_id = self._own, _session_id_param(params)
        if isinstance(session_id, str):
            return self._host.find(session_id)
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


def _session_id_param(params: dict[str, Any]) -> Any:
    """The session that a request names, in either spelling."""
    return params.get("session_id", params.get("sessionId"))
