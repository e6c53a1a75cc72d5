"""Parses the output of `codex exec --json`, with every kind of item.

Particular to it: usage is the total of the whole thread, earlier runs included; notes and warnings come as errors, and
only `turn.failed` is fatal; an interrupted turn has no last line, and a refused resume no line at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tertulia.executors import executor as x
from tertulia.executors.json_output import (
    MAX_LINE_BYTES,
    JsonlParser,
    Line,
    content_text,
    read_argv,
    read_exit_code,
    read_id,
    read_native_id,
    read_table,
    read_tables,
    read_text,
)
from tertulia.models.http.stream_decoder import count_at, make_usage
from tertulia.protocol.items import NO_USAGE, Usage
from tertulia.protocol.tool_events import PlanStep

_ITEM_EVENTS = ("item.started", "item.updated", "item.completed")


class CodexJsonl(JsonlParser):
    """Implements `executor.Parser`. `total` is the usage of the thread before this run."""

    def __init__(self, total: Usage = NO_USAGE, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(max_line_bytes)
        self._total = total
        self._last_text: str | None = None
        self._plan: x.AgentPlan | None = None

    def _understood(self, line: Line) -> Iterable[x.Step] | None:
        match line.get("type"):
            case "thread.started":
                session_id = read_native_id(
                    line.get("thread_id"), line.get("threadId"), read_table(line.get("thread")).get("id")
                )
                return None if session_id is None else [x.NativeSessionId(session_id)]
            case "turn.started":
                self._ending = x.RunInterrupted()
                return []
            case "turn.completed":
                self._ending = x.RunFinished(self._last_text)
                return [self._cost(line.get("usage"))]
            case "turn.failed":
                self._ending = x.RunFailed(_message(line.get("error")) or "the agent failed and did not say why")
                return []
            case "error":
                message = _message(line)
                return None if message is None else [x.Notice(message)]
            case str() as event if event in _ITEM_EVENTS:
                return self._item(event, read_table(line.get("item")))
            case _:
                return None

    def _cost(self, counts: object) -> x.UsageReport:
        total = make_usage(
            count_at(counts, "input_tokens"),
            count_at(counts, "cached_input_tokens"),
            count_at(counts, "output_tokens"),
            count_at(counts, "reasoning_output_tokens"),
        )
        before, self._total = self._total, total
        return x.UsageReport(_difference(total, before), total)

    def _item(self, event: str, item: Line) -> Iterable[x.Step] | None:
        item_id = read_id(item.get("id"))
        kind = item.get("type")
        if kind == "todo_list":
            return self._planned(item)
        if kind == "error":
            message = _message(item)
            return None if message is None else [x.Notice(message)]
        if kind in ("agent_message", "reasoning"):
            return self._spoken(event, item_id, item)
        act = _ACTS.get(kind) if isinstance(kind, str) else None
        return None if act is None or item_id is None else _used(event, item_id, item, act)

    def _spoken(self, event: str, item_id: str | None, item: Line) -> Iterable[x.Step] | None:
        words = read_text(item.get("text"))
        if words is None or item_id is None or event != "item.completed":
            return None
        if item["type"] == "reasoning":
            return [x.Thought(item_id, words)]
        self._last_text = words
        return [x.AgentText(item_id, words)]

    def _planned(self, item: Line) -> Iterable[x.Step] | None:
        entries = read_tables(item.get("items"))
        planned = [(read_text(entry.get("text")), entry.get("completed") is True) for entry in entries]
        steps = tuple(PlanStep(step, "completed" if done else "pending") for step, done in planned if step is not None)
        if len(steps) != len(entries) or not isinstance(item.get("items"), list):
            return None
        before, self._plan = self._plan, x.AgentPlan(steps)
        # Codex repeats the plan when the turn ends.
        return [] if before == self._plan else [self._plan]


def _difference(total: Usage, before: Usage) -> Usage:
    """The usage since the last report; the whole count where it started again from zero."""
    parts = [now - then for now, then in zip(_counts(total), _counts(before), strict=True)]
    return total if min(parts) < 0 else make_usage(*parts)


def _counts(counted: Usage) -> tuple[int, int, int, int]:
    return (
        counted.input_tokens, counted.cached_input_tokens, counted.output_tokens, counted.reasoning_output_tokens,
    )  # fmt: skip


def _message(value: object) -> str | None:
    return read_text(read_table(value).get("message"))


_Use = tuple[str, object, x.ToolAct]
"""Name, arguments, and the kind of the tool use."""


def _used(event: str, item_id: str, item: Line, act: Callable[[Line], _Use | None]) -> Iterable[x.Step] | None:
    use = act(item)
    if use is None:
        return None
    name, arguments, what = use
    if event == "item.started":
        return [x.ToolUseBegin(item_id, name, arguments, what)]
    if event == "item.updated":
        return []
    code = read_exit_code(item.get("exit_code"))
    return [x.ToolUseEnd(item_id, name, arguments, what, _succeeded(item, code), _output(item), code)]


def _succeeded(item: Line, code: int | None) -> bool:
    # A web search has no status.
    return item.get("status", "completed") == "completed" and code in (None, 0)


def _output(item: Line) -> str:
    return read_text(item.get("aggregated_output")) or _message(item.get("error")) or content_text(item.get("result"))


def _command(item: Line) -> _Use | None:
    words = read_argv(item.get("command"))
    return None if words is None else ("command_execution", {"command": item["command"]}, x.CommandAct(words))


def _file_change(item: Line) -> _Use | None:
    entries = read_tables(item.get("changes"))
    changes: list[x.FileChangeAct] = []
    for entry in entries:
        match entry:
            case {"path": str() as path, "kind": ("add" | "delete" | "update") as kind}:
                changes.append(x.FileChangeAct(path, kind))
            case _:
                return None
    return ("file_change", {"changes": entries}, x.PatchAct(tuple(changes))) if changes else None


def _mcp(item: Line) -> _Use | None:
    server, tool = read_text(item.get("server")), read_text(item.get("tool"))
    if server is None or tool is None:
        return None
    return f"{server}__{tool}", item.get("arguments"), x.McpCallAct(server, tool)


def _collaboration(item: Line) -> _Use | None:
    tool = read_text(item.get("tool"))
    arguments = {name: item.get(name) for name in ("prompt", "receiver_thread_ids", "agents_states")}
    return None if tool is None else (tool, arguments, None)


def _search(item: Line) -> _Use | None:
    query = read_text(item.get("query"))
    return None if query is None else ("web_search", {"query": query}, x.WebSearchAct(query))


_ACTS: Mapping[str, Callable[[Line], _Use | None]] = {
    "command_execution": _command,
    "file_change": _file_change,
    "mcp_tool_call": _mcp,
    "collab_tool_call": _collaboration,
    "web_search": _search,
}
