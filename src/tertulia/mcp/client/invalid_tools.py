"""Tools that are none by the rules of the protocol: each is marked, so that it costs itself and not the whole list.

The SDK takes or refuses a list as one. What it sees in place of such a tool is a tool that says why it is none.
"""

from __future__ import annotations

from typing import Any, cast

from tertulia.mcp.client.error_text import quote_server_text
from tertulia.mcp.server_connection import MODERN
from tertulia.mcp.toolset import MAX_SCHEMA_DEPTH, is_deeper

INVALID_MARK = "tertulia/unfit"
MAX_LISTED = 10_000
"""A list of more than so many is refused, and nobody looks at the rest."""
_MOST_CHARACTERS = 200
_DEEPEST = MAX_SCHEMA_DEPTH + 1
"""A schema is one level below its tool."""


def mark_invalid_tools(result: dict[str, Any], version: str) -> None:
    """Replace, in an answer that lists tools, each that cannot be one. The SDK must be loaded by now."""
    listed = result["tools"]
    if not isinstance(listed, list):
        return
    # One more than is allowed is enough to be refused. First what the rules themselves would stumble over.
    tools = cast("list[Any]", listed)[: MAX_LISTED + 1]
    tools = [tool if (why := _unreadable(tool)) is None else _stand_in(tool, why) for tool in tools]
    reasons = _sdk_errors_by_index(tools, version)
    result["tools"] = [_stand_in(tool, reasons[at]) if at in reasons else tool for at, tool in enumerate(tools)]


def invalid_tool_reason(meta: dict[str, Any] | None) -> str | None:
    """What a marked tool says of itself; None for one that is a tool."""
    return (
        None
        if meta is None or INVALID_MARK not in meta
        else quote_server_text(str(meta[INVALID_MARK]), _MOST_CHARACTERS)
    )


def _unreadable(tool: Any) -> str | None:
    if not isinstance(tool, dict):
        return "it is not an object"
    return f"it is nested deeper than {_DEEPEST}" if is_deeper(tool, _DEEPEST) else None


def _sdk_errors_by_index(tools: list[dict[str, Any]], version: str) -> dict[int, str]:
    """Why these are no tools, by number: in that version of the protocol, and for the SDK."""
    from mcp.shared.inbound import find_invalid_x_mcp_header
    from mcp_types import ListToolsResult
    from mcp_types.methods import validate_server_result
    from pydantic import ValidationError

    reasons: dict[int, str] = {}
    for check in (
        lambda: validate_server_result("tools/list", version, {"tools": tools}),
        lambda: ListToolsResult.model_validate({"tools": tools}, by_name=False),
    ):
        try:
            check()
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_context=False, include_input=False):
                # Anything else is about the answer around them, of which we know nothing here.
                if problem["loc"][0] == "tools":
                    _, at, *inside = problem["loc"]
                    where = quote_server_text(".".join(map(str, inside)), _MOST_CHARACTERS)
                    reasons.setdefault(int(at), f"`{where}`: {quote_server_text(problem['msg'], _MOST_CHARACTERS)}")
    if version >= MODERN:
        for at, tool in enumerate(tools):
            # These the SDK drops without a word.
            if at not in reasons and (why := find_invalid_x_mcp_header(tool["inputSchema"])) is not None:
                reasons[at] = quote_server_text(why, _MOST_CHARACTERS)
    return reasons


def _stand_in(tool: Any, why: str) -> dict[str, Any]:
    name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
    return {
        "name": name if isinstance(name, str) else "",
        "inputSchema": {"type": "object"},
        "_meta": {INVALID_MARK: why},
    }
