"""Translates what an ACP agent reports into steps. Pure: messages in, steps out; no field is trusted to have its type.

Particular to ACP: the end of a streamed text is not marked, it is over when something else comes; a tool call is
reported again and again, with more fields each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar

from tertulia.executors import executor as x
from tertulia.executors.json_output import (
    content_text,
    read_argv,
    read_exit_code,
    read_id,
    read_table,
    read_tables,
    read_text,
)
from tertulia.executors.result_text import clip
from tertulia.protocol.tool_events import PlanStep

MAX_TEXT = 16 * 1024 * 1024
"""The most characters of one message."""
MOST_OPEN = 1_000
"""The most tool calls that may be open at once."""
_MAX_TITLE = 300
_MAX_DIFFED = 256 * 1024
_MAX_PATHS = 100
_AROUND = 3
"""Unchanged lines that are shown before and after a change."""
_MCP = re.compile(r"mcp__(\w[\w-]*?)__(\w[\w-]*)")
_OVER = ("completed", "failed")
_CHANGES = ("edit", "delete", "move")
_QUIET = frozenset(
    {"user_message_chunk", "available_commands_update", "current_mode_update", "config_option_update",
     "session_info_update", "usage_update"}
)  # fmt: skip
"""Updates that report nothing about the task."""


class AgentUpdates:
    """Translates the updates of one task."""

    def __init__(self) -> None:
        self.last_text: str | None = None
        """The agent's last complete message."""
        self._count = 0
        self._kind = ""
        self._pieces: list[str] = []
        self._length = 0
        self._calls: dict[str, dict[str, Any]] = {}
        self._open_calls: dict[str, x.ToolUseBegin] = {}

    def understand(self, update: Mapping[str, Any]) -> list[x.Step]:
        """The steps of one update. Never raises."""
        kind = read_text(update.get("sessionUpdate")) or ""
        if kind in _QUIET:
            return []
        teller = self._tellers.get(kind)
        if teller is None:
            return [x.ForeignOutput(dict(update))]
        return list(teller(self, update))

    def call_so_far(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Everything reported so far of this call; newer values win."""
        before = self._calls.get(read_id(call.get("toolCallId")) or "", {})
        return before | {key: value for key, value in call.items() if value is not None}

    def end(self) -> list[x.Step]:
        """The last steps of a task. Calls that have not ended are closed by the publisher."""
        return list(self._whole())

    # ── what it says ─────────────────────────────────────────────────────────────────────────────────────────────

    def _message(self, update: Mapping[str, Any]) -> Iterator[x.Step]:
        yield from self._piece("message", update, x.AgentDelta)

    def _thought(self, update: Mapping[str, Any]) -> Iterator[x.Step]:
        yield from self._piece("thought", update, x.ThoughtDelta)

    def _piece(
        self, kind: str, update: Mapping[str, Any], delta: type[x.AgentDelta] | type[x.ThoughtDelta]
    ) -> Iterator[x.Step]:
        text = read_text(read_table(update.get("content")).get("text"))
        if text is None:
            yield x.ForeignOutput(dict(update))
            return
        named = f"{kind}:{read_id(update.get('messageId')) or ''}"
        if named != self._kind:
            yield from self._whole()
            self._kind = named
        text = text[: MAX_TEXT - self._length]
        if text:
            self._pieces.append(text)
            self._length += len(text)
            yield delta(f"{kind}-{self._count}", text)

    def _whole(self) -> Iterator[x.Step]:
        """The complete text of the pieces before, now that something else comes."""
        text, kind = "".join(self._pieces), self._kind.partition(":")[0]
        name = f"{kind}-{self._count}"
        self._pieces.clear()
        self._length, self._kind = 0, ""
        self._count += 1
        if not text:
            return
        if kind == "message":
            self.last_text = text
            yield x.AgentText(name, text)
        else:
            yield x.Thought(name, text)

    def _plan(self, update: Mapping[str, Any]) -> Iterator[x.Step]:
        entries = read_tables(update.get("entries"))
        steps = [_plan_step(entry) for entry in entries]
        yield x.AgentPlan(tuple(step for step in steps if step is not None))

    # ── what it does ─────────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, update: Mapping[str, Any]) -> Iterator[x.Step]:
        call_id = read_id(update.get("toolCallId"))
        if call_id is None or (call_id not in self._calls and len(self._calls) >= MOST_OPEN):
            yield x.ForeignOutput(dict(update))
            return
        yield from self._whole()
        call = self._calls.setdefault(call_id, {})
        call.update({key: value for key, value in update.items() if value is not None})
        status = call.get("status")
        if call_id not in self._open_calls and (status not in (None, "pending") or _says_what(call)):
            begin = self._open_calls[call_id] = _tool_use_begin(call_id, call)
            yield begin
        if status in _OVER and call_id in self._open_calls:
            del self._calls[call_id]
            yield _tool_use_end(self._open_calls.pop(call_id), call)

    _tellers: ClassVar[Mapping[str, Callable[..., Iterator[x.Step]]]] = {
        "agent_message_chunk": _message,
        "agent_thought_chunk": _thought,
        "plan": _plan,
        "tool_call": _call,
        "tool_call_update": _call,
    }


def _plan_step(entry: Mapping[str, Any]) -> PlanStep | None:
    text, status = read_text(entry.get("content")), entry.get("status")
    if text is None or status not in ("pending", "in_progress", "completed"):
        return None
    return PlanStep(text, status)


def _says_what(call: Mapping[str, Any]) -> bool:
    """Whether an update says what the call does: some agents announce a call before they know."""
    return bool(call.get("rawInput") or call.get("content") or call.get("locations"))


def _tool_use_begin(call_id: str, call: Mapping[str, Any]) -> x.ToolUseBegin:
    act = act_of(call)
    return x.ToolUseBegin(call_id, _name(call, act), arguments_of(call), act)


def _tool_use_end(begin: x.ToolUseBegin, call: Mapping[str, Any]) -> x.ToolUseEnd:
    raw, now = call.get("rawOutput"), act_of(call)
    ended = read_table(read_table(call.get("_meta")).get("terminal_exit"))
    codes = map(
        read_exit_code, (read_table(raw).get("exit_code"), read_table(raw).get("exitCode"), ended.get("exit_code"))
    )
    code = next((code for code in codes if code is not None), None)
    output = "\n".join(filter(None, map(_shown, read_tables(call.get("content"))))) or content_text(raw)
    act = now if type(now) is type(begin.act) else begin.act
    return x.ToolUseEnd(
        begin.id, begin.name, begin.arguments, act, success=call["status"] == "completed", output=output, exit_code=code
    )


def _name(call: Mapping[str, Any], act: x.ToolAct) -> str:
    if isinstance(act, x.McpCallAct):
        return f"{act.server}__{act.tool}"
    tool = read_table(read_table(call.get("_meta")).get("claudeCode")).get("toolName")
    return read_id(tool) or read_id(call.get("kind")) or "other"


def arguments_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, as far as the agent reports them."""
    title, raw, paths = read_text(call.get("title")), call.get("rawInput"), paths_of(call)
    arguments: dict[str, Any] = {}
    if title:
        arguments["title"] = clip(title, _MAX_TITLE)
    if raw not in (None, {}):
        arguments["input"] = raw
    return arguments | ({"paths": list(paths)} if paths else {})


def act_of(call: Mapping[str, Any]) -> x.ToolAct:
    """The kind of a tool call; None where no kind fits."""
    raw = read_table(call.get("rawInput"))
    tool_name = read_table(read_table(call.get("_meta")).get("claudeCode")).get("toolName")
    named = next(
        (m for m in map(_MCP.fullmatch, filter(None, map(read_text, (tool_name, call.get("title"))))) if m), None
    )
    server, tool = read_id(raw.get("server")), read_id(raw.get("tool"))
    if named is not None:
        return x.McpCallAct(named[1], named[2])
    if server and tool:
        return x.McpCallAct(server, tool)
    kind = call.get("kind")
    if kind == "execute" and not any(part.get("type") == "terminal" for part in read_tables(call.get("content"))):
        return x.CommandAct(read_argv(raw.get("command")) or read_argv(read_text(call.get("title"))) or ("?",))
    if kind in _CHANGES:
        return x.PatchAct(tuple(_changes(call, kind == "delete"))) if paths_of(call) else None
    return None


def paths_of(call: Mapping[str, Any], most: int | None = _MAX_PATHS) -> tuple[str, ...]:
    """The files that a call names, at most `most`; None: all of them."""
    diffs = [part.get("path") for part in read_tables(call.get("content")) if part.get("type") == "diff"]
    places = [place.get("path") for place in read_tables(call.get("locations"))]
    raw = read_table(call.get("rawInput"))
    named = [raw.get("file_path"), raw.get("path")] if not (diffs or places) else []
    return tuple(islice(dict.fromkeys(path for path in map(read_text, (*diffs, *places, *named)) if path), most))


def _changes(call: Mapping[str, Any], deletes: bool) -> Iterator[x.FileChangeAct]:
    new = {
        part.get("path") for part in read_tables(call.get("content"))
        if part.get("type") == "diff" and part.get("oldText") is None
    }  # fmt: skip
    for path in paths_of(call):
        yield x.FileChangeAct(path, "delete" if deletes else "add" if path in new else "update")


def _shown(part: Mapping[str, Any]) -> str:
    """A part of a call's content, as text."""
    match part:
        case {"type": "content", "content": inner}:
            return content_text([inner])
        case {"type": "diff", "path": str() as path, "newText": str() as new}:
            return shown_diff(path, read_text(part.get("oldText")) or "", new)
        case _:
            return ""


def shown_diff(path: str, old: str, new: str) -> str:
    """The change of one file as a diff for people; of a large file only the sizes."""
    if len(old) + len(new) > _MAX_DIFFED:
        return f"{path}: {len(old):,} characters became {len(new):,}"
    return _change(path, old, new)


def whole_change(part: Mapping[str, Any]) -> str:
    """A part of a call's content for a person who decides about it: a change is never shortened."""
    if part.get("type") != "diff":
        return _shown(part)
    old, new = (read_text(part.get(name)) or "" for name in ("oldText", "newText"))
    return _change(read_text(part.get("path")) or "a file without a name", old, new)


def _change(path: str, old: str, new: str) -> str:
    """A unified diff with one hunk: every line from the first difference to the last, and a few equal lines around it.

    Takes linear time, whatever the agent wrote: a minimal diff can take minutes.
    """
    # Split at line feeds only: other line ends may be what changed.
    before, after = old.split("\n"), new.split("\n")
    if before[-1] == after[-1] == "":
        del before[-1], after[-1]
    most = min(len(before), len(after))
    first = next((at for at in range(most) if before[at] != after[at]), most)
    last = next((at for at in range(most - first) if before[-1 - at] != after[-1 - at]), most - first)
    start, same = max(0, first - _AROUND), min(last, _AROUND)
    sizes = (len(lines) - last + same - start for lines in (before, after))
    return "\n".join(
        [
            f"--- {path}",
            f"+++ {path}",
            "@@ -{0},{1} +{0},{2} @@".format(start + 1, *sizes),
            *(f" {line}" for line in before[start:first]),
            *(f"-{line}" for line in before[first : len(before) - last]),
            *(f"+{line}" for line in after[first : len(after) - last]),
            *(f" {line}" for line in before[len(before) - last :][:same]),
        ]
    )
