"""What the ACP and the Codex surface share: the open sessions of a client, their events and their tool calls.

A client of either has any number of sessions, each followed by a `SurfaceSession`. Its events become messages of the
protocol in `SurfaceEvents`, its tool calls in `SurfaceCalls`. How each looks on the wire is written in `acp/` and
`codex/`; how the client is asked for approvals in `approval_requests.py`.
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
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event, EventData
from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.inputs import Message
from tertulia.protocol.items import ToolOutput, Usage
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
C = TypeVar("C")
M = TypeVar("M")

HIDDEN_CALLS = frozenset({"update_plan"})
"""Tools whose calls are shown as what they do."""
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


class ClientSurface(ABC):
    """One client of a surface, from its `initialize` to its end: a `ClientHandler` of `jsonrpc/stdio.py`."""

    def __init__(self, factory: SessionFactory, sink: Sink, dialect: RpcDialect) -> None:
        self._factory = factory
        self._sink = sink
        self.peer = Peer(sink, self._serve, dialect, lambda: log_policy(factory.host))
        self.receive = self.peer.receive
        self.refuse = self.peer.refuse
        self.idle = self.peer.idle

    @abstractmethod
    async def _serve(self, method: str, params: dict[str, Any]) -> MethodResult:
        """Carry out one request or notification."""

    @abstractmethod
    async def _close_sessions(self) -> None:
        """Close the sessions that the client has open."""

    async def close(self, timeout_s: float) -> bool:
        """Close the sessions that were opened here; what still runs is answered, at most so long later.

        Whether the client takes what it is sent.
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
        self._is_followed = False

    @abstractmethod
    def _messages(self, event: Event) -> list[bytes]:
        """The messages to the client that an event becomes."""

    def follow(self) -> None:
        """The client has been told of the session: from now on it gets its events. Once more is nothing."""
        if not self._is_followed:
            self._is_followed = True
            self._nursery.start(self._feed.run(), "the events of a client's session")

    async def close(self, timeout_s: float) -> None:
        """Follow it no more. The session itself is closed by `OpenSessions`."""
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
        """`missing`: what is said of one that is not open, with `{}` for its id."""
        self._host = host
        self._missing = missing
        self._open: dict[str, S] = {}

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
        """Take in a session that the client is about to be told of."""
        self._open[session.session.id] = session
        return session

    async def release(self, session: S) -> None:
        """Close one. What runs in it is stopped."""
        # Not for the next request to find while it closes.
        self._open.pop(session.session.id, None)
        await self._host.close_session(session.session)
        await session.close(_GRACE_S)

    async def close(self) -> None:
        """Close all of them, side by side."""
        async with asyncio.TaskGroup() as group:
            for session in self:
                group.create_task(self.release(session))


# ---- messages of the client


def message_to_root(items: Sequence[dict[str, Any]], output_schema: dict[str, Any] | None = None) -> Message:
    """A message to the root conversation. InvalidParams for items that are none."""
    return parse(Message, {"conversation_id": ROOT, "items": items, "output_schema": output_schema})


def steering_text(items: Sequence[dict[str, Any]], refusal: str) -> str:
    """The text of items that steer a running task. InvalidParams with `refusal` where one is no text."""
    if any(item["type"] != "text" for item in items):
        raise InvalidParamsError(refusal)
    return "\n".join(item["text"] for item in items)


# ---- events


class TextProgress:
    """How much was sent of each text that is not whole yet: so each character is sent once, whatever got lost."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[ItemId, int] = {}

    def __contains__(self, item_id: ItemId) -> bool:
        return item_id in self._sent

    def new_text(self, data: e.AgentMessageDelta | e.AgentReasoningDelta) -> str:
        """What is new in a delta; nothing where something before it is missing."""
        sent = self._sent.setdefault(data.item_id, 0)
        text = data.text[sent - data.offset :] if data.offset <= sent else ""
        self._sent[data.item_id] = sent + len(text)
        return text

    def end(self, item_id: ItemId) -> int | None:
        """The text is whole: how many characters of it were sent, None if it was not begun."""
        return self._sent.pop(item_id, None)

    def forget(self) -> bool:
        """Whatever was begun is not continued; whether any of it was sent."""
        was_sent = any(self._sent.values())
        self._sent.clear()
        return was_sent


class SurfaceCalls(ABC, Generic[C, M]):
    """The tool calls of all conversations of a session that have not ended, and the messages that their events become.

    Contract: each call begins once and ends once. `C` is an open call, `M` a message.
    """

    def __init__(self, root: ConversationId, cwd: Callable[[ConversationId], str]) -> None:
        """`cwd`: where a conversation works."""
        self._root = root
        self._cwd = cwd
        self._open: dict[tuple[ConversationId, CallId], C] = {}

    @abstractmethod
    def begin(self, event: Event, data: t.ToolCallBegin) -> Iterable[M]:
        """A call is about to be handled."""

    @abstractmethod
    def end(self, event: Event, data: t.ToolCallEnd) -> Iterable[M]:
        """The one end of a call."""

    @abstractmethod
    def running(self, call: C, data: t.ExecCommandBegin) -> Iterable[M]:
        """The command of a call starts."""

    @abstractmethod
    def output(self, call: C, data: t.ExecCommandOutputDelta) -> Iterable[M]:
        """A piece of a command's output."""

    @abstractmethod
    def ran(self, call: C, data: t.ExecCommandEnd) -> Iterable[M]:
        """A command has ended; its call may go on."""

    @abstractmethod
    def searched(self, event: Event, data: t.WebSearchEnd) -> Iterable[M]:
        """The provider has searched the web."""

    def find(self, event: Event, call_id: CallId) -> C | None:
        """The call of that id in the event's conversation, if it has not ended."""
        return self._open.get((self._conversation(event), call_id))

    def about(self, event: Event, request: t.ApprovalRequest) -> C | None:
        """The call that an approval is about; for an agent's question, the last one of its conversation."""
        conversation = event.conversation_id or request.conversation_id
        if request.call_id is not None:
            return self._open.get((conversation, request.call_id))
        own = [call for (owner, _), call in self._open.items() if owner == conversation]
        return own[-1] if own else None

    def _conversation(self, event: Event) -> ConversationId:
        return event.conversation_id or self._root


EventHandler = Callable[[Any, Event, Any], Iterable[Any]]
"""Makes the messages of an event: called with the `SurfaceEvents`, the event and its data."""


def on_open_call(tell: Callable[[Any, Any, Any], Iterable[Any]]) -> EventHandler:
    """A handler for events of a call that has not ended: `tell` gets the calls, the call and the data."""

    def handle(view: SurfaceEvents[Any], event: Event, data: Any) -> Iterable[Any]:
        call = view.calls.find(event, data.call_id)
        return () if call is None else tell(view.calls, call, data)

    return handle


class SurfaceEvents(ABC, Generic[M]):
    """Turns the events of one session into messages. Of what is said, only the root conversation's is shown."""

    handlers: ClassVar[Mapping[type[EventData], EventHandler]] = {
        e.AgentMessageDelta: lambda view, event, data: view.piece(event, data) if view.is_root(event) else (),
        e.AgentReasoningDelta: lambda view, event, data: view.piece(event, data) if view.is_root(event) else (),
        e.AgentMessage: lambda view, event, data: view.whole(event, data) if view.is_root(event) else (),
        e.AgentReasoning: lambda view, event, data: view.whole(event, data) if view.is_root(event) else (),
        e.BackgroundEvent: lambda view, event, data: view.background(event, data),
        e.HistoryCompacted: lambda view, event, data: view.compacted(event, data),
        e.TokenCount: lambda view, event, data: view.usage(event, data),
        e.WarningEvent: lambda view, event, data: (view.warning(data.message),),
        t.PlanUpdate: lambda view, event, data: view.plan(event, data) if view.is_root(event) else (),
        t.McpServerStatus: lambda view, event, data: view.server(event, data),
        t.ToolCallBegin: lambda view, event, data: view.calls.begin(event, data),
        t.ToolCallEnd: lambda view, event, data: view.calls.end(event, data),
        t.ExecCommandBegin: on_open_call(lambda calls, call, data: calls.running(call, data)),
        t.ExecCommandOutputDelta: on_open_call(lambda calls, call, data: calls.output(call, data)),
        t.ExecCommandEnd: on_open_call(lambda calls, call, data: calls.ran(call, data)),
        t.WebSearchEnd: lambda view, event, data: view.calls.searched(event, data),
    }
    """By the type of an event. A protocol that shows more of them adds to these."""

    def __init__(self, root: ConversationId, calls: SurfaceCalls[Any, M]) -> None:
        self._root = root
        self.calls = calls
        self._text = TextProgress()

    @abstractmethod
    def piece(self, event: Event, data: e.AgentMessageDelta | e.AgentReasoningDelta) -> Iterable[M]:
        """A piece of a message or of reasoning of the root."""

    @abstractmethod
    def whole(self, event: Event, data: e.AgentMessage | e.AgentReasoning) -> Iterable[M]:
        """A whole message or reasoning of the root."""

    @abstractmethod
    def background(self, event: Event, data: e.BackgroundEvent) -> Iterable[M]:
        """A remark on the way: a request is made again, a right was narrowed."""

    @abstractmethod
    def compacted(self, event: Event, data: e.HistoryCompacted) -> Iterable[M]:
        """The history of a conversation was summarised, or not."""

    @abstractmethod
    def usage(self, event: Event, data: e.TokenCount) -> Iterable[M]:
        """The tokens that a request has used."""

    @abstractmethod
    def warning(self, message: str) -> M:
        """Something that a person should know."""

    @abstractmethod
    def plan(self, event: Event, data: t.PlanUpdate) -> Iterable[M]:
        """The plan of the root conversation."""

    @abstractmethod
    def server(self, event: Event, data: t.McpServerStatus) -> Iterable[M]:
        """The status of an MCP server."""

    def of(self, event: Event) -> list[M]:
        """What there is to tell of an event."""
        handle = self.handlers.get(type(event.data))
        return [] if handle is None else list(handle(self, event, event.data))

    def is_root(self, event: Event) -> bool:
        """Whether it is an event of the root conversation, or of none."""
        return event.conversation_id in (self._root, None)


def end_of_output(item: ToolOutput, name: str = "") -> t.ToolCallEnd:
    """The end of a call as its event had it, from the output in a history."""
    return t.ToolCallEnd(item.call_id, name, item.success, item.text, truncated=False, duration_ms=0)


def usage_fields(usage: Usage, *, cached: str, reasoning: str) -> dict[str, int]:
    """Tokens by the names that both protocols have, and by these two in which they differ."""
    return {
        "totalTokens": usage.total_tokens,
        "inputTokens": usage.input_tokens,
        cached: usage.cached_input_tokens,
        "outputTokens": usage.output_tokens,
        reasoning: usage.reasoning_output_tokens,
    }
