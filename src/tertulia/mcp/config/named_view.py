"""`[mcp_views.NAME]`: a named view, for programs that use our MCP servers from outside a session (the broker)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.definition import Approval
from tertulia.policy.limits import NO_LIMITS, Limits, limits_from_wire
from tertulia.protocol.inputs import near_names
from tertulia.protocol.tool_names import is_legal, normalise_allowlist_entry

_KEYS = ("approval", "limits", "mcp_tool_allowlist")


class NamedView(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools of which servers, how many calls, and which need an approval."""

    name: str
    mcp_tool_allowlist: tuple[str, ...] | None = None
    """`server__tool` or `server__*`; None: every tool of every server. Whether they exist is checked later."""
    limits: Limits = NO_LIMITS
    """Narrowed by those of the session."""
    approval: Approval | None = None
    """None: that of each server."""


def view_from_wire(name: str, table: object) -> NamedView:
    """Parse one table; InvalidParams names the view and the key."""
    label = f"mcp_views.{name[:64]}"
    if not is_legal(name):
        raise InvalidParamsError(
            f"mcp_views: {name[:64]!r} cannot be the name of a view; use letters, digits, `_` and `-`"
        )
    if not isinstance(table, Mapping):
        raise InvalidParamsError(f"{label} must be a table")
    fields = cast("Mapping[str, Any]", table)
    for key in fields:
        if key not in _KEYS:
            near = near_names(key, _KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KEYS)}"
            raise InvalidParamsError(f"{label}: there is no setting {key[:64]!r}; {hint}")
    return NamedView(
        name=name,
        mcp_tool_allowlist=_allowlist(f"{label}.mcp_tool_allowlist", fields.get("mcp_tool_allowlist")),
        limits=_limits(label, fields.get("limits", {})),
        approval=_approval(f"{label}.approval", fields.get("approval")),
    )


def _allowlist(label: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise InvalidParamsError(f"{label} must be a list of tools")
    names: list[str] = []
    for entry in cast("list[object]", value):
        name = normalise_allowlist_entry(entry)[0] if isinstance(entry, str) else ""
        if not is_legal(name.removesuffix("*") if name.endswith("__*") else name):
            raise InvalidParamsError(f"{label}: {entry!r:.80} is not a tool name; write `server__tool` or `server__*`")
        names.append(name)
    return tuple(names)


def _limits(label: str, value: object) -> Limits:
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"{label}.limits must be a table")
    try:
        return limits_from_wire(cast("Mapping[str, object]", value), NO_LIMITS)
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{label}.{error.message}") from None


def _approval(label: str, value: object) -> Approval | None:
    if value is not None and value not in get_args(Approval):
        raise InvalidParamsError(f"{label} must be one of {', '.join(get_args(Approval))}")
    return cast("Approval | None", value)
