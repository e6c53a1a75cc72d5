"""Events of a task as the progress of the MCP call that caused it: what the agent does, in a few words."""

from __future__ import annotations

from collections.abc import Callable

from tertulia.policy.display_text import make_display_text
from tertulia.protocol.events import AgentMessage, EventData, TaskStarted
from tertulia.protocol.tool_events import McpToolCallProgress, PlanUpdate, ToolCallBegin, ToolCallEnd

_MAX = 200


class Progress:
    """One step for each event that a person would want to see. Nobody knows how many there will be."""

    def __init__(self, tell: Callable[[float, float | None, str | None], None]) -> None:
        self._tell = tell
        self._steps = 0

    def hear(self, data: EventData) -> None:
        """Tell of it, or not."""
        words = _in_words(data)
        if words is not None:
            self._steps += 1
            short = words if len(words) <= _MAX else f"{words[:_MAX]}…"
            self._tell(float(self._steps), None, make_display_text(short).text)


def _in_words(data: EventData) -> str | None:
    match data:
        case TaskStarted():
            return "the agent begins"
        case ToolCallBegin():
            return f"calls {data.name}"
        case ToolCallEnd():
            return f"{data.name} {'answered' if data.success else 'failed'}"
        case McpToolCallProgress():
            return data.message
        case PlanUpdate():
            return "has a new plan"
        case AgentMessage():
            return data.text
        case _:
            return None
