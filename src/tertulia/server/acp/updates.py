"""The events of a session as ACP's updates: what an editor can show of each, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event, EventData
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
from tertulia.server.acp.text_stream import TextStream, Update, chunk_update, remark_update, text_block
from tertulia.server.acp.tool_calls import AcpToolCalls

UpdateHandler = Callable[["SessionUpdates", ConversationId, Any], Sequence[Update | None]]


class SessionUpdates:
    """Follows one session. What the root says is the session's voice; of its other conversations the calls show."""

    def __init__(self, root: ConversationId, calls: AcpToolCalls) -> None:
        self._root = root
        self.calls = calls
        self._words = TextStream()
        self._servers: dict[str, str] = {}
        """What was last said of those that do not work."""

    def of(self, event: Event) -> list[Update]:
        """What there is to show of an event."""
        tell = _HANDLERS.get(type(event.data))
        if tell is None:
            return []
        conversation = event.conversation_id or self._root
        return [update for update in tell(self, conversation, event.data) if update is not None]

    # ── said ─────────────────────────────────────────────────────────────────────────────────────────────────

    def piece(
        self, conversation: ConversationId, data: e.AgentMessageDelta | e.AgentReasoningDelta
    ) -> Sequence[Update | None]:
        """A piece of what the root says or thinks."""
        return (self._words.piece(data),) if conversation == self._root else ()

    def whole(self, conversation: ConversationId, data: e.AgentMessage | e.AgentReasoning) -> Sequence[Update | None]:
        """A whole message or thought of the root."""
        return (self._words.whole(data),) if conversation == self._root else ()

    def background(self, conversation: ConversationId, data: e.BackgroundEvent) -> Sequence[Update | None]:
        """The model begins its answer anew: what was shown of it does not count."""
        return (self._words.begin_again(),) if data.discard_deltas and conversation == self._root else ()

    def plan(self, conversation: ConversationId, data: t.PlanUpdate) -> Sequence[Update | None]:
        """The plan of the root conversation."""
        if conversation != self._root:
            return ()
        entries = [{"content": step.step, "priority": "medium", "status": step.status} for step in data.plan]
        return ({"sessionUpdate": "plan", "entries": entries},)

    def usage(self, conversation: ConversationId, data: e.TokenCount) -> Sequence[Update | None]:
        """How full the context window of the root is."""
        if conversation != self._root:
            return ()
        used = data.usage.input_tokens + data.usage.output_tokens
        return ({"sessionUpdate": "usage_update", "used": used, "size": data.context_window},)

    def server(self, data: t.McpServerStatus) -> Sequence[Update | None]:
        """An MCP server that does not work. One that is tried again and fails again is not told twice."""
        if data.status not in ("failed", "untrusted"):
            if data.status == "ready":
                self._servers.pop(data.name, None)
            return ()
        text = f"MCP server {data.name} is {data.status}: {data.error or 'no reason is known'}"
        if self._servers.get(data.name) == text:
            return ()
        self._servers[data.name] = text
        return (remark_update(text),)


def _compacted(data: e.HistoryCompacted) -> Sequence[Update | None]:
    if data.trigger == "request" or not data.compacted:
        # The request for it gets an answer of its own.
        return ()
    return (
        remark_update(f"The older part was summarised: {data.before_tokens:,} tokens are {data.after_tokens:,} now."),
    )


_HANDLERS: dict[type[EventData], UpdateHandler] = {
    e.AgentMessageDelta: SessionUpdates.piece,
    e.AgentReasoningDelta: SessionUpdates.piece,
    e.AgentMessage: SessionUpdates.whole,
    e.AgentReasoning: SessionUpdates.whole,
    e.BackgroundEvent: SessionUpdates.background,
    e.TokenCount: SessionUpdates.usage,
    e.HistoryCompacted: lambda updates, conversation, data: _compacted(data),
    e.WarningEvent: lambda updates, conversation, data: (remark_update(f"Warning: {data.message}"),),
    t.PlanUpdate: SessionUpdates.plan,
    t.McpServerStatus: lambda updates, conversation, data: updates.server(data),
    t.ToolCallBegin: lambda updates, conversation, data: updates.calls.begin(conversation, data),
    t.ToolCallEnd: lambda updates, conversation, data: updates.calls.end(conversation, data),
    t.ExecCommandBegin: lambda updates, conversation, data: updates.calls.running(conversation, data),
    t.ExecCommandOutputDelta: lambda updates, conversation, data: updates.calls.output(conversation, data),
    t.ExecCommandEnd: lambda updates, conversation, data: updates.calls.ran(conversation, data),
    t.PatchApplyBegin: lambda updates, conversation, data: updates.calls.patching(conversation, data),
    t.McpToolCallBegin: lambda updates, conversation, data: updates.calls.started(conversation, data.call_id),
    t.WebSearchBegin: lambda updates, conversation, data: updates.calls.searching(conversation, data),
    t.WebSearchEnd: lambda updates, conversation, data: updates.calls.searched(conversation, data),
}


_IMAGE_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,")


def updates_from_history(items: Iterable[Item], conversation: ConversationId, calls: AcpToolCalls) -> Iterator[Update]:
    """Every message, thought and call, in order. What we put in ourselves is left out."""
    names: dict[str, str] = {}
    for item in items:
        match item:
            case UserMessage():
                parts = () if item.injected else item.parts
                yield from (chunk_update("user_message_chunk", _block(part), item.id) for part in parts)
            case AssistantMessage():
                yield from (chunk_update("agent_message_chunk", _block(part), item.id) for part in item.parts)
            case Reasoning(text=text):
                if text:
                    yield chunk_update("agent_thought_chunk", text_block(text), item.id)
            case Summary():
                yield chunk_update("agent_thought_chunk", text_block(f"Earlier, in short: {item.text}"), item.id)
            case ToolCall():
                names[item.call_id] = item.name
                yield from calls.begin(conversation, ToolCallBegin(item.call_id, item.name, readable_arguments(item)))
            case ToolOutput():
                yield from calls.end(conversation, _end(item, names.pop(item.call_id, "")))


def _end(item: ToolOutput, name: str) -> ToolCallEnd:
    return ToolCallEnd(item.call_id, name, item.success, item.text, truncated=False, duration_ms=0)


def _block(part: Part) -> dict[str, Any]:
    if not isinstance(part, ImagePart):
        return text_block(part.text)
    match = _IMAGE_DATA_URL.match(part.image_url)
    if match is None:
        return {"type": "resource_link", "name": "image", "uri": part.image_url}
    return {"type": "image", "mimeType": match[1], "data": part.image_url[match.end() :]}
