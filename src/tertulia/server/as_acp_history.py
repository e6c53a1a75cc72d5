"""What was said in a session before, told again: for an editor that opens it anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Part,
    Reasoning,
    Summary,
    ToolCall,
    ToolOutput,
    UserMessage,
    readable_arguments,
)
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.server.as_acp_calls import Calls
from tertulia.server.as_acp_words import Update, chunk, text_block

_DATA = re.compile(r"data:(image/[\w.+-]+);base64,")


def retold(items: Iterable[Item], talk: ConversationId, calls: Calls) -> Iterator[Update]:
    """Every message, thought and call, in order. What we put in ourselves is left out."""
    names: dict[str, str] = {}
    for item in items:
        match item:
            case UserMessage():
                said = () if item.injected else item.parts
                yield from (chunk("user_message_chunk", _block(part), item.id) for part in said)
            case AssistantMessage():
                yield from (chunk("agent_message_chunk", _block(part), item.id) for part in item.parts)
            case Reasoning(text=text):
                if text:
                    yield chunk("agent_thought_chunk", text_block(text), item.id)
            case Summary():
                yield chunk("agent_thought_chunk", text_block(f"Earlier, in short: {item.text}"), item.id)
            case ToolCall():
                names[item.call_id] = item.name
                yield from calls.begin(talk, ToolCallBegin(item.call_id, item.name, readable_arguments(item)))
            case ToolOutput():
                yield from calls.end(talk, _end(item, names.pop(item.call_id, "")))


def _end(item: ToolOutput, name: str) -> ToolCallEnd:
    return ToolCallEnd(item.call_id, name, item.success, item.text, truncated=False, duration_ms=0)


def _block(part: Part) -> dict[str, Any]:
    if not isinstance(part, ImagePart):
        return text_block(part.text)
    found = _DATA.match(part.image_url)
    if found is None:
        return {"type": "resource_link", "name": "image", "uri": part.image_url}
    return {"type": "image", "mimeType": found[1], "data": part.image_url[found.end() :]}
