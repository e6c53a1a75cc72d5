"""Turns the events of a session into Codex's notifications: a thread's turns, and the items in them. Reads no clock.

A turn is what one message causes. A task that hands over to another conversation and goes on later is one turn; what
that conversation does meanwhile shows as items of the same turn, and what it says does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId, ItemId, TaskId
from tertulia.protocol.items import NO_USAGE, Usage
from tertulia.server.codex import items as i
from tertulia.server.codex.active_turn import ActiveTurn, CodexNotification, CodexToolCalls, event_time_ms
from tertulia.server.codex.items import CodexItem, turn_error, turn_object
from tertulia.server.surface_events import EventHandler, SurfaceEvents, on_open_call, usage_fields

CodexNotifications = Iterator[CodexNotification]

_STEPS = {"pending": "pending", "in_progress": "inProgress", "completed": "completed"}
_SERVERS = {"starting": "starting", "ready": "ready", "failed": "failed", "untrusted": "failed", "stopped": "cancelled"}
_FAILED = {"timeout": "the turn took longer than it may", "limit": "the turn reached a limit"}


class ThreadNotifications(SurfaceEvents[CodexNotification]):
    """Follows one session, from its first event."""

    def __init__(
        self,
        active_turn: ActiveTurn,
        calls: CodexToolCalls,
        root: ConversationId,
        opening_message: Callable[[TaskId], CodexItem | None],
        spent: Usage = NO_USAGE,
    ) -> None:
        """`opening_message`: the message that a task of this client begins with. `spent`: tokens used before."""
        super().__init__(root, calls)
        self._active_turn = active_turn
        self._tool_calls = calls
        self._opening_message = opening_message
        self._task: TaskId | None = None
        """The root's task that began last."""
        self._began_ms = 0
        self._error: e.ErrorEvent | None = None
        self._answer: CodexItem | None = None
        self._usage = spent

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, event: e.Event, data: e.TaskStarted) -> CodexNotifications:
        """A task of the root has started: a turn, unless it continues one."""
        if event.conversation_id != self._root or event.task_id is None:
            return
        self._task = event.task_id
        if data.kind == "continuation":
            return
        self._active_turn.turn_id, self._began_ms = event.task_id, event_time_ms(event)
        self._error = self._answer = None
        self._tool_calls.forget()
        self._text.forget()
        yield self._active_turn.status()
        turn = turn_object(event.task_id, began_ms=self._began_ms)
        yield "turn/started", {"threadId": self._active_turn.thread_id, "turn": turn}
        message = self._opening_message(event.task_id)
        if message is not None:
            yield self._active_turn.started(event, message)
            yield self._active_turn.completed(event, message)

    def complete(self, event: e.Event, data: e.TaskComplete) -> CodexNotifications:
        """A task has ended by itself."""
        if event.task_id == self._task:
            error = self._error or e.ErrorEvent("internal", "the turn failed")
            yield from self._end(event, None if data.status == "completed" else error, data.status)
        else:
            yield from self._end_unseen(event, data.status)

    def abort(self, event: e.Event, data: e.TurnAborted) -> CodexNotifications:
        """A task was stopped, or reached a limit."""
        if event.task_id is None or data.reason == "replaced":
            return
        if event.task_id == self._task:
            failed = _FAILED.get(data.reason)
            error = None if failed is None else e.ErrorEvent(data.reason, failed)
            yield from self._end(event, error, "interrupted" if error is None else "failed")
        else:
            yield from self._end_unseen(event, "interrupted")

    def _end_unseen(self, event: e.Event, status: str) -> CodexNotifications:
        """The start of a turn that was stopped while it waited, or whose first event was lost."""
        if event.task_id is not None and self._opening_message(event.task_id) is not None:
            ended = turn_object(event.task_id, status, ended_ms=event_time_ms(event))
            yield "turn/completed", {"threadId": self._active_turn.thread_id, "turn": ended}

    def _end(self, event: e.Event, error: e.ErrorEvent | None, status: str) -> CodexNotifications:
        if self._active_turn.turn_id is None:
            return
        ended = turn_object(self._active_turn.turn_id, status, began_ms=self._began_ms, ended_ms=event_time_ms(event))
        ended["error"] = None if error is None else turn_error(error.message)
        if self._answer is not None:
            ended |= {"items": [self._answer], "itemsView": "summary"}
        self._active_turn.turn_id = None
        self._tool_calls.forget()
        yield self._active_turn.status()
        yield "turn/completed", {"threadId": self._active_turn.thread_id, "turn": ended}

    # ── words ────────────────────────────────────────────────────────────────────────────────────────────────

    def piece(self, event: e.Event, data: e.AgentMessageDelta | e.AgentReasoningDelta) -> CodexNotifications:
        """A piece of a message or thought. Where one is missing the rest waits for the whole."""
        spoken = isinstance(data, e.AgentMessageDelta)
        if data.item_id not in self._text:
            yield self._active_turn.started(event, _text_item(data.item_id, "", spoken=spoken))
        text = self._text.new_text(data)
        if text and spoken:
            yield self._active_turn.here("item/agentMessage/delta", itemId=data.item_id, delta=text)
        elif text:
            params = {"itemId": data.item_id, "delta": text, "summaryIndex": 0}
            yield self._active_turn.here("item/reasoning/summaryTextDelta", **params)

    def whole(self, event: e.Event, data: e.AgentMessage | e.AgentReasoning) -> CodexNotifications:
        """A whole message or thought of the root."""
        spoken = isinstance(data, e.AgentMessage)
        item = i.agent_message(data.item_id, data.text, data.phase) if spoken else i.reasoning(data.item_id, data.text)
        if self._text.end(data.item_id) is None:
            yield self._active_turn.started(event, _text_item(data.item_id, "", spoken=spoken))
        if spoken:
            self._answer = item
        yield self._active_turn.completed(event, item)

    # ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, event: e.Event, data: t.PlanUpdate) -> CodexNotifications:
        """The plan of the root conversation."""
        if self._active_turn.turn_id is not None:
            steps = [{"step": step.step, "status": _STEPS[step.status]} for step in data.plan]
            yield self._active_turn.here("turn/plan/updated", explanation=data.explanation, plan=steps)

    def usage(self, event: e.Event, data: e.TokenCount) -> CodexNotifications:
        """Tokens that were used, in total and by the last request."""
        self._usage += data.usage
        if self._active_turn.turn_id is not None:
            used = {"total": _tokens(self._usage), "last": _tokens(data.usage)}
            usage = {**used, "modelContextWindow": data.context_window}
            yield self._active_turn.here("thread/tokenUsage/updated", tokenUsage=usage)

    def compacted(self, event: e.Event, data: e.HistoryCompacted) -> CodexNotifications:
        """The history of the root was summarised, or not."""
        if event.conversation_id != self._root or self._active_turn.turn_id is None:
            return
        if not data.compacted:
            yield self.warning(f"nothing was summarised: {data.reason or 'there is too little'}")
            return
        item = i.compaction(f"{self._active_turn.turn_id}/{event.seq}")
        yield self._active_turn.started(event, item)
        yield self._active_turn.completed(event, item)

    def background(self, event: e.Event, data: e.BackgroundEvent) -> CodexNotifications:
        """Remarks: a retry is not an error yet; a narrowed right is shown."""
        if data.discard_deltas and self._active_turn.turn_id is not None:
            yield self._active_turn.here("error", error=turn_error(data.message), willRetry=True)
        elif data.narrowed:
            yield self.warning(data.message)

    def warning(self, message: str) -> CodexNotification:
        """Something that a person should know."""
        return "warning", {"threadId": self._active_turn.thread_id, "message": message}

    def failed(self, event: e.Event, data: e.ErrorEvent) -> CodexNotifications:
        """An error that the turn ends with."""
        if self._active_turn.turn_id is not None:
            self._error = data
            yield self._active_turn.here("error", error=turn_error(data.message), willRetry=False)

    def server(self, event: e.Event, data: t.McpServerStatus) -> CodexNotifications:
        """The state of an MCP server."""
        status = _SERVERS.get(data.status)
        if status is not None:
            params = {"threadId": self._active_turn.thread_id, "name": data.name, "status": status, "error": data.error}
            yield "mcpServer/startupStatus/updated", params

    handlers: ClassVar[Mapping[type[e.EventData], EventHandler]] = {
        **SurfaceEvents.handlers,
        e.TaskStarted: begin,
        e.TaskComplete: complete,
        e.TurnAborted: abort,
        e.ErrorEvent: failed,
        t.McpToolCallProgress: on_open_call(lambda calls, call, data: calls.progress(call, data)),
        t.ApprovalRequest: lambda view, event, data: view.calls.approval_requested(event, data),
        t.ApprovalResolved: lambda view, event, data: view.calls.approval_resolved(event, data),
    }


def _text_item(id: ItemId, text: str, *, spoken: bool) -> CodexItem:
    return i.agent_message(id, text) if spoken else i.reasoning(id, text)


def _tokens(usage: Usage) -> dict[str, int]:
    return usage_fields(usage, cached="cachedInputTokens", reasoning="reasoningOutputTokens")
