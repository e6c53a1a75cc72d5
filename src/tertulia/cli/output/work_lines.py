"""Renders what a model does as lines for people: commands with their output, patches as diffs, calls of other tools.

Pure: takes events, returns lines, prints nothing. Commands stand as one would type them, a patch shows what it changes,
long texts are folded in the middle with a count, and a failure is one line. Every surface that shows work uses it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from tertulia.cli.output.terminal import Style, StyledText, one_line_json, shorten
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event
from tertulia.protocol.ids import CallId, ConversationId

Line = tuple[StyledText, ...]

MAX_COMMAND_LINES = 12
MAX_OUTPUT_LINES = 12
MAX_DIFF_LINES = 60
MAX_WIDTH = 2_000
"""Characters of one line; what is longer is cut, and says so."""
_SLOW_MS = 1_000
_SHOWN_BY_EVENTS = frozenset({"apply_patch", "edit", "write", "update_plan"})
_COMMAND_TOOLS = frozenset({"shell", "bash", "local_shell", "exec_command", "command_execution", "terminal", "Bash"})
_SHELLS = frozenset({"bash", "dash", "sh", "zsh"})
_SCRIPT_FLAGS = frozenset({"-c", "-lc"})
_BOXES = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_FILE_WORDS = {"*** Add File: ": "add", "*** Update File: ": "edit", "*** Delete File: ": "delete"}
_MOVE = "*** Move to: "
_SCAFFOLD = ("*** Begin Patch", "*** End Patch", "*** End of File")
_NOT_STORED = "[not stored]"

WORK_EVENTS = (
    t.ExecCommandBegin,
    t.ExecCommandEnd,
    t.McpToolCallBegin,
    t.PatchApplyBegin,
    t.PatchApplyEnd,
    t.PlanUpdate,
    t.ToolCallBegin,
    t.ToolCallEnd,
)
"""The events that have lines; all others have none."""

_Key = tuple[ConversationId | None, CallId]


class WorkLines:
    """Follows each call from its begin to its end."""

    def __init__(self) -> None:
        self._held: dict[_Key, t.ToolCallBegin] = {}
        """Calls whose own event, or end, will tell what they do."""
        self._ended: set[_Key] = set()
        """Calls whose own event has shown how they ended."""

    def take(self, event: Event) -> list[Line] | None:
        """The lines for an event; None for one that is not about work."""
        match event.data:
            case t.ToolCallBegin() as data:
                return self._begin((event.conversation_id, data.call_id), data)
            case t.ToolCallEnd() as data:
                return self._end((event.conversation_id, data.call_id), data)
            case t.ExecCommandBegin() as data:
                self._held.pop((event.conversation_id, data.call_id), None)
                return command_lines(data)
            case t.ExecCommandEnd() as data:
                self._ended.add((event.conversation_id, data.call_id))
                return command_end_lines(data)
            case t.PatchApplyBegin() as data:
                call = self._held.pop((event.conversation_id, data.call_id), None)
                return patch_lines(_patch_text(call), data)
            case t.PatchApplyEnd() as data:
                self._ended.add((event.conversation_id, data.call_id))
                return [] if data.success else [(("patch failed", "red"), f" {shorten(data.message, 300)}")]
            case t.McpToolCallBegin() as data:
                call = self._held.pop((event.conversation_id, data.call_id), None)
                name = f"{data.server} · {data.tool}"
                return [_call_line(name, None if call is None else call.arguments)]
            case t.PlanUpdate() as data:
                return [(("plan", "cyan"), f" {_BOXES[step.status]} {shorten(step.step)}") for step in data.plan]
            case _:
                return None

    def _begin(self, key: _Key, data: t.ToolCallBegin) -> list[Line]:
        if (
            data.name in _COMMAND_TOOLS
            or data.name in ("apply_patch", "edit", "write", "update_plan")
            or "__" in data.name
        ):
            self._held[key] = data
            return []
        return [_call_line(data.name, data.arguments)]

    def _end(self, key: _Key, data: t.ToolCallEnd) -> list[Line]:
        held, has_ended = self._held.pop(key, None), key in self._ended
        self._ended.discard(key)
        if has_ended or (held is not None and data.name == "update_plan" and data.success):
            # Its own event has shown how it ended.
            return []
        before = [] if held is None else [_held_line(held)]
        if not data.success:
            return [*before, (("failed", "red"), f" {shorten(refusal_text(data.output) or data.output, 300)}")]
        return [*before, (("result", "green"), f" {shorten(data.output)}")]


# ---- commands


def command_text(argv: Sequence[str]) -> str:
    """A command as one would type it: what a shell is given to read stands for itself."""
    match list(argv):
        case [shell, flag, script] if shell.rpartition("/")[2] in _SHELLS and flag in _SCRIPT_FLAGS:
            return script.strip("\n")
        case words:
            return shlex.join(words)


def command_lines(data: t.ExecCommandBegin) -> list[Line]:
    """`$ ` and the command, further lines of a script below it."""
    first, *more = fold(command_text(data.command).split("\n"), MAX_COMMAND_LINES)
    outside = data.sandbox == "danger-full-access"
    note: tuple[StyledText, ...] = ((" (outside the sandbox)", "yellow"),) if outside else ()
    return [(("$ ", "cyan"), (first, "bold"), *note), *((("> ", "cyan"), (line, "bold")) for line in more)]


def command_end_lines(data: t.ExecCommandEnd) -> list[Line]:
    """The output, folded, and how it ended where that is worth a line."""
    text = data.output.rstrip("\n")
    lines: list[Line] = [((f"  {line}", "dim"),) for line in fold(text.split("\n"), MAX_OUTPUT_LINES)] if text else []
    took = f" after {data.duration_ms / 1000:.1f} s" if data.duration_ms >= _SLOW_MS else ""
    if data.exit_code is None:
        lines.append(((f"  stopped{took}", "red"),))
    elif data.exit_code:
        lines.append(((f"  exit code {data.exit_code}{took}", "red"),))
    elif took:
        lines.append(((f"  done{took}", "dim"),))
    return lines


# ---- patches


def patch_lines(text: str | None, data: t.PatchApplyBegin) -> list[Line]:
    """What a patch changes, coloured; where its text is not known, the names of the files."""
    if text is None:
        return [((change.get("kind", "change"), "cyan"), f" {change.get('path', '')}") for change in data.changes]
    wanted = [line for line in text.strip("\n").split("\n") if not line.startswith(_SCAFFOLD)]
    return [_diff_line(line) for line in fold(wanted, MAX_DIFF_LINES)]


def _diff_line(line: str) -> Line:
    for beginning, word in _FILE_WORDS.items():
        if line.startswith(beginning):
            return ((word, "cyan"), (f" {line.removeprefix(beginning)}", "bold"))
    if line.startswith(_MOVE):
        return (("move to", "cyan"), (f" {line.removeprefix(_MOVE)}", "bold"))
    styles: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan", "…": "dim"}
    return ((f"  {line}", styles.get(line[:1], "dim")),)


def _patch_text(call: t.ToolCallBegin | None) -> str | None:
    """The text of the patch that a call is, where it can be read."""
    if call is None:
        return None
    # Imported here: most answers change no file.
    from tertulia.tools.patch.call_patch import call_patch

    text = call_patch(call.name, call.arguments)
    return text if text and text.lstrip().startswith("***") else None


# ---- other calls


def _call_line(name: str, arguments: Any) -> Line:
    shown = "" if arguments is None else f" {shorten(one_line_json(arguments))}"
    return (("call", "cyan"), f" {name}{shown}")


def _held_line(call: t.ToolCallBegin) -> Line:
    """A call that came to no event of its own: it was refused, or never got there."""
    if (command := _command_of(call)) is not None:
        return (("$ ", "cyan"), (shorten(command), "bold"))
    return _call_line(call.name, call.arguments)


def call_text(call: t.ToolCallBegin) -> str:
    """A call in one line without styles."""
    command = _command_of(call)
    return f"$ {shorten(command)}" if command is not None else f"{call.name} {shorten(one_line_json(call.arguments))}"


def _command_of(call: t.ToolCallBegin) -> str | None:
    fields = cast("dict[str, Any]", call.arguments) if isinstance(call.arguments, dict) else {}
    argv = fields.get("command", fields.get("cmd"))
    if call.name not in _COMMAND_TOOLS or not argv:
        return None
    return argv if isinstance(argv, str) else command_text(list(map(str, cast("list[Any]", argv))))


def refusal_text(output: str) -> str | None:
    """The reason in the output of a call that was refused, which is JSON; None for any other output."""
    refusal = refusal_fields(output)
    return None if refusal is None else str(refusal.get("reason") or refusal.get("code"))


def refusal_fields(output: str) -> dict[str, Any] | None:
    """The fields of a refusal: `code` and `reason`; None for any other output."""
    if not output.startswith("{"):
        return None
    try:
        decoded: object = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return None
    fields = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    return fields if isinstance(fields.get("code"), str) and fields.get("ok") is False else None


# ---- folding


def fold(lines: Sequence[str], most: int) -> list[str]:
    """At most about `most` lines: the first two thirds, how many are not shown, and the end."""
    shown = [_cut(line) for line in lines] if len(lines) <= most else None
    if shown is not None:
        return shown
    tail = most // 3
    head = most - tail - 1
    middle = len(lines) - head - tail
    return [*map(_cut, lines[:head]), f"… {middle:,} more lines …", *map(_cut, lines[len(lines) - tail :])]


def _cut(line: str) -> str:
    line = line.expandtabs(4)
    return line if len(line) <= MAX_WIDTH else f"{line[:MAX_WIDTH]}… {len(line) - MAX_WIDTH:,} more characters"
