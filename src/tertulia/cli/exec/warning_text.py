"""What somebody who waits for an answer should be told on the way, though nothing has failed."""

from __future__ import annotations

from tertulia.protocol.events import BackgroundEvent, ConversationCloseForced, EventData, SubscriberLagged, WarningEvent
from tertulia.protocol.tool_events import McpServerStatus, McpToolsChanged

_SHOWN = 10


def warning_text(data: EventData) -> str | None:
    """The sentence, or None for events of another kind."""
    match data:
        case WarningEvent(message) | BackgroundEvent(message):
            # Of a record that keeps no texts.
            return message or "[not stored]"
        case McpServerStatus(name, status, str() as error):
            return f"MCP server {name} is {status}: {error}"
        case McpToolsChanged(withheld=[_, *_] as names):
            shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            return (
                f"not what was shown before, and withheld: {shown}; `tertulia mcp refresh` takes them as they are now"
            )
        case ConversationCloseForced(timeout_s):
            return f"the task did not stop within {timeout_s:g} s and was abandoned"
        case SubscriberLagged(int() as first, last):
            return f"events {first} to {last} were missed"
        case _:
            return None
