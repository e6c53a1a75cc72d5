"""The finished span of a trace, and the names of its attributes. Knows nothing of OpenTelemetry's own package."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

Attribute = str | int | float | bool

# Copied: the package with these constants still moves them between releases.
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
CONVERSATION = "gen_ai.conversation.id"
AGENT = "gen_ai.agent.name"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
MCP_METHOD = "mcp.method.name"
ERROR = "error.type"
SESSION = "session.id"
TASK = "tertulia.task.id"
TASK_KIND = "tertulia.task.kind"
ENDING = "tertulia.task.ending"
SERVER = "tertulia.mcp.server"
COST = "tertulia.cost_usd"

CONTENT = frozenset({INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_ARGUMENTS, TOOL_RESULT})
"""Attributes that hold texts of people, models and tools."""


class FinishedSpan(msgspec.Struct, frozen=True):
    """One span of a trace, from its start to its end."""

    trace_id: str
    """32 hex characters, the `trace_id` of the events."""
    span_id: str
    """16 hex characters; that of a task is the `span_id` of its events."""
    parent_id: str | None
    name: str
    kind: Literal["internal", "client"]
    start_ns: int
    """Since 1970; so is the end."""
    end_ns: int
    attributes: Mapping[str, Attribute]
    error: str | None = None
    """The code of the failure, or the reason of the abort; None where it went well."""


def nanoseconds(ts: str) -> int:
    """The time of an event, since 1970."""
    # In whole microseconds: as a float the last digits would be lost.
    return int(datetime.fromisoformat(ts).timestamp() * 1_000_000) * 1_000
