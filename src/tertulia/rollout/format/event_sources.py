"""Finds the row with the text that an event would repeat: an event is stored without a text that an item has.

Only events refer, and only to rows of their own conversation. A text is taken from a row under the same policy alone:
what erases one text erases the other. Which call an event is of is no text, and is known by the call's row under any
policy: else a call and its end could not be told to belong together where ids are not stored (R3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tertulia.protocol.events import AgentMessage, AgentReasoning, EventData, TaskComplete, TaskStarted
from tertulia.protocol.ids import CallId
from tertulia.protocol.items import (
    AssistantMessage,
    Item,
    Part,
    Reasoning,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
    readable_arguments,
)
from tertulia.protocol.message_events import UserMessageEvent, describe_attachments
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.rollout.format.written_rows import ConversationRows

Json = dict[str, Any]
_NO_CALL = CallId("")
_MESSAGES = (AssistantMessage, Reasoning, UserMessage)
_WHOLE = (AgentMessage, AgentReasoning, UserMessageEvent)
"""Events that are an item."""
_encode = msgspec.json.Encoder().encode


class EventSource(msgspec.Struct, frozen=True):
    """The row to refer to."""

    n: int = 0
    """Its number; 0 where there is none."""
    covers: tuple[str, ...] = ()
    """The fields of the event that it has."""
    header: Mapping[str, Any] = {}
    """What the event's header has to say about it."""


_NONE = EventSource()
_OWN_TEXT = {"own": True}
"""Of a call's begin or end: its text is its own, or not stored."""

# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


def find_source(data: EventData, rows: ConversationRows, policy: StoragePolicy) -> EventSource:
    """The row that has what the event would repeat."""
    return _FINDERS.get(type(data), _of_call)(data, rows, policy)


def _of_message(data: AgentMessage | AgentReasoning, rows: ConversationRows, policy: StoragePolicy) -> EventSource:
    ref = rows.spoken.get(data.item_id)
    if ref is None or ref.policy != policy or _text(ref.item) != data.text:
        return _NONE
    return EventSource(ref.n, ("text", "item_id"))


def _of_call_begin(data: ToolCallBegin, rows: ConversationRows, policy: StoragePolicy) -> EventSource:
    ref = rows.call(data.call_id)
    if ref is None:
        return _NONE
    if not _is_named(ref, data.name, policy):
        return EventSource(ref.n, ("call_id",), _OWN_TEXT)
    try:
        # Compared as written, not as Python sees it: to that, 1 and 1.0 and true are the same.
        same = isinstance(ref.item, ToolCall) and _encode(readable_arguments(ref.item)) == _encode(data.arguments)
    except (TypeError, ValueError, RecursionError):
        same = False
    covers = ("call_id", "name")
    return EventSource(ref.n, (*covers, "arguments")) if same else EventSource(ref.n, covers, _OWN_TEXT)


def _of_call_end(data: ToolCallEnd, rows: ConversationRows, policy: StoragePolicy) -> EventSource:
    call, output = rows.call(data.call_id), rows.outputs.get(data.call_id)
    if call is None:
        return _NONE
    covers = ("call_id", "name") if _is_named(call, data.name, policy) else ("call_id",)
    if output is None or output.source != call.n or output.policy != policy or _text(output.item) != data.output:
        return EventSource(call.n, covers, _OWN_TEXT)
    return EventSource(output.n, (*covers, "output"))


def _is_named(call: Any, name: str, policy: StoragePolicy) -> bool:
    return call.policy == policy and call.item.name == name


def _of_completion(data: TaskComplete, rows: ConversationRows, policy: StoragePolicy) -> EventSource:
    ref = rows.answer
    if ref is None or ref.policy != policy or _text(ref.item) != data.last_assistant_message:
        return _NONE
    return EventSource(ref.n, ("last_assistant_message",))


def _of_start(data: TaskStarted, rows: ConversationRows, policy: StoragePolicy) -> EventSource:
    ref, preview = rows.last_input, data.input_preview
    if ref is None or preview is None or ref.policy != policy or not (_text(ref.item) or "").startswith(preview):
        return _NONE
    return EventSource(ref.n, ("input_preview",), {"upto": len(preview)})


def _of_user_message(data: UserMessageEvent, rows: ConversationRows, policy: StoragePolicy) -> EventSource:
    ref = rows.last_input
    if ref is None or ref.item.id != data.item_id:
        ref = rows.waiting.get(data.item_id)
    if ref is None or ref.policy != policy or not isinstance(item := ref.item, UserMessage):
        return _NONE
    # What was redacted in the event is not what the item has.
    same = item.text == data.text and item.sender == data.sender
    if not same or (data.attachments and describe_attachments(item.parts) != data.attachments):
        return _NONE
    return EventSource(ref.n, ("item_id", "text", "attachments", "sender"))


def _of_call(data: EventData, rows: ConversationRows, policy: StoragePolicy) -> EventSource:
    ref = rows.call(getattr(data, "call_id", _NO_CALL))
    return _NONE if ref is None else EventSource(ref.n, ("call_id",))


_FINDERS: Mapping[type[EventData], Callable[[Any, ConversationRows, StoragePolicy], EventSource]] = {
    AgentMessage: _of_message,
    AgentReasoning: _of_message,
    ToolCallBegin: _of_call_begin,
    ToolCallEnd: _of_call_end,
    TaskComplete: _of_completion,
    TaskStarted: _of_start,
    UserMessageEvent: _of_user_message,
}

# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────


def takes_text(kind: type[EventData], header: Json) -> bool:
    """Whether an event of this type, which has a source, takes a text of it."""
    return kind in _FINDERS and "own" not in header


def source_fields(
    kind: type[EventData], header: Json, item: Item | None, call: Item | None, is_lost: bool
) -> dict[str, Any]:
    """The fields that an event takes from its source.

    Args:
        kind: The type of the event.
        header: Its header.
        item: The item of the source.
        call: The call of that, where it is an output; else the same.
        is_lost: Whether the text of the item is not there.

    Returns:
        The fields; of an item whose text is lost only the ids.
    """
    fields: Json = {}
    if isinstance(call, ToolCall):
        fields["call_id"] = call.call_id
        if kind is ToolCallBegin or kind is ToolCallEnd:
            fields["name"] = call.name
    if item is None or not takes_text(kind, header):
        return fields
    text = "" if is_lost else _text(item)
    if kind in _WHOLE:
        fields |= {"item_id": item.id, "text": text or "", **_of_sender(item)}
    elif is_lost or text is None:
        pass
    elif kind is ToolCallBegin and isinstance(item, ToolCall):
        fields["arguments"] = readable_arguments(item)
    elif kind is ToolCallEnd and isinstance(item, ToolOutput):
        fields["output"] = text
    elif kind is TaskComplete:
        fields["last_assistant_message"] = text
    elif kind is TaskStarted:
        upto = header.get("upto")
        fields["input_preview"] = text[: upto if type(upto) is int and upto >= 0 else 0]
    return fields


def _of_sender(item: Item) -> Json:
    if not isinstance(item, UserMessage):
        return {}
    return {"sender": item.sender, "attachments": describe_attachments(item.parts)}


def _text(item: Item) -> str | None:
    """What events repeat of an item; None for one whose text none repeats."""
    if isinstance(item, _MESSAGES):
        return item.text
    if isinstance(item, ToolOutput):
        return _first_text(item.parts)
    return item.arguments if isinstance(item, ToolCall) else None


def _first_text(parts: tuple[Part, ...]) -> str | None:
    return parts[0].text if parts and isinstance(parts[0], TextPart) else None
