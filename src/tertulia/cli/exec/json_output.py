"""`exec --json`: events of a session as the lines of `codex exec --json`, and some more.

Every line names its `conversation_id` (but `thread.started`, whose `thread_id` is the session), its `task_id` where
it belongs to a task, and the `seq` of the durable event it was made from. A task that hands over to another
conversation and goes on later is one turn: a handoff neither ends nor begins one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, BinaryIO, ClassVar

from msgspec.structs import asdict

from tertulia.cli.exec.call_items import CallItems
from tertulia.cli.exec.run_message import MessageOutcome, StopReason, warning_text
from tertulia.cli.output.terminal import json_line
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.usage import NO_USAGE, Usage

JsonLine = dict[str, Any]
JsonLines = Iterator[JsonLine]

_STOP_MESSAGES = {
    "interrupted": "the run was interrupted",
    "limit": "the run reached a limit",
    "timeout": "the run took longer than it may",
}


class ExecJsonLines:
    """Turns events into lines, one session long. Pure: it reads no clock and writes nothing.

    What it keeps is bounded by what is open: calls, plans, the last error of each running task.
    """

    def __init__(self, warnings: Sequence[str] = (), spent: Usage = NO_USAGE) -> None:
        """`warnings` were found before the session began; they follow `thread.started`. `spent`: in earlier runs."""
        self.stopped_by: StopReason = "interrupted"
        """What an interrupted task is reported as."""
        self._warnings = warnings
        self._root: ConversationId | None = None
        self._numbers = count()
        self._calls = CallItems(self._item)
        self._plans: dict[ConversationId | None, JsonLine] = {}
        self._errors: dict[TaskId | None, e.ErrorEvent] = {}
        self._usage = spent
        self._ended = False

    def take(self, event: e.Event) -> list[JsonLine]:
        """The lines for one event; many events have none."""
        make = self._makers.get(type(event.data))
        made = list(self._calls.take(event) if make is None else make(self, event, event.data))
        if made or make is not None:
            return [self._signed(line, event) for line in made]
        sentence = warning_text(event.data)
        return [] if sentence is None else [self._signed(self._notice(sentence), event)]

    def finish(self, ending: MessageOutcome) -> list[JsonLine]:
        """What is still owed at the end: a run that began has a terminal line, even one stopped before its turn."""
        if self._ended or self._root is None:
            return []
        return [_failed(ending.status) | {"conversation_id": self._root}]

    def _signed(self, line: JsonLine, event: e.Event) -> JsonLine:
        if line["type"] != "thread.started":
            line["conversation_id"] = event.conversation_id or self._root
        if event.task_id is not None:
            line["task_id"] = event.task_id
        if event.seq is not None:
            line["seq"] = event.seq
        return line

    def _item(self, kind: str, **fields: Any) -> JsonLine:
        return {"id": f"item_{next(self._numbers)}", "type": kind, **fields}

    def _notice(self, message: str) -> JsonLine:
        return {"type": "item.completed", "item": self._item("error", message=message)}

    # ── threads and turns ────────────────────────────────────────────────────────────────────────────────────

    def _thread(self, event: e.Event, data: e.SessionConfigured) -> JsonLines:
        self._root = data.root_conversation_id
        yield {"type": "thread.started", "thread_id": event.session_id}
        for warning in self._warnings:
            yield self._notice(warning)

    def _begin(self, event: e.Event, data: e.TaskStarted) -> JsonLines:
        if data.kind != "continuation":
            yield {"type": "turn.started"}

    def _complete(self, event: e.Event, data: e.TaskComplete) -> JsonLines:
        yield from self._close_turn(event)
        if data.status == "completed":
            yield {"type": "turn.completed", "usage": asdict(self._usage) | {"cache_write_input_tokens": 0}}
            return
        error = self._errors.pop(event.task_id, None) or e.ErrorEvent("internal", "the task failed")
        yield _failed(error.code, error.message)

    def _abort(self, event: e.Event, data: e.TurnAborted) -> JsonLines:
        if data.reason != "replaced":
            yield from self._close_turn(event)
            yield _failed(data.reason if data.reason in ("timeout", "limit") else self.stopped_by)

    def _close_turn(self, event: e.Event) -> JsonLines:
        self._ended = self._ended or event.conversation_id == self._root
        plan = self._plans.pop(event.conversation_id, None)
        if plan is not None:
            yield {"type": "item.completed", "item": plan}

    def _count(self, event: e.Event, data: e.TokenCount) -> JsonLines:
        # The usage of the whole thread, as in Codex: that of a turn is the difference.
        self._usage += data.usage
        yield from ()

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────────

    def _said(self, event: e.Event, data: e.AgentMessage | e.AgentReasoning) -> JsonLines:
        kind = "agent_message" if isinstance(data, e.AgentMessage) else "reasoning"
        yield {"type": "item.completed", "item": self._item(kind, text=data.text)}

    def _plan(self, event: e.Event, data: t.PlanUpdate) -> JsonLines:
        earlier = self._plans.get(event.conversation_id)
        items = [{"text": step.step, "completed": step.status == "completed"} for step in data.plan]
        item = self._item("todo_list", items=items) if earlier is None else earlier | {"items": items}
        self._plans[event.conversation_id] = item
        yield {"type": "item.started" if earlier is None else "item.updated", "item": item}

    # ── what is not as it should be ──────────────────────────────────────────────────────────────────────────

    def _background(self, event: e.Event, data: e.BackgroundEvent) -> JsonLines:
        # A retry is a line of its own, as Codex has it.
        yield {"type": "error", "message": data.message} if data.discard_deltas else self._notice(data.message)

    def _error(self, event: e.Event, data: e.ErrorEvent) -> JsonLines:
        if event.task_id is not None:
            self._errors[event.task_id] = data
        yield {"type": "error", "code": data.code, "message": data.message}

    _makers: ClassVar[Mapping[type[e.EventData], Callable[..., JsonLines]]] = {
        e.SessionConfigured: _thread,
        e.TaskStarted: _begin,
        e.TaskComplete: _complete,
        e.TurnAborted: _abort,
        e.TokenCount: _count,
        e.AgentMessage: _said,
        e.AgentReasoning: _said,
        t.PlanUpdate: _plan,
        e.BackgroundEvent: _background,
        e.ErrorEvent: _error,
    }


def _failed(code: str, message: str | None = None) -> JsonLine:
    return {"type": "turn.failed", "error": {"code": code, "message": message or _STOP_MESSAGES.get(code, code)}}


class JsonView:
    """Writes the JSON lines of each event to a stream, at once."""

    def __init__(self, stream: BinaryIO, warnings: Sequence[str], spent: Usage = NO_USAGE) -> None:
        self._stream = stream
        self._lines = ExecJsonLines(warnings, spent)

    def show(self, event: e.Event) -> None:
        """Write what the event comes to."""
        self._write(self._lines.take(event))

    def stopping(self, reason: StopReason) -> None:
        """Note why an interrupted task will be reported as failed."""
        self._lines.stopped_by = reason

    def end(self, ending: MessageOutcome) -> None:
        """Write the last line of a run that has none yet."""
        self._write(self._lines.finish(ending))

    def _write(self, lines: list[JsonLine]) -> None:
        for line in lines:
            self._stream.write(json_line(line))
        self._stream.flush()
