"""Tool calls as the items of `exec --json`, in the words that Codex has for them. Pure: no clock, no output.

A call that Codex has a kind for is one item of that kind, and not a `tool_call` as well.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from tertulia.protocol.events import Event
from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.tool_events import (
    ExecCommandBegin,
    ExecCommandEnd,
    McpToolCallBegin,
    PatchApplyBegin,
    PatchApplyEnd,
    ToolCallBegin,
    ToolCallEnd,
    WebSearchBegin,
    WebSearchEnd,
)

Fields = dict[str, Any]
ActionBegin = ExecCommandBegin | PatchApplyBegin | McpToolCallBegin | WebSearchBegin
ActionEnd = ExecCommandEnd | PatchApplyEnd | WebSearchEnd

_Key = tuple[ConversationId | None, CallId]

_COMMANDS = frozenset({"shell", "local_shell", "exec_command", "command_execution", "terminal", "Bash"})
"""Ours, and those of agents that work for us."""
_OWN_KINDS = frozenset({"apply_patch", "update_plan", "web_search", "WebSearch"})
_OF_A_SERVER = re.compile(r".*__|.{24}[0-9a-f]{40}\Z")
"""How MCP tools are called, long ones by a hash (see `tool_names`). Functions may be called so too."""
_DECLINED = frozenset({"approval_denied", "no_approver"})


class CallItems:
    """Follows each call from its begin to its end."""

    def __init__(self, item: Callable[..., Fields]) -> None:
        """`item` makes an item with the next number."""
        self._item = item
        self._calls: dict[_Key, Fields] = {}
        self._quiet: dict[_Key, ToolCallBegin | None] = {}
        """Calls whose item waits for an event that tells its kind; None once that item is there."""
        self._acts: dict[_Key, Fields] = {}

    def take(self, event: Event) -> Iterator[Fields]:
        """The lines for an event; none for one that is not about a call."""
        match event.data:
            case ToolCallBegin() as data:
                return self._begin((event.conversation_id, data.call_id), data)
            case ToolCallEnd() as data:
                return self._end((event.conversation_id, data.call_id), data)
            case ExecCommandBegin() | PatchApplyBegin() | McpToolCallBegin() | WebSearchBegin() as data:
                return self._act((event.conversation_id, data.call_id), data)
            case ExecCommandEnd() | PatchApplyEnd() | WebSearchEnd() as data:
                return self._acted((event.conversation_id, data.call_id), data)
            case _:
                return iter(())

    def _begin(self, key: _Key, data: ToolCallBegin) -> Iterator[Fields]:
        if _may_have_own_kind(data.name):
            self._quiet[key] = data
            return
        self._calls[key] = self._item(**_tool_call(data), status="in_progress")
        yield {"type": "item.started", "item": self._calls[key]}

    def _end(self, key: _Key, data: ToolCallEnd) -> Iterator[Fields]:
        if key in self._quiet:
            yield from self._end_quietly(key, data)
            return
        item = self._calls.pop(key, None)
        if item is None:
            item = self._item(**_tool_call(ToolCallBegin(data.call_id, data.name, None)))
        yield {"type": "item.completed", "item": _with_answer(item, data)}

    def _end_quietly(self, key: _Key, data: ToolCallEnd) -> Iterator[Fields]:
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


def _tool_call(call: ToolCallBegin) -> Fields:
    """The fields of a call that Codex has no kind for."""
    return {
        "kind": "tool_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "output": None,
    }


def _action_fields(data: ActionBegin, call: ToolCallBegin | None) -> Fields:
    """What a call does, as it begins."""
    match data:
        case ExecCommandBegin():
            return _command(shlex.join(data.command))
        case PatchApplyBegin():
            changes = [{"path": change["path"], "kind": change["kind"]} for change in data.changes]
            return {"kind": "file_change", "changes": changes}
        case McpToolCallBegin():
            return _mcp(data.server, data.tool, None if call is None else call.arguments)
        case WebSearchBegin():
            return {"kind": "web_search", "query": "", "action": {"type": "search", "query": ""}}


def _action_outcome(data: ActionEnd) -> Fields:
    """The fields that an item gets when its call has ended."""
    match data:
        case ExecCommandEnd():
            status = "completed" if data.exit_code == 0 else "failed"
            return {"aggregated_output": data.output, "exit_code": data.exit_code, "status": status}
        case PatchApplyEnd():
            return {"status": "completed" if data.success else "failed"}
        case WebSearchEnd():
            return {"query": data.query, "action": {"type": "search", "query": data.query}, "status": "completed"}


def _call_without_action(call: ToolCallBegin, end: ToolCallEnd) -> Fields:
    """A call that ended without an event of its own: it was refused, or has no kind of its own after all."""
    if call.name in _COMMANDS:
        return _command(_words(call.arguments))
    server, split, tool = call.name.partition("__")
    # A call that reached a server has an event; one without that was not refused is a function of such a name.
    refused = not end.success and _code(end.output) is not None
    return _mcp(server, tool, call.arguments) if split and refused else _tool_call(call)


def _with_answer(item: Fields, end: ToolCallEnd) -> Fields:
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
