"""`exec --json`: events of a session as the lines of `codex exec --json`, and some more.

Every line names its `conversation_id` (but `thread.started`, whose `thread_id` is the session), its `task_id` where
it belongs to a task, and the `seq` of the durable event it was made from. A task that hands over to another
conversation and goes on later is one turn: the handing over neither ends nor begins one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import asdict

from tertulia.apps.errand import Ending, StopReason
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.protocol.usage import NO_USAGE

Line = dict[str, Any]

_SAID = {
    "timeout": "the run took longer than it may",
    "limit": "the run reached a limit",
    "interrupted": "the run was interrupted",
}


class ExecLines:
    """Turns events into lines, one session long. Pure: it reads no clock and writes nothing.

    What it keeps is bounded by what is open: calls, plans, the last error of each running task.
    """

    def __init__(self, warnings: Sequence[str] = ()) -> None:
        """`warnings` were found before the session began; they follow `thread.started`."""
        self.stopped_by: StopReason = "interrupted"
        """Why a task ends that somebody stops."""
        self._warnings = warnings
        self._root: ConversationId | None = None
        self._numbers = count()
        self._calls: dict[tuple[ConversationId | None, CallId], Line] = {}
        self._plans: dict[ConversationId | None, Line] = {}
        self._errors: dict[TaskId | None, e.Error] = {}
        self._usage = NO_USAGE
        self._ended = False

    def take(self, event: e.Event) -> list[Line]:
        """The lines for one event; most events have none."""
        make = _MAKERS.get(type(event.data))
        return [] if make is None else [self._signed(line, event) for line in make(self, event, event.data)]

    def finish(self, ending: Ending) -> list[Line]:
        """What is still owed at the end: a run that began has a terminal line, even one stopped before its turn."""
        if self._ended or self._root is None:
            return []
        code = ending.status if ending.status in _SAID else "interrupted"
        return [_failed(code, _SAID[code]) | {"conversation_id": self._root}]

    def _signed(self, line: Line, event: e.Event) -> Line:
        if line["type"] != "thread.started":
            line["conversation_id"] = event.conversation_id or self._root
        if event.task_id is not None:
            line["task_id"] = event.task_id
        if event.seq is not None:
            line["seq"] = event.seq
        return line

    def _item(self, kind: str, **fields: Any) -> Line:
        return {"id": f"item_{next(self._numbers)}", "type": kind, **fields}

    # ── threads and turns ────────────────────────────────────────────────────────────────────────────────────

    def thread(self, event: e.Event, data: e.SessionConfigured) -> Iterator[Line]:
        """The session stands."""
        self._root = data.root_conversation_id
        yield {"type": "thread.started", "thread_id": event.session_id}
        for warning in self._warnings:
            yield from self.notice(event, e.Warning(warning))

    def begin(self, event: e.Event, data: e.TaskStarted) -> Iterator[Line]:
        """A turn begins, unless it only goes on."""
        if data.kind != "continuation":
            yield {"type": "turn.started"}

    def count(self, event: e.Event, data: e.TokenCount) -> Iterator[Line]:
        """Usage is counted for the whole thread, as Codex does."""
        self._usage += data.usage
        yield from ()

    def complete(self, event: e.Event, data: e.TaskComplete) -> Iterator[Line]:
        """A task has ended by itself."""
        yield from self._close_turn(event)
        if data.status == "completed":
            yield {"type": "turn.completed", "usage": asdict(self._usage) | {"cache_write_input_tokens": 0}}
            return
        error = self._errors.pop(event.task_id, None) or e.Error("internal", "the task failed")
        yield _failed(error.code, error.message)

    def abort(self, event: e.Event, data: e.TurnAborted) -> Iterator[Line]:
        """A task was ended from outside."""
        if data.reason == "replaced":
            return
        yield from self._close_turn(event)
        code = data.reason if data.reason in _SAID else "interrupted"
        code = self.stopped_by if code == "interrupted" else code
        yield _failed(code, _SAID[code])

    def _close_turn(self, event: e.Event) -> Iterator[Line]:
        self._ended = self._ended or event.conversation_id == self._root
        plan = self._plans.pop(event.conversation_id, None)
        if plan is not None:
            yield {"type": "item.completed", "item": plan}

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────────

    def message(self, event: e.Event, data: e.AgentMessage) -> Iterator[Line]:
        """The model said something."""
        yield {"type": "item.completed", "item": self._item("agent_message", text=data.text)}

    def reasoning(self, event: e.Event, data: e.AgentReasoning) -> Iterator[Line]:
        """The model thought something."""
        yield {"type": "item.completed", "item": self._item("reasoning", text=data.text)}

    def plan(self, event: e.Event, data: t.PlanUpdate) -> Iterator[Line]:
        """One list a turn, updated with each new plan."""
        known = self._plans.get(event.conversation_id)
        items = [{"text": step.step, "completed": step.status == "completed"} for step in data.plan]
        item = self._item("todo_list", items=items) if known is None else known | {"items": items}
        self._plans[event.conversation_id] = item
        yield {"type": "item.started" if known is None else "item.updated", "item": item}

    def call(self, event: e.Event, data: t.ToolCallBegin) -> Iterator[Line]:
        """A call begins."""
        item = self._item(
            "tool_call",
            call_id=data.call_id,
            name=data.name,
            arguments=_arguments(data.arguments),
            output=None,
            status="in_progress",
        )
        self._calls[event.conversation_id, data.call_id] = item
        yield {"type": "item.started", "item": item}

    def called(self, event: e.Event, data: t.ToolCallEnd) -> Iterator[Line]:
        """A call has its one end."""
        begun = self._calls.pop((event.conversation_id, data.call_id), None)
        item = begun or self._item("tool_call", call_id=data.call_id, name=data.name, arguments=None)
        status = "completed" if data.success else "failed"
        yield {"type": "item.completed", "item": item | {"output": data.output, "status": status}}

    # ── what is not as it should be ──────────────────────────────────────────────────────────────────────────

    def notice(self, event: e.Event, data: e.Warning) -> Iterator[Line]:
        """Not fatal, hence an item."""
        yield self._notice(data.message)

    def background(self, event: e.Event, data: e.BackgroundEvent) -> Iterator[Line]:
        """A retry is a line of its own, as Codex has it; everything else is an item."""
        yield {"type": "error", "message": data.message} if data.discard_deltas else self._notice(data.message)

    def server(self, event: e.Event, data: t.McpServerStatus) -> Iterator[Line]:
        """An MCP server that will not serve."""
        if data.error is not None:
            yield self._notice(f"MCP server {data.name} is {data.status}: {data.error}")

    def forced(self, event: e.Event, data: e.ConversationCloseForced) -> Iterator[Line]:
        """A task would not stop."""
        yield self._notice(f"the task did not stop within {data.timeout_s:g} s and was abandoned")

    def lagged(self, event: e.Event, data: e.SubscriberLagged) -> Iterator[Line]:
        """Durable events are missing here; deltas would not have been shown anyway."""
        if data.from_seq is not None:
            yield self._notice(f"events {data.from_seq} to {data.to_seq} were missed")

    def error(self, event: e.Event, data: e.Error) -> Iterator[Line]:
        """Something failed; if it was the task, its end follows."""
        if event.task_id is not None:
            self._errors[event.task_id] = data
        yield {"type": "error", "code": data.code, "message": data.message}

    def _notice(self, message: str) -> Line:
        return {"type": "item.completed", "item": self._item("error", message=message)}


_MAKERS: Mapping[type[e.EventData], Callable[[ExecLines, e.Event, Any], Iterator[Line]]] = {
    e.SessionConfigured: ExecLines.thread,
    e.TaskStarted: ExecLines.begin,
    e.TokenCount: ExecLines.count,
    e.TaskComplete: ExecLines.complete,
    e.TurnAborted: ExecLines.abort,
    e.AgentMessage: ExecLines.message,
    e.AgentReasoning: ExecLines.reasoning,
    t.PlanUpdate: ExecLines.plan,
    t.ToolCallBegin: ExecLines.call,
    t.ToolCallEnd: ExecLines.called,
    e.Warning: ExecLines.notice,
    e.BackgroundEvent: ExecLines.background,
    t.McpServerStatus: ExecLines.server,
    e.ConversationCloseForced: ExecLines.forced,
    e.SubscriberLagged: ExecLines.lagged,
    e.Error: ExecLines.error,
}


def _failed(code: str, message: str) -> Line:
    return {"type": "turn.failed", "error": {"code": code, "message": message}}


def _arguments(text: str) -> Any:
    """The value that the model wrote, or its text where that is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


class JsonView:
    """Writes the lines as they come."""

    def __init__(self, stream: BinaryIO, warnings: Sequence[str]) -> None:
        self._stream = stream
        self._lines = ExecLines(warnings)

    def show(self, event: e.Event) -> None:
        """Write what the event comes to."""
        self._write(self._lines.take(event))

    def stopping(self, reason: StopReason) -> None:
        """Remember why."""
        self._lines.stopped_by = reason

    def end(self, ending: Ending) -> None:
        """Write what is owed."""
        self._write(self._lines.finish(ending))

    def _write(self, lines: list[Line]) -> None:
        for line in lines:
            self._stream.write(msgspec.json.encode(line) + b"\n")
        self._stream.flush()
