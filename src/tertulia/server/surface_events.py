"""How the events and tool calls of a session become messages of a client, as far as ACP and Codex share it.

How each message looks on the wire is written in `acp/` and `codex/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event, EventData
from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.items import ToolOutput, Usage

C = TypeVar("C")
M = TypeVar("M")

HIDDEN_CALLS = frozenset({"update_plan"})
"""Tools whose calls are not shown: their effect has an event of its own."""


class TextProgress:
    """How much was sent of each unfinished text, so that each character is sent once even if events were lost."""

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
        """The text is complete: how many characters of it were sent, None if none of its deltas came."""
        return self._sent.pop(item_id, None)

    def forget(self) -> bool:
        """Forget all texts that are not complete; returns whether any of them was sent."""
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
        """A remark: a request is made again, a right was narrowed."""

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
        """The messages of an event."""
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
