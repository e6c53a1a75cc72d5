"""Which fields of an event may be in its header, in one table. Everything else is body.

A header holds ids of ours, enumerations, counts, durations, tool, server and model names, usage and codes. Never a
title, a preview, a message, a path, an argument or a reason; nor an id that a model or a client may have written.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, cast

import msgspec

from tertulia.protocol.events import EVENT_TYPES, EventData
from tertulia.protocol.records import names_a_file

_TABLE: dict[str, str] = {
    "session_configured": "root_conversation_id protocol_version version model policy purpose",
    "session:preparing": "providerCount timestamp",
    "session:context-ready": "mcpServerCount toolCount contextAdditions timestamp",
    "conversation_opened": "parent_id model backend",
    "conversation_context_changed": "fields",
    "conversation_closed": "forced",
    "conversation_close_forced": "timeout_s",
    "rights_widened": "field before after",
    "task_started": "kind",
    "task_continued": "kind attempt",
    "user_message": "how caller_id",
    "message_queued": "attachments",
    "task_complete": "status usage",
    "turn_aborted": "reason",
    "token_count": "usage context_window cache_key cost_usd",
    "history_compacted": "compacted before_tokens after_tokens removed_items trigger shortened_outputs",
    "background_event": "discard_deltas",
    "warning": "code",
    "error": "code",
    "checkpoint": "checkpoint_id moment cause files",
    "foreign_event": "backend",
    "tool_call_begin": "name",
    "tool_call_end": "name success truncated duration_ms",
    "exec_command_end": "exit_code truncated duration_ms",
    "network_access": "port verdict bytes connections",
    "patch_apply_end": "success",
    "mcp_tool_call_begin": "server tool",
    "mcp_tool_call_end": "server tool success duration_ms",
    "mcp_server_status": "name status",
    "mcp_tools_changed": "added removed withheld",
    "hook_decision": "hook moment decision duration_ms failed narrowed",
    "approval_request": "approval_id kind conversation_id chain scopes",
    "approval_resolved": "approval_id decision scope chain",
    "elicitation_request": "elicitation_id server chain",
    "elicitation_resolved": "elicitation_id action chain",
    "canvas_updated": "revision bytes",
}

_BY_THE_MODEL = {("tool_call_begin", "name"), ("tool_call_end", "name")}
"""Names that a model wrote: only those it was offered are names, all others are its text."""

_USUAL: dict[tuple[str, str], Any] = {
    ("task_started", "kind"): "user",
    ("task_complete", "status"): "completed",
    ("tool_call_end", "success"): True,
    ("tool_call_end", "truncated"): False,
}
"""Values that are nearly always the same are not written, like a field's default."""

REPEATED = {"token_count": ("context_window", "cache_key")}
"""Fields that hardly change within a conversation. A row that has the same as an earlier one refers to that."""

SKELETON: tuple[str, ...] = (
    "session", "conversation", "task", "agreed", "submitted",
    "session_configured", "conversation_opened", "conversation_closed", "conversation_close_forced",
    "task_started", "task_complete", "turn_aborted", "error",
)  # fmt: skip
"""The types of the rows that are stored under `none`: that something started, ended or failed, and when; and the
digests of message ids, without which a message that is sent again would run again."""

_NUMBERS = (int, float)  # and whether something is so
_LISTS = (list, tuple)
_EMPTY: tuple[Any, ...] = (None, "", 0, [], {})
_NAME = re.compile(r"(?![/.])[A-Za-z0-9_.:/@+-]{0,128}")
"""Not the beginning of a path; models have names with a slash in the middle."""


class Layout(msgspec.Struct, frozen=True):
    """Where the fields of one event type go."""

    kind: type[EventData]
    header: tuple[str, ...]
    offered: tuple[str, ...]
    """Header, if it is among the tools that the model was offered."""
    repeated: tuple[str, ...]
    body: tuple[str, ...]
    blanks: dict[str, Any]
    """What stands for a field that is not there."""
    defaults: dict[str, Any]
    """A header field that has this value is not written."""
    usual: dict[str, Any]
    """Those of them that are no defaults of the type."""


@cache
def layout_of(kind: type[EventData]) -> Layout:
    """The layout of a type. One that is not in the table has no header at all."""
    listed = _TABLE.get(kind.type, "").split() if EVENT_TYPES.get(kind.type) is kind else []
    repeated = REPEATED.get(kind.type, ())
    offered = tuple(name for name in listed if (kind.type, name) in _BY_THE_MODEL)
    fields = msgspec.structs.fields(kind)
    usual = {name: value for (type, name), value in _USUAL.items() if type == kind.type and name in listed}
    defaults = {field.name: field.default for field in fields if field.default is not msgspec.NODEFAULT}
    return Layout(
        kind,
        tuple(name for name in listed if name not in repeated and name not in offered),
        offered,
        repeated,
        tuple(field.name for field in fields if field.name not in listed),
        {field.name: _blank(field) for field in fields},
        defaults | usual,
        usual,
    )


def is_plain(value: object) -> bool:
    """Whether a value has the shape of what may be in a header: an id or a code, never a text."""
    if isinstance(value, str):
        return _NAME.fullmatch(value) is not None and not names_a_file(value)
    if value is None or isinstance(value, _NUMBERS):
        return True
    if isinstance(value, dict):
        return all(map(is_plain, cast("dict[object, object]", value).items()))
    return isinstance(value, _LISTS) and all(map(is_plain, cast("list[object]", value)))


def _blank(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    for value in _EMPTY:
        try:
            return msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            continue
    # An enumeration. It is always in the header, or the row makes no sense.
    return None
