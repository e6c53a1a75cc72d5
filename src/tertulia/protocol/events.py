"""The events of a session: one envelope, and a closed union of the data that it can carry.

Durable events have a `seq` without gaps. Passing ones (deltas, progress) have none; they have `item_id` and `offset`
instead, so that a reader can tell what it missed, and the durable event that follows has the whole text. The envelope's
`type` identifies the class of the data, which is encoded without a tag of its own.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import msgspec

from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ConversationId, ItemId, SessionId, TaskId
from tertulia.protocol.items import MessagePhase, Usage
from tertulia.protocol.mapping_struct import BaseEventData
from tertulia.protocol.message_events import MessageQueued, MessageTakenBack, RightsWidened, UserMessageEvent

AbortReason = Literal["replaced", "interrupted", "timeout", "shutdown", "crash", "limit"]
TaskKind = Literal["user", "target", "continuation"]


# ── the session and its conversations ────────────────────────────────────────────────────────────────────────


class SessionConfigured(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """The session was set up; its root conversation is ready."""

    type: ClassVar[str] = "session_configured"
    root_conversation_id: ConversationId
    protocol_version: str
    version: str
    model: str
    policy: dict[str, Any]
    purpose: Literal["broker"] | None = None
    """What the session is for, if not for conversations of a person; `--last` skips such sessions."""


class SessionPreparing(BaseEventData, frozen=True, gc=False):
    """The context injector begins to ask its providers. The payload keys are in camelCase, as its design names them."""

    type: ClassVar[str] = "session:preparing"
    providerCount: int
    agentName: str
    caller: dict[str, str]
    timestamp: str


class SessionContextReady(BaseEventData, frozen=True, gc=False):
    """The context injector has the answers of its providers."""

    type: ClassVar[str] = "session:context-ready"
    mcpServerCount: int
    toolCount: int
    contextAdditions: int
    agentName: str
    caller: dict[str, str]
    timestamp: str


class ConversationOpened(BaseEventData, frozen=True, gc=False):
    """A conversation was opened; its events follow."""

    type: ClassVar[str] = "conversation_opened"
    parent_id: ConversationId | None
    title: str | None
    model: str
    backend: str


class ConversationContextChanged(BaseEventData, frozen=True, gc=False):
    """`set_context` was accepted; it takes effect with the next model request."""

    type: ClassVar[str] = "conversation_context_changed"
    fields: list[str]


class ConversationClosed(BaseEventData, frozen=True, gc=False):
    """A conversation was closed; requests with its id fail with `closed` from now on."""

    type: ClassVar[str] = "conversation_closed"
    terminal: ClassVar[bool] = True
    forced: bool = False


class ConversationCloseForced(BaseEventData, frozen=True, gc=False):
    """A task did not stop within the timeout of a close and was abandoned."""

    type: ClassVar[str] = "conversation_close_forced"
    timeout_s: float


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


class TaskStarted(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A task has a slot and begins; its input is committed."""

    type: ClassVar[str] = "task_started"
    kind: TaskKind
    input_preview: str | None = None


class TaskContinued(BaseEventData, frozen=True, gc=False):
    """A task that a crash cut goes on under its own id; it has begun before, and has had no end."""

    type: ClassVar[str] = "task_continued"
    kind: TaskKind
    attempt: int
    """How often its chain has gone on, this time included."""


class TaskComplete(BaseEventData, frozen=True, gc=False):
    """A task has ended by itself, completed or failed."""

    type: ClassVar[str] = "task_complete"
    terminal: ClassVar[bool] = True
    status: Literal["completed", "failed"]
    last_assistant_message: str | None
    usage: Usage


class TurnAborted(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A task was ended from outside: interrupted, replaced, timed out and so on, see `reason`."""

    type: ClassVar[str] = "turn_aborted"
    terminal: ClassVar[bool] = True
    reason: AbortReason
    by_call_id: CallId | None = None


class AgentMessageDelta(BaseEventData, frozen=True, gc=False):
    """A piece of the model's answer, as it is streamed."""

    type: ClassVar[str] = "agent_message_delta"
    durable: ClassVar[bool] = False
    text: str
    item_id: ItemId
    offset: int


class AgentMessage(BaseEventData, frozen=True, gc=False):
    """A whole message of the model."""

    type: ClassVar[str] = "agent_message"
    text: str
    item_id: ItemId
    phase: MessagePhase | None = None
    """Whether it is a remark on the way or the answer, where the model says so."""


class AgentReasoningDelta(BaseEventData, frozen=True, gc=False):
    """A piece of the model's reasoning, as it is streamed."""

    type: ClassVar[str] = "agent_reasoning_delta"
    durable: ClassVar[bool] = False
    text: str
    item_id: ItemId
    offset: int


class AgentReasoning(BaseEventData, frozen=True, gc=False):
    """A whole reasoning item of the model."""

    type: ClassVar[str] = "agent_reasoning"
    text: str
    item_id: ItemId


class TokenCount(BaseEventData, frozen=True, gc=False):
    """The tokens and the price of one model request."""

    type: ClassVar[str] = "token_count"
    usage: Usage
    context_window: int
    cache_key: str
    cost_usd: float | None = None
    """The cost by list prices or those of the settings; None if the model's price is not known."""


class HistoryCompacted(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """Older items were replaced by a summary, or outputs shortened; if not, `compacted` is false with a `reason`."""

    type: ClassVar[str] = "history_compacted"
    compacted: bool
    before_tokens: int
    after_tokens: int
    removed_items: int
    trigger: Literal["request", "limit", "overflow", "window"]
    reason: str | None = None
    shortened_outputs: int = 0
    """How many older tool outputs were reduced to their beginning and end."""


class BackgroundEvent(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """Something a person may want to know: a right that was narrowed, a retry."""

    type: ClassVar[str] = "background_event"
    message: str
    narrowed: list[dict[str, Any]] | None = None
    discard_deltas: bool = False


class WarningEvent(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """Something could not be done as requested; work goes on."""

    type: ClassVar[str] = "warning"
    message: str
    code: str | None = None
    paths: list[str] | None = None
    """The files that the warning is about."""


class ErrorEvent(BaseEventData, frozen=True, gc=False):
    """Something failed. The end of a task is reported by its terminal event, not by this one."""

    type: ClassVar[str] = "error"
    code: str
    message: str


class CheckpointEvent(BaseEventData, frozen=True, gc=False):
    """The files of the workspace were recorded: before the first call of a task that may write, at its end, or after a
    restore.
    """

    type: ClassVar[str] = "checkpoint"
    checkpoint_id: str
    moment: Literal["before", "after"]
    cause: Literal["task", "restore"]
    files: int
    """How many files the task or the restore has changed; 0 before it."""
    diffstat: str
    """The sums of files and lines as text; empty before it."""
    not_captured: list[str]
    """Files that are not in it, each with the reason; the first of them."""


class ForeignEvent(BaseEventData, frozen=True, gc=False):
    """An event of an executor that has no counterpart here, unchanged."""

    type: ClassVar[str] = "foreign_event"
    backend: str
    raw: Any


class SubscriberLagged(BaseEventData, frozen=True, gc=False):
    """Sent to one subscriber only, which was too slow. The events `from_seq` to `to_seq` are no longer available."""

    type: ClassVar[str] = "subscriber_lagged"
    durable: ClassVar[bool] = False
    from_seq: int | None
    to_seq: int | None
    dropped_deltas: int


# ── all of them, and the envelope ─────────────────────────────────────────────────────────────────────────────

EventData = (
    SessionConfigured
    | SessionPreparing
    | SessionContextReady
    | ConversationOpened
    | ConversationContextChanged
    | ConversationClosed
    | ConversationCloseForced
    | RightsWidened
    | TaskStarted
    | TaskContinued
    | UserMessageEvent
    | MessageQueued
    | MessageTakenBack
    | TaskComplete
    | TurnAborted
    | AgentMessageDelta
    | AgentMessage
    | AgentReasoningDelta
    | AgentReasoning
    | TokenCount
    | HistoryCompacted
    | BackgroundEvent
    | WarningEvent
    | ErrorEvent
    | CheckpointEvent
    | ForeignEvent
    | SubscriberLagged
    | t.ToolCallBegin
    | t.ToolCallEnd
    | t.ExecCommandBegin
    | t.ExecCommandOutputDelta
    | t.ExecCommandEnd
    | t.NetworkAccess
    | t.PatchApplyBegin
    | t.PatchApplyEnd
    | t.McpToolCallBegin
    | t.McpToolCallProgress
    | t.McpToolCallEnd
    | t.McpServerStatus
    | t.McpToolsChanged
    | t.WebSearchBegin
    | t.WebSearchEnd
    | t.PlanUpdate
    | t.HookDecision
    | t.ApprovalRequest
    | t.ApprovalResolved
    | t.ElicitationRequest
    | t.ElicitationResolved
    | t.CanvasUpdated
)
"""The data of an event is exactly one of these, so that a type checker can prove a `match` on it exhaustive."""

EVENT_TYPES: dict[str, type[EventData]] = {kind.type: kind for kind in get_args(EventData)}
"""Every event type by its name."""


class Event(msgspec.Struct, frozen=True, dict=True):
    """The envelope of an event. The result of `json()` is cached for all subscribers, unless it is long."""

    epoch: int
    """Grows with each owner of the session (resume, takeover); a cursor is (epoch, seq)."""
    seq: int | None
    """Without gaps for durable events, null for passing ones."""
    ts: str
    """The time as RFC 3339, in UTC, with milliseconds."""
    type: str
    session_id: SessionId
    sub_id: str
    """The submission that caused the event, for clients that do not use conversations; never empty."""
    conversation_id: ConversationId | None
    task_id: TaskId | None
    trace_id: str | None
    span_id: str | None
    data: EventData

    @property
    def is_long(self) -> bool:
        """Whether it has a text so long that copies of it take noticeable memory."""
        return any(type(value) is str and len(value) > _LONG_CHARACTERS for value in msgspec.structs.astuple(self.data))

    def json(self) -> bytes:
        """Encode the event for a wire.

        Returns:
            The envelope as one line of JSON.
        """
        cache: dict[str, bytes] = vars(self)
        encoded = cache.get("_json")
        if encoded is None:
            encoded = _encoder.encode(self)
            if len(encoded) <= _MAX_KEPT_BYTES:
                cache["_json"] = encoded
        return encoded


_encoder = msgspec.json.Encoder()
_LONG_CHARACTERS = 256 * 1024
_MAX_KEPT_BYTES = 1024 * 1024
"""A longer encoded form is not cached with its event, to save the memory of another copy of a long text."""
