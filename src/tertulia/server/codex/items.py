"""Codex's items: messages, thoughts and calls in the shapes that its clients know. Pure, and read from nowhere."""

from __future__ import annotations

import os.path
import shlex
from typing import Any, Literal, cast

from tertulia.errors import TertuliaError
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import Part, TextPart, UserMessage
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.tools.patch.text import AddFile, Chunk, Hunk, UpdateFile, parse_patch, patch_in_command

CodexItem = dict[str, Any]
"""One `item`, in Codex's spelling."""
Status = Literal["inProgress", "completed", "failed", "declined"]

COMMANDS = frozenset({"shell", "local_shell", "exec_command"})
_FILES = "apply_patch"


def user_message(message: UserMessage, client_id: str | None = None) -> CodexItem:
    """A message of a person as an item."""
    return {
        "type": "userMessage",
        "id": message.id,
        "clientId": client_id,
        "content": [_content(part) for part in message.parts],
    }


def agent_message(id: ItemId, text: str) -> CodexItem:
    """A message of the model as an item."""
    return {"type": "agentMessage", "id": id, "text": text, "phase": None, "memoryCitation": None}


def reasoning(id: ItemId, text: str) -> CodexItem:
    """Reasoning of the model as an item."""
    return {"type": "reasoning", "id": id, "summary": [text] if text else [], "content": []}


def compaction(id: str) -> CodexItem:
    """Older items were replaced by a summary."""
    return {"type": "contextCompaction", "id": id}


def web_search(id: str, query: str) -> CodexItem:
    """A search of the provider as an item."""
    return {"type": "webSearch", "id": id, "query": query, "action": {"type": "search", "query": query}}


def call_item(id: str, name: str, arguments: Any, cwd: str) -> CodexItem:
    """A call, as it looks before anything of it has happened. Never fails: the model wrote it."""
    fields: dict[str, Any] = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    patch = _patch_text(name, arguments, fields)
    if patch is not None:
        return {"type": "fileChange", "id": id, "changes": _changes(patch, cwd), "status": "inProgress"}
    if name in COMMANDS:
        return _command(id, _words(fields), os.path.normpath(os.path.join(cwd, _directory(fields))))
    if name == "view_image" and isinstance(path := fields.get("path"), str):
        return {"type": "imageView", "id": id, "path": os.path.join(cwd, path)}
    server, split, tool = name.partition("__")
    if split:
        called: CodexItem = {"type": "mcpToolCall", "id": id, "server": server, "tool": tool, "arguments": arguments}
        return {**called, "status": "inProgress", "result": None, "error": None, "durationMs": None}
    called = {"type": "dynamicToolCall", "id": id, "tool": name, "arguments": arguments, "status": "inProgress"}
    return {**called, "contentItems": None, "success": None, "durationMs": None}


def with_command(item: CodexItem, command: list[str], cwd: str) -> CodexItem:
    """A command as it really starts."""
    return {**item, "command": shlex.join(command), "cwd": cwd}


def with_outcome(item: CodexItem, end: ToolCallEnd, *, declined: bool = False) -> CodexItem:
    """A call with its outcome."""
    status: Status = "completed" if end.success else "failed"
    match item["type"]:
        case "commandExecution":
            shown = item["aggregatedOutput"]
            output = end.output if shown is None and not declined else shown
            return {**item, "status": _or_declined(status, declined), "aggregatedOutput": output}
        case "fileChange":
            return {**item, "status": _or_declined(status, declined)}
        case "mcpToolCall":
            result = {"content": [{"type": "text", "text": end.output}], "structuredContent": None}
            outcome = {"result": result} if end.success else {"error": {"message": end.output}}
            return {**item, "status": status, "durationMs": end.duration_ms, **outcome}
        case "dynamicToolCall":
            contents = [{"type": "inputText", "text": end.output}]
            outcome = {"contentItems": contents, "success": end.success, "durationMs": end.duration_ms}
            return {**item, "status": status, **outcome}
        case _:
            return item


def _or_declined(status: Status, declined: bool) -> Status:
    return "declined" if declined else status


def _command(id: str, words: str, cwd: str) -> CodexItem:
    return {
        "type": "commandExecution",
        "id": id,
        "command": words,
        "cwd": cwd,
        "processId": None,
        "source": "agent",
        "status": "inProgress",
        "commandActions": [{"type": "unknown", "command": words}],
        "aggregatedOutput": None,
        "exitCode": None,
        "durationMs": None,
    }


def _words(fields: dict[str, Any]) -> str:
    line = fields.get("cmd")
    return line if isinstance(line, str) else shlex.join(_argv(fields))


def _argv(fields: dict[str, Any]) -> list[str]:
    argv = fields.get("command")
    words = cast("list[Any]", argv) if isinstance(argv, list) else []
    return [word for word in words if isinstance(word, str)]


def _directory(fields: dict[str, Any]) -> str:
    named = fields.get("workdir") or fields.get("working_directory")
    return named if isinstance(named, str) else ""


def _patch_text(name: str, arguments: Any, fields: dict[str, Any]) -> str | None:
    """The patch that a call is, also one that comes as a command; empty where it is one that cannot be read."""
    if name == _FILES:
        text = fields.get("input") if fields else arguments
        return text if isinstance(text, str) else ""
    if name not in COMMANDS:
        return None
    line = fields.get("cmd")
    patch = patch_in_command(["bash", "-lc", line] if isinstance(line, str) else _argv(fields))
    return None if patch is None else patch.text


def _changes(patch: str, cwd: str) -> list[dict[str, Any]]:
    try:
        hunks = parse_patch(patch)
    except TertuliaError:
        # The call will be refused, and its output says why.
        return []
    return [_change(hunk, cwd) for hunk in hunks]


def _change(hunk: Hunk, cwd: str) -> dict[str, Any]:
    path = os.path.join(cwd, hunk.path)
    if isinstance(hunk, AddFile):
        return {"path": path, "kind": {"type": "add"}, "diff": hunk.content}
    if not isinstance(hunk, UpdateFile):
        return {"path": path, "kind": {"type": "delete"}, "diff": ""}
    moved = None if hunk.move_to is None else os.path.join(cwd, hunk.move_to)
    diff = "".join(_diff_chunk(chunk) for chunk in hunk.chunks)
    return {"path": path, "kind": {"type": "update", "move_path": moved}, "diff": diff}


def _diff_chunk(chunk: Chunk) -> str:
    return "@@\n" + "".join(f"{sign}{line}\n" for sign, line in chunk.lines)


def _content(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text, "text_elements": []}
    return {"type": "image", "url": part.image_url}
