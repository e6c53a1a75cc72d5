"""The events of a session as Codex's notifications: a thread's turns, and the items in them. Pure: it reads no clock.

A turn is what one message causes. A task that hands over to another conversation and goes on later is one turn; what
that conversation does meanwhile shows as items of the same turn, and what it says does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId, ItemId, TaskId
from tertulia.protocol.usage import NO_USAGE, Usage
from tertulia.server.codex import items as i
from tertulia.server.codex.active_turn import (
    ActiveTurn,
    CodexNotification,
    CodexToolCalls,
    event_time_ms,
    turn_error,
    turn_object,
)
from tertulia.server.codex.items import CodexItem

CodexNotifications = Iterator[CodexNotification]
NotificationHandler = Callable[["ThreadNotifications", e.Event, Any], CodexNotifications]

_STEPS = {"pending": "pending", "in_progress": "inProgress", "completed": "completed"}
_SERVERS = {"starting": "starting", "ready": "ready", "failed": "failed", "untrusted": "failed", "stopped": "cancelled"}
_FAILED = {"timeout": "the turn took longer than it may", "limit": "the turn reached a limit"}


class ThreadNotifications:
    """Follows one session, from its first event."""

    def __init__(
        self,
        active_turn: ActiveTurn,
        calls: CodexToolCalls,
        root: ConversationId,
        opening_message: Callable[[TaskId], CodexItem | None],
        spent: Usage = NO_USAGE,
    ) -> None:
        """`opening_message`: the message that a task of ours begins with, given once. `spent`: before we listened."""
        self.active_turn = active_turn
        self.calls = calls
        self._root = root
        self._opening_message = opening_message
        self._task: TaskId | None = None
        """The root's own, the last that began."""
        self._began_ms = 0
        self._error: e.ErrorEvent | None = None
        self._answer: CodexItem | None = None
        self._words: dict[ItemId, int] = {}
        """Characters of each message that is not whole yet."""
        self._usage = spent

    def of(self, event: e.Event) -> list[CodexNotification]:
        """What there is to tell of an event."""
        tell = _HANDLERS.get(type(event.data))
        return [] if tell is None else list(tell(self, event, event.data))

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, event: e.Event, data: e.TaskStarted) -> CodexNotifications:
        """A task of the root has started: a turn, unless it continues one."""
        if event.conversation_id != self._root or event.task_id is None:
            return
        self._task = event.task_id
        if data.kind == "continuation":
            return
        self.active_turn.turn_id, self._began_ms = event.task_id, event_time_ms(event)
        self._error = self._answer = None
        self.calls.forget()
        self._words.clear()
        yield self.active_turn.status()
        turn = turn_object(event.task_id, began_ms=self._began_ms)
        yield "turn/started", {"threadId": self.active_turn.thread_id, "turn": turn}
        message = self._opening_message(event.task_id)
        if message is not None:
            yield self.active_turn.started(event, message)
            yield self.active_turn.completed(event, message)

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
        """Of a turn that was stopped while it waited, or whose beginning got lost on the way."""
        if event.task_id is not None and self._opening_message(event.task_id) is not None:
            ended = turn_object(event.task_id, status, ended_ms=event_time_ms(event))
            yield "turn/completed", {"threadId": self.active_turn.thread_id, "turn": ended}

    def _end(self, event: e.Event, error: e.ErrorEvent | None, status: str) -> CodexNotifications:
        if self.active_turn.turn_id is None:
            return
        ended = turn_object(self.active_turn.turn_id, status, began_ms=self._began_ms, ended_ms=event_time_ms(event))
        ended["error"] = None if error is None else turn_error(error.message)
        if self._answer is not None:
            ended |= {"items": [self._answer], "itemsView": "summary"}
        self.active_turn.turn_id = None
        self.calls.forget()
        yield self.active_turn.status()
        yield "turn/completed", {"threadId": self.active_turn.thread_id, "turn": ended}

    # ── words ────────────────────────────────────────────────────────────────────────────────────────────────

    def piece(self, event: e.Event, data: e.AgentMessageDelta | e.AgentReasoningDelta) -> CodexNotifications:
        """A piece of a message or thought. Where one is missing the rest waits for the whole."""
        if event.conversation_id != self._root:
            return
        spoken = isinstance(data, e.AgentMessageDelta)
        if data.item_id not in self._words:
            self._words[data.item_id] = 0
            yield self.active_turn.started(event, _text_item(data.item_id, "", spoken=spoken))
        if data.offset == self._words[data.item_id]:
            self._words[data.item_id] += len(data.text)
            if spoken:
                yield self.active_turn.here("item/agentMessage/delta", itemId=data.item_id, delta=data.text)
            else:
                params = {"itemId": data.item_id, "delta": data.text, "summaryIndex": 0}
                yield self.active_turn.here("item/reasoning/summaryTextDelta", **params)

    def whole(self, event: e.Event, data: e.AgentMessage | e.AgentReasoning) -> CodexNotifications:
        """A whole message or thought of the root."""
        if event.conversation_id != self._root:
            return
        spoken = isinstance(data, e.AgentMessage)
        item = _text_item(data.item_id, data.text, spoken=spoken)
        if self._words.pop(data.item_id, None) is None:
            yield self.active_turn.started(event, _text_item(data.item_id, "", spoken=spoken))
        if spoken:
            self._answer = item
        yield self.active_turn.completed(event, item)

    # ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, event: e.Event, data: t.PlanUpdate) -> CodexNotifications:
        """The plan of the root conversation."""
        if event.conversation_id == self._root and self.active_turn.turn_id is not None:
            steps = [{"step": step.step, "status": _STEPS[step.status]} for step in data.plan]
            yield self.active_turn.here("turn/plan/updated", explanation=data.explanation, plan=steps)

    def count(self, event: e.Event, data: e.TokenCount) -> CodexNotifications:
        """Tokens that were used, in total and by the last request."""
        self._usage += data.usage
        if self.active_turn.turn_id is not None:
            used = {"total": _tokens(self._usage), "last": _tokens(data.usage)}
            usage = {**used, "modelContextWindow": data.context_window}
            yield self.active_turn.here("thread/tokenUsage/updated", tokenUsage=usage)

    def compacted(self, event: e.Event, data: e.HistoryCompacted) -> CodexNotifications:
        """The history of the root was summarised, or not."""
        if event.conversation_id != self._root or self.active_turn.turn_id is None:
            return
        if not data.compacted:
            yield self.active_turn.warning(f"nothing was summarised: {data.reason or 'there is too little'}")
            return
        item = i.compaction(f"{self.active_turn.turn_id}/{event.seq}")
        yield self.active_turn.started(event, item)
        yield self.active_turn.completed(event, item)

    def background(self, event: e.Event, data: e.BackgroundEvent) -> CodexNotifications:
        """Remarks on the way. A retry is no error yet; a right that was narrowed is worth a word."""
        if data.discard_deltas and self.active_turn.turn_id is not None:
            yield self.active_turn.here("error", error=turn_error(data.message), willRetry=True)
        elif data.narrowed:
            yield self.active_turn.warning(data.message)

    def failed(self, event: e.Event, data: e.ErrorEvent) -> CodexNotifications:
        """An error that the turn ends with."""
        if self.active_turn.turn_id is not None:
            self._error = data
            yield self.active_turn.here("error", error=turn_error(data.message), willRetry=False)

    def server(self, event: e.Event, data: t.McpServerStatus) -> CodexNotifications:
        """The state of an MCP server."""
        status = _SERVERS.get(data.status)
        if status is not None:
            params = {"threadId": self.active_turn.thread_id, "name": data.name, "status": status, "error": data.error}
            yield "mcpServer/startupStatus/updated", params


def _text_item(id: ItemId, text: str, *, spoken: bool) -> CodexItem:
    return i.agent_message(id, text) if spoken else i.reasoning(id, text)


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "totalTokens": usage.total_tokens,
        "inputTokens": usage.input_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "outputTokens": usage.output_tokens,
        "reasoningOutputTokens": usage.reasoning_output_tokens,
    }


_HANDLERS: dict[type[e.EventData], NotificationHandler] = {
    e.TaskStarted: ThreadNotifications.begin,
    e.TaskComplete: ThreadNotifications.complete,
    e.TurnAborted: ThreadNotifications.abort,
    e.AgentMessageDelta: ThreadNotifications.piece,
    e.AgentReasoningDelta: ThreadNotifications.piece,
    e.AgentMessage: ThreadNotifications.whole,
    e.AgentReasoning: ThreadNotifications.whole,
    e.TokenCount: ThreadNotifications.count,
    e.HistoryCompacted: ThreadNotifications.compacted,
    e.BackgroundEvent: ThreadNotifications.background,
    e.WarningEvent: lambda notifications, event, data: iter([notifications.active_turn.warning(data.message)]),
    e.ErrorEvent: ThreadNotifications.failed,
    t.McpServerStatus: ThreadNotifications.server,
    t.PlanUpdate: ThreadNotifications.plan,
    t.ToolCallBegin: lambda notifications, event, data: notifications.calls.begin(event, data),
    t.ToolCallEnd: lambda notifications, event, data: notifications.calls.end(event, data),
    t.ExecCommandBegin: lambda notifications, event, data: notifications.calls.running(event, data),
    t.ExecCommandOutputDelta: lambda notifications, event, data: notifications.calls.output(event, data),
    t.ExecCommandEnd: lambda notifications, event, data: notifications.calls.ran(event, data),
    t.McpToolCallProgress: lambda notifications, event, data: notifications.calls.progress(event, data),
    t.WebSearchEnd: lambda notifications, event, data: notifications.calls.searched(event, data),
    t.ApprovalRequest: lambda notifications, event, data: notifications.calls.asked(event, data),
    t.ApprovalResolved: lambda notifications, event, data: notifications.calls.settled(event, data),
}
