"""What hooks are asked, as plain JSON, and what models read of their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.policy.approvals.approval_request import RequestedAction
from tertulia.protocol.items import TextPart, ToolCall
from tertulia.tools.tool import Result

_MOST_TEXT = 1024 * 1024


def tool_question(name: str, arguments: Any, source: str) -> dict[str, Any]:
    """What is asked about a call."""
    return {"tool": name, "source": source, "arguments": arguments}


def result_question(result: Result) -> dict[str, Any]:
    """What is asked about its result besides."""
    return {"output": cut(result.text), "success": result.success}


def decoded_arguments(call: ToolCall) -> Any:
    """The arguments as JSON; as text where they are none."""
    try:
        return msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return call.arguments


def approval_question(request: RequestedAction) -> dict[str, Any]:
    """What is asked about an approval."""
    parts = request.parts
    return {
        "kind": request.kind,
        "title": request.title,
        "detail": cut(request.detail),
        "command": list(parts.command),
        "sandbox": parts.sandbox,
        "files": [msgspec.to_builtins(file) for file in parts.files],
        "server": parts.server,
        "tool": parts.tool,
        "arguments": parts.arguments,
        "justification": parts.justification,
    }


def cut(text: str | None) -> str | None:
    """The first million characters of a text."""
    return None if text is None else text[:_MOST_TEXT]


def context_text(name: str, text: str) -> str:
    """A text of a hook as a model reads it, with its source."""
    return f'<hook_context hook="{name}">\n{text}\n</hook_context>'


def with_contexts(result: Result, contexts: Sequence[tuple[str, str]]) -> Result:
    """The result with the texts after it: a part of their own, because the output itself may be JSON."""
    added = tuple(TextPart(context_text(name, text)) for name, text in contexts)
    return replace(result, parts=(*result.parts, *added)) if added else result
