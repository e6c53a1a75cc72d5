"""Shows rights to people: one line a right with its value, and below it who set it, where that is not the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.panels.lines import Part, clean, wrap
from tertulia.view.board_state import BoardState
from tertulia.view.text import name_of

_LABELS = {
    "sandbox": "sandbox",
    "approval_policy": "approval",
    "network": "network",
    "writable_roots": "writes",
    "storage_policy": "storage",
    "allow_git": "git",
    "include_conv_tools": "delegates",
    "include_apply_patch_tool": "patches",
    "include_plan_tool": "plans",
    "tools_web_search_request": "web search",
    "include_fetch_tool": "fetches",
    "shell_mode": "shell",
    "mcp_tool_allowlist": "MCP tools",
    "visibility": "sees",
    "on_restart": "after a crash",
    "limits": "limits",
}
_ALL = {"writable_roots": "the workspace", "mcp_tool_allowlist": "all"}
"""The text for a right whose value names nothing."""
_WORD = 11
_VERDICTS = {"run": ("runs without a question", "green"), "ask": ("asks you first", "yellow"), "deny": ("no", "red")}


def rights_lines(answer: Mapping[str, Any], board: BoardState, width: int) -> list[list[Part]]:
    """All rights of a conversation.

    Args:
        answer: What `rights/explain` answered.
        board: For the names of conversations.
        width: How many cells a line may have.
    """
    order = list(_LABELS)
    rights: list[dict[str, Any]] = sorted(
        answer["rights"], key=lambda right: order.index(right["field"]) if right["field"] in order else len(order)
    )
    lines: list[list[Part]] = []
    for right in rights:
        lines += _right(right, board, width)
    return lines


def _right(right: Mapping[str, Any], board: BoardState, width: int) -> list[list[Part]]:
    field = str(right["field"])
    label = _LABELS.get(field, clean(field))
    value = wrap(_value(field, right["value"]), max(4, width - _WORD - 2))
    lines: list[list[Part]] = [[(f"  {label:{_WORD}}", "dim"), (value[0], "")]]
    lines += [[(" " * (_WORD + 2), ""), (text, "")] for text in value[1:]]
    because = _because(right, board, field)
    lines += [[(f"    {text}", "dim")] for text in (wrap(because, width - 4) if because else ())]
    return lines


def _value(field: str, value: Any) -> str:
    match value:
        case None:
            return _ALL.get(field, "as usual")
        case bool():
            return "on" if value else "off"
        case list():
            return ", ".join(clean(str(entry)) for entry in cast("list[Any]", value)) or "none"
        case dict() if field == "limits":
            limits = cast("dict[str, Any]", value)
            return f"{sum(limit is not None for limit in limits.values())} of {len(limits)} set"
        case dict():
            return ", ".join(f"{key} {_value('', entry)}" for key, entry in cast("dict[str, Any]", value).items())
        case _:
            return clean(str(value))


def _because(right: Mapping[str, Any], board: BoardState, field: str) -> str:
    """The reason for a value: who set it if not by default, what was asked if less was given, and what holds now if
    less.
    """
    parts: list[str] = []
    if right["set_by"] != "session" or right.get("source") not in (None, "default"):
        source = right.get("source")
        parts.append(f"set by {setter(str(right['set_by']), board)}" + (f" ({clean(str(source))})" if source else ""))
    if "asked" in right:
        parts.append(f"asked for {_value(field, right['asked'])}, which is not allowed here")
    if "now" in right:
        parts.append(f"now {_value(field, right['now'])}: a conversation that waits for it may do no more")
    return "; ".join(parts)


def setter(set_by: str, board: BoardState) -> str:
    """Who set a right, in words: `the session`, `this conversation`, `“reviewer”`, `the agent NAME`, `the chain`."""
    kind, _, name = set_by.partition(":")
    match kind:
        case "ancestor":
            view = board.conversations.get(ConversationId(name))
            return f"“{clean(name_of(view, board.root_id))}”" if view is not None else name[:8]
        case "agent":
            return f"the agent {clean(name)}"
        case "conversation":
            return "this conversation"
        case _:
            return f"the {clean(kind)}"


def action_lines(action: Mapping[str, Any] | None, question: str, width: int) -> list[list[Part]]:
    """What would happen to a command or a tool call here and now."""
    if action is None:
        return []
    verdict, style = _VERDICTS.get(str(action["verdict"]), (str(action["verdict"]), ""))
    lines: list[list[Part]] = [[(" Why", "bold")]]
    lines += [[(f"  {text}", "")] for text in wrap(clean(question), width - 2)]
    lines.append([(f"  {verdict}", style)])
    lines += [[(f"  {text}", "")] for text in wrap(clean(str(action["because"])), width - 2)]
    if action.get("sandbox"):
        lines += [[(f"  {text}", "dim")] for text in wrap(f"in {clean(str(action['sandbox']))}", width - 2)]
    return [*lines, []]
