"""`exec --json`: events of a session as the lines of `codex exec --json`, and some more.

Every line names its `conversation_id` (but `thread.started`, whose `thread_id` is the session), its `task_id` where
it belongs to a task, and the `seq` of the durable event it was made from. A task that hands over to another
conversation and goes on later is one turn: a handoff neither ends nor begins one. A tool call that Codex has a kind for
is one item of that kind, and not a `tool_call` as well.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, BinaryIO, ClassVar, cast

import msgspec
from msgspec.structs import asdict

from tertulia.cli.exec.run_message import MessageOutcome, StopReason, warning_text
from tertulia.cli.output.terminal import json_line
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ConversationId, TaskId
from tertulia.protocol.items import NO_USAGE, Usage

Fields = dict[str, Any]
ActionBegin = t.ExecCommandBegin | t.PatchApplyBegin | t.McpToolCallBegin | t.WebSearchBegin
ActionEnd = t.ExecCommandEnd | t.PatchApplyEnd | t.WebSearchEnd

_Key = tuple[ConversationId | None, CallId]

_COMMANDS = frozenset({"shell", "bash", "local_shell", "exec_command", "command_execution", "terminal", "Bash"})
"""The shell tools of this package and of executors."""
_OWN_KINDS = frozenset({"apply_patch", "edit", "write", "update_plan", "web_search", "WebSearch"})
_OF_A_SERVER = re.compile(r".*__|.{24}[0-9a-f]{40}\Z")
"""The form of MCP tool names, long ones with a hash (see `tool_spec`). A Python function may have such a name too."""
_DECLINED = frozenset({"approval_denied", "no_approver"})


class CallItems:
    """Follows each call from its begin to its end."""

    def __init__(self, item: Callable[..., Fields]) -> None:
        """`item` makes an item with the next number."""
        self._item = item
        self._calls: dict[_Key, Fields] = {}
        self._quiet: dict[_Key, t.ToolCallBegin | None] = {}
        """Calls whose item waits for an event that tells its kind; None once that item is there."""
        self._acts: dict[_Key, Fields] = {}

    def take(self, event: e.Event) -> Iterator[Fields]:
        """The lines for an event; none for one that is not about a call."""
        match event.data:
            case t.ToolCallBegin() as data:
                return self._begin((event.conversation_id, data.call_id), data)
            case t.ToolCallEnd() as data:
                return self._end((event.conversation_id, data.call_id), data)
            case t.ExecCommandBegin() | t.PatchApplyBegin() | t.McpToolCallBegin() | t.WebSearchBegin() as data:
                return self._act((event.conversation_id, data.call_id), data)
            case t.ExecCommandEnd() | t.PatchApplyEnd() | t.WebSearchEnd() as data:
                return self._acted((event.conversation_id, data.call_id), data)
            case _:
                return iter(())

    def _begin(self, key: _Key, data: t.ToolCallBegin) -> Iterator[Fields]:
        if _may_have_own_kind(data.name):
            self._quiet[key] = data
            return
        self._calls[key] = self._item(**_tool_call(data), status="in_progress")
        yield {"type": "item.started", "item": self._calls[key]}

    def _end(self, key: _Key, data: t.ToolCallEnd) -> Iterator[Fields]:
        if key in self._quiet:
            yield from self._end_quietly(key, data)
            return
        item = self._calls.pop(key, None)
        if item is None:
            item = self._item(**_tool_call(t.ToolCallBegin(data.call_id, data.name, None)))
        yield {"type": "item.completed", "item": _with_answer(item, data)}

    def _end_quietly(self, key: _Key, data: t.ToolCallEnd) -> Iterator[Fields]:
        call = self._quiet.pop(key)
        item = self._acts.get(key)
        if call is not None and not (data.success and data.name == "update_plan"):
            item = self._acts[key] = self._item(**_call_without_action(call, data), status="in_progress")
            yield {"type": "item.started", "item": item}
        # A command has an end of its own, the answer of an MCP server stands here alone.
        if item is not None and (call is not None or item["type"] == "mcp_tool_call"):
            yield {"type": "item.completed", "item": _with_answer(self._acts.pop(key), data)}

    def _act(self, key: _Key, data: ActionBegin) -> Iterator[Fields]:
        call = self._quiet.get(key)
        if call is not None:
            self._quiet[key] = None
        self._acts[key] = self._item(**_action_fields(data, call), status="in_progress")
        yield {"type": "item.started", "item": self._acts[key]}

    def _acted(self, key: _Key, data: ActionEnd) -> Iterator[Fields]:
        # An action that began before the first event has no item to complete.
        if (item := self._acts.pop(key, None)) is not None:
            yield {"type": "item.completed", "item": item | _action_outcome(data)}


def _may_have_own_kind(name: str) -> bool:
    """Whether a call of this name may have events of its own, for which its item has to wait."""
    return name in _COMMANDS or name in _OWN_KINDS or _OF_A_SERVER.match(name) is not None


def _tool_call(call: t.ToolCallBegin) -> Fields:
    """The fields of a call that Codex has no kind for."""
    return {
        "kind": "tool_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "output": None,
    }


def _action_fields(data: ActionBegin, call: t.ToolCallBegin | None) -> Fields:
    """What a call does, as it begins."""
    match data:
        case t.ExecCommandBegin():
            return _command(shlex.join(data.command))
        case t.PatchApplyBegin():
            changes = [{"path": change["path"], "kind": change["kind"]} for change in data.changes]
            return {"kind": "file_change", "changes": changes}
        case t.McpToolCallBegin():
            return _mcp(data.server, data.tool, None if call is None else call.arguments)
        case t.WebSearchBegin():
            return {"kind": "web_search", "query": "", "action": {"type": "search", "query": ""}}


def _action_outcome(data: ActionEnd) -> Fields:
    """The fields that an item gets when its call has ended."""
    match data:
        case t.ExecCommandEnd():
            status = "completed" if data.exit_code == 0 else "failed"
            return {"aggregated_output": data.output, "exit_code": data.exit_code, "status": status}
        case t.PatchApplyEnd():
            return {"status": "completed" if data.success else "failed"}
        case t.WebSearchEnd():
            return {"query": data.query, "action": {"type": "search", "query": data.query}, "status": "completed"}


def _call_without_action(call: t.ToolCallBegin, end: t.ToolCallEnd) -> Fields:
    """A call that ended without an event of its own: it was refused, or has no kind of its own after all."""
    if call.name in _COMMANDS:
        return _command(_words(call.arguments))
    server, split, tool = call.name.partition("__")
    # A call that reached a server has an event; one without that was not refused is a function of such a name.
    refused = not end.success and _code(end.output) is not None
    return _mcp(server, tool, call.arguments) if split and refused else _tool_call(call)


def _with_answer(item: Fields, end: t.ToolCallEnd) -> Fields:
    """An item with the output of its call."""
    status = "completed" if end.success else "failed"
    match item["type"]:
        case "mcp_tool_call":
            result = {"content": [{"type": "text", "text": end.output}], "structured_content": None}
            outcome = {"result": result} if end.success else {"error": {"message": end.output}}
            return {**item, **outcome, "status": status}
        case "command_execution":
            status = "declined" if _code(end.output) in _DECLINED else status
            return {**item, "aggregated_output": end.output, "status": status}
        case _:
            return {**item, "output": end.output, "status": status}


def _command(words: str) -> Fields:
    return {"kind": "command_execution", "command": words, "aggregated_output": "", "exit_code": None}


def _mcp(server: str, tool: str, arguments: object) -> Fields:
    called = {"server": server, "tool": tool, "arguments": arguments}
    return {"kind": "mcp_tool_call", **called, "result": None, "error": None}


def _words(arguments: object) -> str:
    """The command line in a call's arguments; empty if they have none."""
    fields = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    argv = fields.get("command", fields.get("cmd"))
    words = cast("list[Any]", argv) if isinstance(argv, list) else []
    return argv if isinstance(argv, str) else shlex.join(map(str, words))


def _code(output: str) -> object:
    """The code of a refusal, which is JSON; None for any other output."""
    try:
        decoded: object = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast("dict[str, Any]", decoded).get("code") if isinstance(decoded, dict) else None


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

    def __init__(self, warnings: Sequence[str] = (), spent: Usage = NO_USAGE, *, bare: bool = False) -> None:
        """`warnings` were found before the session began; they follow `thread.started`. `spent`: in earlier runs.

        `bare`: lines say neither conversation nor task, as those of Codex do not.
        """
        self.stopped_by: StopReason = "interrupted"
        """What an interrupted task is reported as."""
        self._warnings = warnings
        self._bare = bare
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
        """The lines that are missing at the end: every run that began has a terminal line, even without a turn."""
        if self._ended or self._root is None:
            return []
        return [_failed(ending.status) | ({} if self._bare else {"conversation_id": self._root})]

    def _signed(self, line: JsonLine, event: e.Event) -> JsonLine:
        if self._bare:
            return line
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

    def _continue(self, event: e.Event, data: e.TaskContinued) -> JsonLines:
        yield {"type": "turn.started"}

    def _complete(self, event: e.Event, data: e.TaskComplete) -> JsonLines:
        yield from self._close_turn(event)
        if data.status == "completed":
            usage = asdict(self._usage) | {"cache_write_input_tokens": 0}
            if self._bare:
                del usage["total_tokens"]
            yield {"type": "turn.completed", "usage": usage}
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

    def _text(self, event: e.Event, data: e.AgentMessage | e.AgentReasoning) -> JsonLines:
        if isinstance(data, e.AgentReasoning):
            item = self._item("reasoning", text=data.text)
        else:
            phase = {} if data.phase is None else {"phase": data.phase}
            item = self._item("agent_message", text=data.text, **phase)
        yield {"type": "item.completed", "item": item}

    def _plan(self, event: e.Event, data: t.PlanUpdate) -> JsonLines:
        earlier = self._plans.get(event.conversation_id)
        items = [{"text": step.step, "completed": step.status == "completed"} for step in data.plan]
        item = self._item("todo_list", items=items) if earlier is None else earlier | {"items": items}
        self._plans[event.conversation_id] = item
        yield {"type": "item.started" if earlier is None else "item.updated", "item": item}

    # ── warnings and errors ──────────────────────────────────────────────────────────────────────────

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
        e.TaskContinued: _continue,
        e.TaskComplete: _complete,
        e.TurnAborted: _abort,
        e.TokenCount: _count,
        e.AgentMessage: _text,
        e.AgentReasoning: _text,
        t.PlanUpdate: _plan,
        e.BackgroundEvent: _background,
        e.ErrorEvent: _error,
    }


def _failed(code: str, message: str | None = None) -> JsonLine:
    return {"type": "turn.failed", "error": {"code": code, "message": message or _STOP_MESSAGES.get(code, code)}}


class JsonView:
    """Writes the JSON lines of each event to a stream, at once."""

    def __init__(
        self, stream: BinaryIO, warnings: Sequence[str], spent: Usage = NO_USAGE, *, bare: bool = False
    ) -> None:
        self._stream = stream
        self._lines = ExecJsonLines(warnings, spent, bare=bare)

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
