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
from tertulia.server import as_codex_items as i
from tertulia.server.as_codex_calls import Calls
from tertulia.server.as_codex_items import CodexItem
from tertulia.server.as_codex_turn import Moment, Note, milliseconds, trouble, turn

Notes = Iterator[Note]
Told = Callable[["News", e.Event, Any], Notes]

_STEPS = {"pending": "pending", "in_progress": "inProgress", "completed": "completed"}
_SERVERS = {"starting": "starting", "ready": "ready", "failed": "failed", "untrusted": "failed", "stopped": "cancelled"}
_FAILED = {"timeout": "the turn took longer than it may", "limit": "the turn reached a limit"}


class News:
    """Follows one session, from its first event."""

    def __init__(
        self,
        moment: Moment,
        calls: Calls,
        root: ConversationId,
        said: Callable[[TaskId], CodexItem | None],
        spent: Usage = NO_USAGE,
    ) -> None:
        """`said`: the message that a task of ours begins with, given once. `spent`: before we listened."""
        self.moment = moment
        self.calls = calls
        self._root = root
        self._said = said
        self._task: TaskId | None = None
        """The root's own, the last that began."""
        self._began_ms = 0
        self._error: e.ErrorEvent | None = None
        self._answer: CodexItem | None = None
        self._words: dict[ItemId, int] = {}
        """Characters of each message that is not whole yet."""
        self._usage = spent

    def of(self, event: e.Event) -> list[Note]:
        """What there is to tell of an event."""
        tell = _TOLD.get(type(event.data))
        return [] if tell is None else list(tell(self, event, event.data))

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, event: e.Event, data: e.TaskStarted) -> Notes:
        """By `of`."""
        if event.conversation_id != self._root or event.task_id is None:
            return
        self._task = event.task_id
        if data.kind == "continuation":
            return
        self.moment.turn_id, self._began_ms = event.task_id, milliseconds(event)
        self._error = self._answer = None
        self.calls.forget()
        self._words.clear()
        yield self.moment.status()
        begun = turn(event.task_id, began_ms=self._began_ms)
        yield "turn/started", {"threadId": self.moment.thread_id, "turn": begun}
        said = self._said(event.task_id)
        if said is not None:
            yield self.moment.started(event, said)
            yield self.moment.completed(event, said)

    def complete(self, event: e.Event, data: e.TaskComplete) -> Notes:
        """By `of`."""
        if event.task_id == self._task:
            error = self._error or e.ErrorEvent("internal", "the turn failed")
            yield from self._end(event, None if data.status == "completed" else error, data.status)
        else:
            yield from self._end_unseen(event, data.status)

    def abort(self, event: e.Event, data: e.TurnAborted) -> Notes:
        """By `of`."""
        if event.task_id is None or data.reason == "replaced":
            return
        if event.task_id == self._task:
            failed = _FAILED.get(data.reason)
            error = None if failed is None else e.ErrorEvent(data.reason, failed)
            yield from self._end(event, error, "interrupted" if error is None else "failed")
        else:
            yield from self._end_unseen(event, "interrupted")

    def _end_unseen(self, event: e.Event, status: str) -> Notes:
        """Of a turn that was stopped while it waited, or whose beginning got lost on the way."""
        if event.task_id is not None and self._said(event.task_id) is not None:
            ended = turn(event.task_id, status, ended_ms=milliseconds(event))
            yield "turn/completed", {"threadId": self.moment.thread_id, "turn": ended}

    def _end(self, event: e.Event, error: e.ErrorEvent | None, status: str) -> Notes:
        if self.moment.turn_id is None:
            return
        ended = turn(self.moment.turn_id, status, began_ms=self._began_ms, ended_ms=milliseconds(event))
        ended["error"] = None if error is None else trouble(error.message)
        if self._answer is not None:
            ended |= {"items": [self._answer], "itemsView": "summary"}
        self.moment.turn_id = None
        self.calls.forget()
        yield self.moment.status()
        yield "turn/completed", {"threadId": self.moment.thread_id, "turn": ended}

    # ── words ────────────────────────────────────────────────────────────────────────────────────────────────

    def piece(self, event: e.Event, data: e.AgentMessageDelta | e.AgentReasoningDelta) -> Notes:
        """By `of`. Where one is missing the rest waits for the whole."""
        if event.conversation_id != self._root:
            return
        spoken = isinstance(data, e.AgentMessageDelta)
        if data.item_id not in self._words:
            self._words[data.item_id] = 0
            yield self.moment.started(event, _said(data.item_id, "", spoken=spoken))
        if data.offset == self._words[data.item_id]:
            self._words[data.item_id] += len(data.text)
            if spoken:
                yield self.moment.here("item/agentMessage/delta", itemId=data.item_id, delta=data.text)
            else:
                told = {"itemId": data.item_id, "delta": data.text, "summaryIndex": 0}
                yield self.moment.here("item/reasoning/summaryTextDelta", **told)

    def whole(self, event: e.Event, data: e.AgentMessage | e.AgentReasoning) -> Notes:
        """By `of`."""
        if event.conversation_id != self._root:
            return
        spoken = isinstance(data, e.AgentMessage)
        item = _said(data.item_id, data.text, spoken=spoken)
        if self._words.pop(data.item_id, None) is None:
            yield self.moment.started(event, _said(data.item_id, "", spoken=spoken))
        if spoken:
            self._answer = item
        yield self.moment.completed(event, item)

    # ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, event: e.Event, data: t.PlanUpdate) -> Notes:
        """By `of`."""
        if event.conversation_id == self._root and self.moment.turn_id is not None:
            steps = [{"step": step.step, "status": _STEPS[step.status]} for step in data.plan]
            yield self.moment.here("turn/plan/updated", explanation=data.explanation, plan=steps)

    def count(self, event: e.Event, data: e.TokenCount) -> Notes:
        """By `of`."""
        self._usage += data.usage
        if self.moment.turn_id is not None:
            used = {"total": _tokens(self._usage), "last": _tokens(data.usage)}
            usage = {**used, "modelContextWindow": data.context_window}
            yield self.moment.here("thread/tokenUsage/updated", tokenUsage=usage)

    def compacted(self, event: e.Event, data: e.HistoryCompacted) -> Notes:
        """By `of`."""
        if event.conversation_id != self._root or self.moment.turn_id is None:
            return
        if not data.compacted:
            yield self.moment.warning(f"nothing was summarised: {data.reason or 'there is too little'}")
            return
        item = i.compaction(f"{self.moment.turn_id}/{event.seq}")
        yield self.moment.started(event, item)
        yield self.moment.completed(event, item)

    def background(self, event: e.Event, data: e.BackgroundEvent) -> Notes:
        """By `of`. A retry is no error yet; a right that was narrowed is worth a word."""
        if data.discard_deltas and self.moment.turn_id is not None:
            yield self.moment.here("error", error=trouble(data.message), willRetry=True)
        elif data.narrowed:
            yield self.moment.warning(data.message)

    def failed(self, event: e.Event, data: e.ErrorEvent) -> Notes:
        """By `of`."""
        if self.moment.turn_id is not None:
            self._error = data
            yield self.moment.here("error", error=trouble(data.message), willRetry=False)

    def server(self, event: e.Event, data: t.McpServerStatus) -> Notes:
        """By `of`."""
        status = _SERVERS.get(data.status)
        if status is not None:
            told = {"threadId": self.moment.thread_id, "name": data.name, "status": status, "error": data.error}
            yield "mcpServer/startupStatus/updated", told


def _said(id: ItemId, text: str, *, spoken: bool) -> CodexItem:
    return i.agent_message(id, text) if spoken else i.reasoning(id, text)


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "totalTokens": usage.total_tokens,
        "inputTokens": usage.input_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "outputTokens": usage.output_tokens,
        "reasoningOutputTokens": usage.reasoning_output_tokens,
    }


_TOLD: dict[type[e.EventData], Told] = {
    e.TaskStarted: News.begin,
    e.TaskComplete: News.complete,
    e.TurnAborted: News.abort,
    e.AgentMessageDelta: News.piece,
    e.AgentReasoningDelta: News.piece,
    e.AgentMessage: News.whole,
    e.AgentReasoning: News.whole,
    e.TokenCount: News.count,
    e.HistoryCompacted: News.compacted,
    e.BackgroundEvent: News.background,
    e.WarningEvent: lambda news, event, data: iter([news.moment.warning(data.message)]),
    e.ErrorEvent: News.failed,
    t.McpServerStatus: News.server,
    t.PlanUpdate: News.plan,
    t.ToolCallBegin: lambda news, event, data: news.calls.begin(event, data),
    t.ToolCallEnd: lambda news, event, data: news.calls.end(event, data),
    t.ExecCommandBegin: lambda news, event, data: news.calls.running(event, data),
    t.ExecCommandOutputDelta: lambda news, event, data: news.calls.output(event, data),
    t.ExecCommandEnd: lambda news, event, data: news.calls.ran(event, data),
    t.McpToolCallProgress: lambda news, event, data: news.calls.progress(event, data),
    t.WebSearchEnd: lambda news, event, data: news.calls.searched(event, data),
    t.ApprovalRequest: lambda news, event, data: news.calls.asked(event, data),
    t.ApprovalResolved: lambda news, event, data: news.calls.settled(event, data),
}
