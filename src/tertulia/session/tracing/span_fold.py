"""Folds the events of a session into spans: session, task, turn, and below a turn its model request and tool calls.

A trace is a chain, with the `trace_id` of its events. Its root is a span for the session's part in it, because a span
of the whole session would be exported only when it closes, or never. A turn begins when its task does, or when the
calls of the turn before have their outputs; its model request ends with the `token_count`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event
from tertulia.protocol.ids import CallId, ConversationId, TaskId, new_span_id
from tertulia.protocol.message_events import UserMessageEvent
from tertulia.session.tracing import span as s
from tertulia.session.tracing.open_spans import MAX_TEXT, OpenCall, OpenRequest, OpenTask, OpenTrace, message_json

ModelOf = Callable[[ConversationId], str | None]
_FINISHED_TRACES = 256
"""Traces whose root is out already and that a late event may still belong to."""


class SpanFold:
    """The open spans of one session. Its memory is bounded by the tasks and calls that are open."""

    def __init__(
        self,
        session_id: str,
        emit: Callable[[s.FinishedSpan], None],
        model_of: ModelOf = lambda conversation_id: None,
        label_of: Callable[[str], str] = str,
        clean: Callable[[str], str] = str,
    ) -> None:
        """`emit` takes each span when it has ended; `model_of` names the model of a conversation; `label_of` gives the
        name under which a tool is shown: a name that a model made up may hold any text. `clean` redacts a text."""
        self._session_id = session_id
        self._emit = emit
        self._model_of = model_of
        self._label_of = label_of
        self._clean = clean
        self._traces: dict[str, OpenTrace] = {}
        self._finished: dict[str, OpenTrace] = {}
        self._tasks: dict[TaskId, OpenTask] = {}
        self._calls: dict[CallId, OpenCall] = {}
        self._messages: dict[TaskId, str] = {}
        self._last_ns = 0

    def take(self, event: Event, content: bool = False) -> None:
        """Fold one event in. `content`: whether its texts may become attributes."""
        trace_id, task_id = event.trace_id, event.task_id
        if trace_id is None or task_id is None:
            return
        now = self._last_ns = max(self._last_ns, s.nanoseconds(event.ts))
        match event.data:
            case UserMessageEvent(text=text) if content:
                self._hear(task_id, text[: 2 * MAX_TEXT])
            case e.TaskStarted(kind=kind):
                self._start_task(event, self._trace(trace_id, now), task_id, kind)
            case e.TaskComplete(status=ending) | e.TurnAborted(reason=ending):
                self._end_task(task_id, ending, now)
            case t.ToolCallEnd() as call:
                self._end_call(call, now, content)
            case data if (task := self._tasks.get(task_id)) is not None:
                self._add(task, data, now, content)
            case _:
                pass

    def close(self) -> None:
        """End everything that is open: no event will."""
        for id in list(self._tasks):
            self._end_task(id, "shutdown", self._last_ns)
        for call in list(self._calls.values()):
            self._finish_call(call, self._last_ns, error="shutdown")

    def _hear(self, task_id: TaskId, text: str) -> None:
        task = self._tasks.get(task_id)
        if task is None:
            self._messages[task_id] = text
        else:
            task.attributes.setdefault(s.INPUT_MESSAGES, message_json("user", self._short(text)))

    def _short(self, text: str) -> str:
        """A text as an attribute. Redacted before it is cut: half a secret has no shape that could be known."""
        return self._clean(text[: 2 * MAX_TEXT])[:MAX_TEXT]

    def _trace(self, trace_id: str, now: int) -> OpenTrace:
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._finished.pop(trace_id, None) or OpenTrace(trace_id, new_span_id(), now)
            self._traces[trace_id] = trace
        return trace

    def _start_task(self, event: Event, trace: OpenTrace, task_id: TaskId, kind: e.TaskKind) -> None:
        conversation = event.conversation_id or ConversationId("")
        task = OpenTask(
            trace,
            event.span_id or new_span_id(),
            trace.parent_of(conversation) if kind == "target" else trace.root_id,
            self._last_ns,
            {s.OPERATION: "invoke_agent", s.CONVERSATION: conversation, s.TASK: task_id, s.TASK_KIND: kind},
            self._model_of(conversation),
        )
        if (text := self._messages.pop(task_id, None)) is not None:
            task.attributes[s.INPUT_MESSAGES] = message_json("user", self._short(text))
        self._tasks[task_id] = task
        trace.open += 1

    def _add(self, task: OpenTask, data: e.EventData, now: int, content: bool) -> None:
        match data:
            case t.ToolCallBegin():
                self._start_call(task, data, now, content)
            case e.AgentMessageDelta() | e.AgentReasoningDelta():
                self._request(task).note_chunk(now)
            case e.TokenCount():
                self._request(task).finish(data, now)
            case e.AgentMessage(text=text) if content and task.turn is not None:
                task.turn.request.attributes[s.OUTPUT_MESSAGES] = message_json("assistant", self._short(text))
            case e.ErrorEvent(code=code):
                task.error = code
            case t.McpToolCallBegin(call_id=call_id, server=server):
                if (call := self._calls.get(call_id)) is not None:
                    call.server, call.sent_ns = server, now
            case t.McpToolCallEnd(call_id=call_id, success=success):
                if (call := self._calls.get(call_id)) is not None and call.sent_ns is not None:
                    self._emit(call.mcp_span(now, success))
            case _:
                pass

    def _request(self, task: OpenTask) -> OpenRequest:
        """The model request that is under way; the one before has its answer, so another turn has begun."""
        turn = task.turn
        if turn is None or turn.request.end_ns is not None:
            self._end_turn(task, task.idle_since)
            turn = task.begin_turn()
        return turn.request

    def _start_call(self, task: OpenTask, call: t.ToolCallBegin, now: int, content: bool) -> None:
        if call.call_id in self._calls:
            return
        turn = task.turn or task.begin_turn()
        opened = OpenCall(task, turn.span_id, call, self._label_of(call.name), now)
        if content:
            opened.attributes[s.TOOL_ARGUMENTS] = self._short(msgspec.json.encode(call.arguments).decode())
        self._calls[call.call_id] = opened
        task.trace.calls[call.call_id] = opened
        task.trace.open += 1

    def _end_call(self, ended: t.ToolCallEnd, now: int, content: bool) -> None:
        call = self._calls.get(ended.call_id)
        if call is None:
            return
        if content:
            call.attributes[s.TOOL_RESULT] = self._short(ended.output)
        self._finish_call(call, now, error=None if ended.success else "tool_error")

    def _finish_call(self, call: OpenCall, now: int, error: str | None) -> None:
        del self._calls[call.call_id], call.trace.calls[call.call_id]
        call.task.idle_since = max(call.task.idle_since, now)
        self._emit(call.span(now, error))
        self._leave(call.trace, now)

    def _end_turn(self, task: OpenTask, now: int, error: str | None = None) -> None:
        turn, task.turn = task.turn, None
        if turn is None:
            return
        self._emit(turn.request.span(now, error))
        self._emit(turn.span(max(now, turn.request.end_ns or now)))

    def _end_task(self, task_id: TaskId, ending: str, now: int) -> None:
        self._messages.pop(task_id, None)
        task = self._tasks.pop(task_id, None)
        if task is None:
            return
        failed = ending not in ("completed", "replaced")
        error = (task.error or ending) if failed else None
        if failed and (task.turn is None or task.error is not None):
            # The request that it was about gave no sign of itself: no piece came, and no tokens were counted.
            self._request(task)
        self._end_turn(task, now, error)
        self._emit(task.span(now, ending, error))
        self._leave(task.trace, now)

    def _leave(self, trace: OpenTrace, now: int) -> None:
        trace.open -= 1
        if trace.open == 0:
            # A call that waits for another conversation is open until the answer is there: so this is the end.
            del self._traces[trace.trace_id]
            if not trace.shown:
                self._emit(trace.span(self._session_id, now))
                trace.shown = True
            self._finished[trace.trace_id] = trace
            if len(self._finished) > _FINISHED_TRACES:
                del self._finished[next(iter(self._finished))]
