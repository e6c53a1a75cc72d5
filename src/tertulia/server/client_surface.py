"""What the ACP and the Codex surface share: a client, its methods and its open sessions.

A client of either has any number of sessions, each followed by a `SurfaceSession`. How their events become messages is
in `surface_events.py`, how the client is asked for approvals in `approval_requests.py`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from tertulia.errors import (
    BusyError,
    ClosedError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    NotFoundError,
    NotInitializedError,
    ParseError,
    TertuliaError,
)
from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import Message
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.connection import log_policy
from tertulia.server.jsonrpc.event_batching import EventSender, Sink, is_drained
from tertulia.server.jsonrpc.peer import Peer
from tertulia.server.jsonrpc.request_runner import MethodResult, RpcDialect
from tertulia.server.jsonrpc.stdio import PATIENCE_S
from tertulia.server.session_factory import SessionFactory
from tertulia.session.conversations import ROOT
from tertulia.session.handle import Conversation
from tertulia.session.host import Host
from tertulia.session.inputs import parse
from tertulia.session.session import Session

S = TypeVar("S", bound="SurfaceSession")

ERROR_NUMBERS: Mapping[type[TertuliaError], int] = {
    ParseError: -32700,
    InvalidRequestError: -32600,
    NotInitializedError: -32600,
    MethodNotFoundError: -32601,
    BusyError: -32001,
}
"""The numbers of errors that both protocols have."""
OTHER_ERROR_NUMBER = -32603
_GRACE_S = 1.0


class SurfaceMethod(msgspec.Struct, frozen=True):
    """A method of the protocol: what its parameters are read as, and what carries it out."""

    reads: type[Any]
    run: Callable[[Any, Any], Awaitable[MethodResult]]


class SurfaceRefusals(msgspec.Struct, frozen=True):
    """What a client is told that calls a method at the wrong time, or one that there is not; `{}` is its name."""

    too_early: str
    too_late: str
    unknown: str


class ClientSurface(ABC):
    """One client of a surface, from its `initialize` to its end: a `ClientHandler` of `jsonrpc/stdio.py`."""

    refusals: ClassVar[SurfaceRefusals]
    ignored: ClassVar[tuple[str, ...]] = ()
    """Notifications on which nothing is done."""

    def __init__(
        self, factory: SessionFactory, sink: Sink, dialect: RpcDialect, methods: Mapping[str, SurfaceMethod]
    ) -> None:
        """`methods`: all that the client may call but for `initialize`."""
        self._factory = factory
        self._sink = sink
        self._methods = methods
        self._is_initialized = False
        self.peer = Peer(sink, self._serve, dialect, lambda: log_policy(factory.host))
        self.receive = self.peer.receive
        self.refuse = self.peer.refuse
        self.idle = self.peer.idle

    async def _serve(self, method: str, params: dict[str, Any]) -> MethodResult:
        """Carry out one request or notification."""
        if method == "initialize":
            if self._is_initialized:
                raise InvalidRequestError(self.refusals.too_late)
            answered = self._initialize(params)
            self._is_initialized = True
            return answered
        if not self._is_initialized:
            raise NotInitializedError(self.refusals.too_early)
        if method in self.ignored:
            return MethodResult()
        entry = self._methods.get(method)
        if entry is None:
            raise MethodNotFoundError(self.refusals.unknown.format(method[:64]))
        return await self._run_method(entry, params)

    @abstractmethod
    def _initialize(self, params: dict[str, Any]) -> MethodResult:
        """Answer the first request of a client."""

    @abstractmethod
    async def _run_method(self, method: SurfaceMethod, params: dict[str, Any]) -> MethodResult:
        """Read the parameters and carry it out."""

    @abstractmethod
    async def _close_sessions(self) -> None:
        """Close the sessions that the client has open."""

    async def close(self, timeout_s: float) -> bool:
        """Close the sessions that were opened here; requests in flight have so long to be answered.

        Returns whether the client takes what it is sent.
        """
        self.peer.stop_asking()
        await self._close_sessions()
        await self.peer.close(timeout_s)
        return await is_drained(self._sink, min(timeout_s, PATIENCE_S))


# ---- sessions


class SurfaceSession(ABC):
    """Follows one session for the client. The root conversation takes its messages."""

    def __init__(self, session: Session, peer: Peer, sink: Sink) -> None:
        self.session = session
        self._peer = peer
        self._sink = sink
        self._nursery = Nursery()
        # The client is asked by requests of its own protocol, whatever it shows of the events.
        self._feed = EventSender(session.events(session.activity.began_after, attend=True), sink, self._messages)
        self.is_followed = False

    @abstractmethod
    def _messages(self, event: Event) -> Iterable[bytes]:
        """The messages to the client that an event becomes."""

    def follow(self) -> None:
        """Send the client the session's events from now on: it knows the session. Calling it twice has no effect."""
        if not self.is_followed:
            self.is_followed = True
            self._nursery.start(self._feed.run(), "the events of a client's session")

    async def close(self, timeout_s: float) -> None:
        """Send no more events. The session itself is closed by `OpenSessions`."""
        self._feed.close()
        await self._nursery.close(timeout_s)

    def _cwd(self, conversation: ConversationId) -> str:
        return (self._open_conversation(conversation) or self.session.root).details.cwd

    def _open_conversation(self, conversation: ConversationId) -> Conversation | None:
        """The conversation that an event is about; None where it is closed by now."""
        try:
            return self.session.conversation(conversation)
        except (ClosedError, NotFoundError):
            return None


class OpenSessions(Generic[S]):
    """The sessions that one client has open, by their ids."""

    def __init__(self, host: Host, missing: str) -> None:
        """`missing`: the error text for a session that is not open, with `{}` for its id."""
        self._host = host
        self._missing = missing
        self._open: dict[str, S] = {}
        self._nursery = Nursery()
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[S]:
        return iter(list(self._open.values()))

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._open

    def get(self, session_id: str) -> S | None:
        """One that is open, or None."""
        return self._open.get(session_id)

    def find(self, session_id: str) -> S:
        """One that is open. NotFound."""
        session = self._open.get(session_id)
        if session is None:
            raise NotFoundError(self._missing.format(repr(session_id[:64])))
        return session

    def add(self, session: S) -> S:
        """Add a session that the client is about to be told of."""
        self._open[session.session.id] = session
        return session

    async def release(self, session: S, *, closes: bool = True) -> None:
        """Close one. What runs in it is stopped. A request that is cancelled meanwhile does not keep it from its end.

        Not `closes`: the session itself goes on, for other clients.
        """
        # Removed first, so that no request finds it while it closes.
        self._open.pop(session.session.id, None)
        task = self._nursery.start(self._release(session, closes), "close a session")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await asyncio.shield(task)

    async def _release(self, session: S, closes: bool) -> None:
        if closes:
            await self._host.close_session(session.session)
        await session.close(_GRACE_S)

    async def close(self) -> None:
        """Close all of them, side by side, and wait for those that are being closed."""
        async with asyncio.TaskGroup() as group:
            for session in self:
                group.create_task(self.release(session))
        if self._closing:
            await asyncio.wait(self._closing)


# ---- messages of the client


def message_to_root(items: Sequence[dict[str, Any]], output_schema: dict[str, Any] | None = None) -> Message:
    """A message to the root conversation. InvalidParams for items that are not valid."""
    return parse(Message, {"conversation_id": ROOT, "items": items, "output_schema": output_schema})


def steering_text(items: Sequence[dict[str, Any]], refusal: str) -> str:
    """The text of items that steer a running task. InvalidParams with `refusal` where one is no text."""
    if any(item["type"] != "text" for item in items):
        raise InvalidParamsError(refusal)
    return "\n".join(item["text"] for item in items)
