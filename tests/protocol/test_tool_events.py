"""The register of event types."""

from __future__ import annotations

import inspect
from typing import get_args

import tertulia
from tertulia.protocol import events, message_events, tool_events
from tertulia.protocol.events import EVENT_TYPES, EventData
from tertulia.protocol.mapping_struct import BaseEventData
from tests.tables import each_row

DESIGN = [
    "session_configured",
    "session:preparing",
    "session:context-ready",
    "conversation_opened",
    "conversation_context_changed",
    "conversation_closed",
    "conversation_close_forced",
    "task_started",
    "task_continued",
    "rights_widened",
    "user_message",
    "message_queued",
    "message_taken_back",
    "task_complete",
    "turn_aborted",
    "agent_message_delta",
    "agent_message",
    "agent_reasoning_delta",
    "agent_reasoning",
    "token_count",
    "tool_call_begin",
    "tool_call_end",
    "exec_command_begin",
    "exec_command_output_delta",
    "exec_command_end",
    "patch_apply_begin",
    "patch_apply_end",
    "mcp_tool_call_begin",
    "mcp_tool_call_progress",
    "mcp_tool_call_end",
    "mcp_server_status",
    "mcp_tools_changed",
    "web_search_begin",
    "network_access",
    "web_search_end",
    "plan_update",
    "hook_decision",
    "approval_request",
    "approval_resolved",
    "elicitation_request",
    "elicitation_resolved",
    "history_compacted",
    "canvas_updated",
    "checkpoint",
    "background_event",
    "warning",
    "error",
    "foreign_event",
    "subscriber_lagged",
]

FIELDS = {
    "task_started": ["kind", "input_preview"],
    "user_message": ["item_id", "text", "how", "attachments", "sender", "caller_id"],
    "task_complete": ["status", "last_assistant_message", "usage"],
    "turn_aborted": ["reason", "by_call_id"],
    "agent_message_delta": ["text", "item_id", "offset"],
    "agent_message": ["text", "item_id"],
    "token_count": ["usage", "context_window", "cache_key", "cost_usd"],
    "tool_call_begin": ["call_id", "name", "arguments"],
    "tool_call_end": ["call_id", "name", "success", "output", "truncated", "duration_ms"],
    "background_event": ["message", "narrowed", "discard_deltas"],
    "error": ["code", "message"],
    "subscriber_lagged": ["from_seq", "to_seq", "dropped_deltas"],
    "approval_request": [
        "approval_id",
        "kind",
        "conversation_id",
        "chain",
        "title",
        "detail",
        "matches",
        "scopes",
    ],
}


def test_the_register_is_exactly_the_list_of_the_design() -> None:
    assert sorted(EVENT_TYPES) == sorted(DESIGN)


def test_every_type_that_is_written_down_is_registered_under_its_own_name() -> None:
    written = [
        kind
        for module in (events, message_events, tool_events)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, EventData) and kind is not EventData and kind.__module__ == module.__name__
    ]
    assert {kind.type: kind for kind in written} == EVENT_TYPES
    assert len(written) == len(EVENT_TYPES)


@each_row("name", FIELDS)
def test_the_payloads_of_the_design_have_its_keys_in_order(name: str) -> None:
    """What came later stands behind them."""
    assert list(EVENT_TYPES[name].__struct_fields__)[: len(FIELDS[name])] == FIELDS[name]


@each_row("name", ["tool_call", "exec_command", "patch_apply", "mcp_tool_call", "web_search"])
def test_a_beginning_and_its_end_are_joined_by_the_call_id(name: str) -> None:
    for part in ("begin", "end"):
        assert EVENT_TYPES[f"{name}_{part}"].__struct_fields__[0] == "call_id"


def test_the_union_is_closed_over_every_class_of_event_data() -> None:
    """`match event.data:` is complete only if nothing that is published stands outside of the union."""
    ours = [kind for kind in BaseEventData.__subclasses__() if kind.__module__.startswith("tertulia.")]
    assert set(get_args(EventData)) == set(ours)
    assert all(getattr(tertulia, kind.__name__) is kind for kind in ours)
    assert tertulia.EventData is EventData
