"""The MCP tool by which Claude Code asks whether it may use one of its own tools, where no other way is open to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, UnsupportedByBackendError
from tertulia.executors.acp.client_requests import permission_question
from tertulia.executors.executor import ExecutorHost
from tertulia.executors.json_output import read_id, read_table, read_text
from tertulia.mcp.serve.sources import ServedTool
from tertulia.mcp.server_connection import CallResult

PERMISSION_TOOL = "approve_own_tool"
"""Its name; the program is told it as an argument."""
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "tool_name": {"type": "string"},
        "input": {"type": "object"},
        "tool_use_id": {"type": "string"},
    },
    "required": ["tool_name", "input"],
}
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("Read", "NotebookRead", "LS", "TodoRead", "BashOutput"), "read"),
    **dict.fromkeys(("Glob", "Grep"), "search"),
    **dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), "edit"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    "Bash": "execute",
}
"""The kinds of its tools; another tool is asked about as one that may do anything."""
_DENIED = "It was not allowed. Do not try the same in another way."


def served_permission_tool() -> ServedTool:
    """The tool as the program lists it."""
    text = "The program asks here before it uses a tool of its own. It is not for the model: a yes here allows nothing."
    return ServedTool(PERMISSION_TOOL, text, msgspec.json.encode(_SCHEMA).decode())


async def answer_permission(host: ExecutorHost | None, arguments: Mapping[str, object]) -> CallResult:
    """Ask the policy or a person; the answer is JSON, as the program reads it."""
    name = read_text(arguments.get("tool_name"))
    if not name or not isinstance(arguments.get("input"), dict):
        raise InvalidParamsError("tool_name must be a text and input an object: what the program is about to do")
    if host is None:
        raise UnsupportedByBackendError("nothing runs for which this could be allowed")
    table = read_table(arguments.get("input"))
    permission = await host.permit(permission_question(_call(name, table, arguments.get("tool_use_id"))))
    decision: dict[str, Any] = {"behavior": "allow", "updatedInput": table}
    if not permission.allowed:
        decision = {"behavior": "deny", "message": _DENIED}
    return CallResult(msgspec.json.encode(decision).decode(), False)


def _call(name: str, table: Mapping[str, Any], number: object) -> dict[str, Any]:
    """The call in the terms in which ACP agents ask."""
    kind, path = _KINDS.get(name, "other"), read_text(table.get("file_path")) or read_text(table.get("notebook_path"))
    title = f"{name}: {read_text(table.get('command')) or path or ''}".removesuffix(": ")
    call: dict[str, Any] = {"title": title, "kind": kind, "rawInput": table}
    if read_id(number) is not None:
        call["toolCallId"] = number
    if path:
        call["locations"] = [{"path": path}]
    return call
