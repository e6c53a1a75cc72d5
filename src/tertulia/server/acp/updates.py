"""Turns the events and the history of a session into ACP's updates: what an editor can show of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from tertulia.protocol import events as e
from tertulia.protocol import items as i
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event, EventData
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.server.acp.content import Update, chunk_update, remark_update, text_block
from tertulia.server.acp.tool_calls import AcpToolCalls
from tertulia.server.surface_events import EventHandler, SurfaceEvents, end_of_output, on_open_call


class SessionUpdates(SurfaceEvents[Update]):
    """Follows one session. What the root says is the session's voice; of its other conversations the calls show."""

    def __init__(self, root: ConversationId, calls: AcpToolCalls) -> None:
        super().__init__(root, calls)
        self._server_errors: dict[str, str] = {}
        """What was last said of MCP servers that do not work."""

    def piece(self, event: Event, data: e.AgentMessageDelta | e.AgentReasoningDelta) -> Iterator[Update]:
        """A piece of what the root says or thinks, unless something before it is missing: then the whole has it."""
        if text := self._text.new_text(data):
            yield _text_chunk(text, data.item_id, spoken=isinstance(data, e.AgentMessageDelta))

    def whole(self, event: Event, data: e.AgentMessage | e.AgentReasoning) -> Iterator[Update]:
        """What of a whole message or thought was not sent yet."""
        if text := data.text[self._text.end(data.item_id) or 0 :]:
            yield _text_chunk(text, data.item_id, spoken=isinstance(data, e.AgentMessage))

    def background(self, event: Event, data: e.BackgroundEvent) -> Iterator[Update]:
        """The model begins its answer again. ACP cannot take back what was shown of it, so that is said."""
        if data.discard_deltas and self.is_root(event) and self._text.forget():
            yield remark_update("The answer was cut off and begins again.")

    def plan(self, event: Event, data: t.PlanUpdate) -> Iterator[Update]:
        """The plan of the root conversation."""
        entries = [{"content": step.step, "priority": "medium", "status": step.status} for step in data.plan]
        yield {"sessionUpdate": "plan", "entries": entries}

    def usage(self, event: Event, data: e.TokenCount) -> Iterator[Update]:
        """How full the context window of the root is."""
        if self.is_root(event):
            used = data.usage.input_tokens + data.usage.output_tokens
            yield {"sessionUpdate": "usage_update", "used": used, "size": data.context_window}

    def compacted(self, event: Event, data: e.HistoryCompacted) -> Iterator[Update]:
        """That the history was summarised, unless a request asked for it: that gets an answer of its own."""
        if data.trigger != "request" and data.compacted:
            counts = f"{data.before_tokens:,} tokens are {data.after_tokens:,} now"
            yield remark_update(f"The older part was summarised: {counts}.")

    def warning(self, message: str) -> Update:
        """A warning, as a remark of ours."""
        return remark_update(f"Warning: {message}")

    def server(self, event: Event, data: t.McpServerStatus) -> Iterator[Update]:
        """An MCP server that does not work. One that is tried again and fails again is not told twice."""
        if data.status == "ready":
            self._server_errors.pop(data.name, None)
        elif data.status in ("failed", "untrusted"):
            text = t.server_status_text(data.name, data.status, data.error)
            if self._server_errors.get(data.name) != text:
                self._server_errors[data.name] = text
                yield remark_update(text)

    handlers: ClassVar[Mapping[type[EventData], EventHandler]] = {
        **SurfaceEvents.handlers,
        t.PatchApplyBegin: on_open_call(lambda calls, call, data: calls.patching(call, data)),
        t.McpToolCallBegin: on_open_call(lambda calls, call, data: calls.started(call)),
        t.WebSearchBegin: lambda view, event, data: view.calls.searching(event, data),
    }


def _text_chunk(text: str, item_id: ItemId, *, spoken: bool) -> Update:
    return chunk_update("agent_message_chunk" if spoken else "agent_thought_chunk", text_block(text), item_id)


_IMAGE_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,")


def updates_from_history(
    items: Iterable[i.Item], conversation: ConversationId, calls: AcpToolCalls
) -> Iterator[Update]:
    """Every message, thought and call, in order. What we put in ourselves is left out."""
    names: dict[str, str] = {}
    for item in items:
        match item:
            case i.UserMessage():
                parts = () if item.injected else item.parts
                yield from (chunk_update("user_message_chunk", _block(part), item.id) for part in parts)
            case i.AssistantMessage():
                yield from (chunk_update("agent_message_chunk", _block(part), item.id) for part in item.parts)
            case i.Reasoning(text=text):
                if text:
                    yield chunk_update("agent_thought_chunk", text_block(text), item.id)
            case i.Summary():
                yield chunk_update("agent_thought_chunk", text_block(f"Earlier, in short: {item.text}"), item.id)
            case i.ToolCall():
                names[item.call_id] = item.name
                yield from calls.begin_call(
                    conversation, t.ToolCallBegin(item.call_id, item.name, i.readable_arguments(item))
                )
            case i.ToolOutput():
                yield from calls.end_call(conversation, end_of_output(item, names.pop(item.call_id, "")))


def _block(part: i.Part) -> dict[str, Any]:
    if not isinstance(part, i.ImagePart):
        return text_block(part.text)
    match = _IMAGE_DATA_URL.match(part.image_url)
    if match is None:
        return {"type": "resource_link", "name": "image", "uri": part.image_url}
    return {"type": "image", "mimeType": match[1], "data": part.image_url[match.end() :]}
