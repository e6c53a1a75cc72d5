"""Writes threads, turns and items in the shapes that Codex clients know. Pure: reads no file and no clock."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, cast

import msgspec

from tertulia.errors import NotFoundError, TertuliaError
from tertulia.history.segment import is_user_request
from tertulia.policy.approval_policy import ApprovalPolicy
from tertulia.policy.rights import Rights
from tertulia.protocol import items as history_items
from tertulia.protocol.ids import ItemId
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.server.codex.skills import skill_content
from tertulia.server.surface_events import end_of_output
from tertulia.tools.patch.call_patch import call_patch
from tertulia.tools.patch.text import AddFile, Chunk, Hunk, UpdateFile, parse_patch, patch_in_command
from tertulia.version import __version__

CodexItem = dict[str, Any]
"""One `item`, in Codex's spelling."""
Status = Literal["inProgress", "completed", "failed", "declined"]

COMMANDS = frozenset({"shell", "bash", "local_shell", "exec_command"})


def user_message(message: history_items.UserMessage, client_id: str | None = None) -> CodexItem:
    """A message of a person as an item."""
    return {
        "type": "userMessage",
        "id": message.id,
        "clientId": client_id,
        "content": [_content(part) for part in message.parts],
    }


def agent_message(id: ItemId, text: str, phase: history_items.MessagePhase | None = None) -> CodexItem:
    """A message of the model as an item."""
    return {"type": "agentMessage", "id": id, "text": text, "phase": phase, "memoryCitation": None}


def reasoning(id: ItemId, text: str) -> CodexItem:
    """The reasoning of the model as an item."""
    return {"type": "reasoning", "id": id, "summary": [text] if text else [], "content": []}


def compaction(id: str) -> CodexItem:
    """Older items were replaced by a summary."""
    return {"type": "contextCompaction", "id": id}


def web_search(id: str, query: str) -> CodexItem:
    """A search of the provider as an item."""
    return {"type": "webSearch", "id": id, "query": query, "action": {"type": "search", "query": query}}


def call_item(id: str, name: str, arguments: Any, cwd: str) -> CodexItem:
    """A call before it runs. Never fails, whatever arguments the model wrote."""
    fields: dict[str, Any] = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    patch = _patch_text(name, arguments, fields, cwd)
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
    line = _line(fields)
    return line if isinstance(line, str) else shlex.join(_argv(fields))


def _line(fields: dict[str, Any]) -> str | None:
    """The command line of a call that has one."""
    return next((fields[name] for name in ("cmd", "command") if isinstance(fields.get(name), str)), None)


def _argv(fields: dict[str, Any]) -> list[str]:
    argv = fields.get("command")
    words = cast("list[Any]", argv) if isinstance(argv, list) else []
    return [word for word in words if isinstance(word, str)]


def _directory(fields: dict[str, Any]) -> str:
    named = fields.get("workdir") or fields.get("working_directory")
    return named if isinstance(named, str) else ""


def _patch_text(name: str, arguments: Any, fields: dict[str, Any], cwd: str) -> str | None:
    """The patch that a call is, also one that comes as a command; empty where it is one that cannot be read."""
    if name not in COMMANDS:
        return call_patch(name, arguments, cwd)
    line = _line(fields)
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


def _content(part: history_items.Part) -> dict[str, Any]:
    if isinstance(part, history_items.TextPart):
        if (skill := skill_content(part.text)) is not None:
            return skill
        return {"type": "text", "text": part.text, "text_elements": []}
    return {"type": "image", "url": part.image_url}


PREVIEW = 200
_NO_IDS: Mapping[str, str] = MappingProxyType({})


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a thread, without its turns."""

    id: str
    model: str
    cwd: str
    created: float
    updated: float
    preview: str = ""
    name: str | None = None
    forked_from: str | None = None
    ephemeral: bool = False
    status: dict[str, Any]
    path: str | None = None
    """The file that it is stored in; None where it is not."""


def thread_object(about: ThreadSummary, turns: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """A thread, in Codex's spelling."""
    return {
        "id": about.id,
        "sessionId": about.id,
        "forkedFromId": about.forked_from,
        "parentThreadId": None,
        "preview": about.preview,
        "name": about.name,
        "ephemeral": about.ephemeral,
        "historyMode": "legacy",
        "projectId": None,
        "model": about.model,
        "modelProvider": model_provider(about.model),
        "createdAt": int(about.created),
        "updatedAt": int(about.updated),
        "status": about.status,
        "path": about.path,
        "cwd": about.cwd,
        "cliVersion": __version__,
        "source": "appServer",
        "gitInfo": None,
        "turns": list(turns),
    }


def turn_object(
    id: str, status: str = "inProgress", *, began_ms: int | None = None, ended_ms: int | None = None
) -> dict[str, Any]:
    """A turn, without its items."""
    return {
        "id": id,
        "items": [],
        "itemsView": "notLoaded",
        "status": status,
        "error": None,
        "startedAt": None if began_ms is None else began_ms // 1000,
        "completedAt": None if ended_ms is None else ended_ms // 1000,
        "durationMs": None if began_ms is None or ended_ms is None else ended_ms - began_ms,
    }


def turn_error(message: str) -> dict[str, Any]:
    """The error of a turn."""
    return {"message": message, "codexErrorInfo": "other", "additionalDetails": None}


def turn_objects(
    items: Iterable[history_items.Item], cwd: str, ids: Mapping[str, str] = _NO_IDS
) -> list[dict[str, Any]]:
    """Each message of a person, and all that followed it.

    A turn is named by its message, unless `ids` has another name for that.
    """
    turns: list[dict[str, Any]] = []
    calls: dict[str, tuple[list[CodexItem], int]] = {}
    names = _TurnIds(ids)
    for item in items:
        if (name := names.of(item)) is None and not turns and _shows(item):
            name = item.id
        if name is not None and not (turns and turns[-1]["id"] == name):
            turns.append({**turn_object(name, "completed"), "itemsView": "full"})
        if not turns:
            continue
        shown: list[CodexItem] = turns[-1]["items"]
        if isinstance(item, history_items.ToolCall):
            calls[item.call_id] = shown, len(shown)
            shown.append(call_item(item.call_id, item.name, history_items.readable_arguments(item), cwd))
        elif isinstance(item, history_items.ToolOutput):
            if (place := calls.pop(item.call_id, None)) is not None:
                where, at = place
                where[at] = with_outcome(where[at], end_of_output(item))
        else:
            shown.extend(_message_items(item))
    return turns


def round_number(items: Iterable[history_items.Item], turn_id: str, ids: Mapping[str, str] = _NO_IDS) -> int:
    """The number of a turn's last message among all of a person, from 1. NotFound where there is none of that name."""
    names = _TurnIds(ids)
    named = [name for item in items if (name := names.of(item)) is not None]
    if turn_id not in named:
        raise NotFoundError(f"there is no turn {turn_id[:64]!r} in this thread")
    return len(named) - named[::-1].index(turn_id)


class _TurnIds:
    """To which turn each message of a person belongs. What was put in while a turn ran here has no name of its own."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self._ids = ids
        self._runs_here: str | None = None

    def of(self, item: history_items.Item) -> str | None:
        """None for an item that is not a person's message."""
        if not is_user_request(item):
            return None
        self._runs_here = self._ids.get(item.id, self._runs_here)
        return self._runs_here or item.id


def thread_preview(items: Iterable[history_items.Item]) -> str:
    """The first message of a thread."""
    requests = (item.text for item in items if isinstance(item, history_items.UserMessage) and is_user_request(item))
    return " ".join(next(requests, "")[: PREVIEW * 4].split())[:PREVIEW]


def model_provider(model: str) -> str:
    """The provider in the name of a model."""
    return model.partition("/")[0]


def rights_fields(rights: Rights) -> dict[str, Any]:
    """What a thread may do, as answers that open one have it."""
    return {
        "approvalPolicy": _approval(rights.approval_policy),
        "approvalsReviewer": "user",
        "sandbox": _sandbox(rights),
    }


def _approval(policy: ApprovalPolicy) -> str:
    """The nearest name that Codex still has."""
    if not policy.may_ask:
        return "never"
    return "untrusted" if policy.auto_run == "trusted" else "on-request"


def _sandbox(rights: Rights) -> dict[str, Any]:
    match rights.sandbox:
        case "read_only":
            return {"type": "readOnly", "networkAccess": rights.network is True}
        case "workspace_write":
            roots = list(rights.writable_roots or ())
            return {"type": "workspaceWrite", "writableRoots": roots, "networkAccess": rights.network is True}
        case "danger_full_access":
            return {"type": "dangerFullAccess"}


def _message_items(item: history_items.Item) -> list[CodexItem]:
    match item:
        case history_items.UserMessage():
            return [] if item.injected else [user_message(item)]
        case history_items.AssistantMessage():
            return [agent_message(item.id, item.text, item.phase)]
        case history_items.Reasoning():
            return [reasoning(item.id, item.text)] if item.text else []
        case history_items.Summary():
            return [compaction(item.id)]
        case _:
            return []


def _shows(item: history_items.Item) -> bool:
    return isinstance(item, history_items.ToolCall) or bool(_message_items(item))
