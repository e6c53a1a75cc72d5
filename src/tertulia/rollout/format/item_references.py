"""Writes an event that repeats an item as a reference to the row of the item, and resolves it when read.

Only events refer, and only to records of their own conversation. For a text they do so under the same policy: what
erases one text erases the other. Which call an event is of is no text, and is said by the call's row under any policy:
else a call and its end could not be told to belong together where ids are not stored (R3). One exception among records:
what is said after it was queued, or after a tool ended with it, is said once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from tertulia.protocol.events import AgentMessage, AgentReasoning, EventData, TaskComplete, TaskStarted, TurnAborted
from tertulia.protocol.ids import CallId, ItemId
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
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd

Json = dict[str, Any]
_KEPT = 256
_SPOKEN = (AssistantMessage, Reasoning)
_Key = TypeVar("_Key")


class ItemRef(msgspec.Struct, frozen=True, gc=False):
    """An item and where it is written."""

    n: int
    policy: StoragePolicy
    item: Item


class RecentItems:
    """The items of one conversation that may still be referred to. Bounded; what is forgotten is written again."""

    __slots__ = ("answered", "asked", "calls", "ended", "queued", "spoken")

    def __init__(self) -> None:
        self.spoken: dict[ItemId, ItemRef] = {}
        """What the model said in the task that runs."""
        self.calls: dict[CallId, ItemRef] = {}
        """Calls without an output so far."""
        self.answered: dict[CallId, ItemRef] = {}
        """Calls with an output whose end was not told yet."""
        self.ended: dict[ItemId, ItemRef] = {}
        """Outputs that have not joined the history."""
        self.queued: dict[ItemId, ItemRef] = {}
        self.asked: ItemRef | None = None
        """The last input of the conversation."""

    def note_said(self, ref: ItemRef) -> None:
        """An item joined the history."""
        item = ref.item
        if isinstance(item, UserMessage):
            self.queued.pop(item.id, None)
            self.asked = ref
        elif isinstance(item, _SPOKEN):
            _keep(self.spoken, item.id, ref)
        elif isinstance(item, ToolCall):
            _keep(self.calls, item.call_id, ref)
            # An id may be used again: events are of the call that was made last.
            self.answered.pop(item.call_id, None)
        elif isinstance(item, ToolOutput):
            self.ended.pop(item.id, None)
            if (call := self.calls.pop(item.call_id, None)) is not None:
                _keep(self.answered, item.call_id, call)

    def note_waiting(self, ref: ItemRef) -> None:
        """An item will join the history later."""
        _keep(self.ended if isinstance(ref.item, ToolOutput) else self.queued, ref.item.id, ref)

    def waiting(self, item: Item, policy: StoragePolicy) -> ItemRef | None:
        """The row that has this very item already."""
        ref = self.ended.get(item.id) or self.queued.get(item.id)
        return ref if ref is not None and ref.policy == policy and ref.item == item else None

    def call(self, call_id: CallId) -> ItemRef | None:
        """The call of that id, as long as its end was not told."""
        return self.calls.get(call_id) or self.answered.get(call_id)

    def call_over(self, call_id: CallId) -> None:
        """Forget a call whose end was recorded."""
        self.answered.pop(call_id, None)

    def task_over(self) -> None:
        """Forget the items of a task that has ended: no row will refer to them."""
        self.spoken.clear()
        self.asked = None

    def forget(self, n: int) -> None:
        """Rows from this one on were never written."""
        for calls in (self.calls, self.answered):
            _forget(calls, n)
        for refs in (self.spoken, self.ended, self.queued):
            _forget(refs, n)
        if self.asked is not None and self.asked.n >= n:
            self.asked = None


def _keep(refs: dict[_Key, ItemRef], key: _Key, ref: ItemRef) -> None:
    refs[key] = ref
    if len(refs) > _KEPT:
        del refs[next(iter(refs))]


def _forget(refs: dict[_Key, ItemRef], n: int) -> None:
    for key in [key for key, ref in refs.items() if ref.n >= n]:
        del refs[key]


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


def reference_fields(data: EventData, recent: RecentItems, policy: StoragePolicy) -> tuple[Json, tuple[str, ...]]:
    """What to write in the header instead of which fields."""
    finder = _FINDERS.get(type(data), _call_of)
    return finder(data, recent, policy)


_Found = tuple[Json, tuple[str, ...]]
_NOTHING: _Found = ({}, ())
_NO_CALL = CallId("")
_encode = msgspec.json.Encoder().encode


def _message(data: AgentMessage | AgentReasoning, recent: RecentItems, policy: StoragePolicy) -> _Found:
    ref = recent.spoken.get(data.item_id)
    if ref is None or ref.policy != policy or _said(ref.item) != data.text:
        return _NOTHING
    return {"said": ref.n}, ("text", "item_id")


def _call_begin(data: ToolCallBegin, recent: RecentItems, policy: StoragePolicy) -> _Found:
    ref = recent.call(data.call_id)
    if ref is None or not isinstance(call := ref.item, ToolCall) or ref.policy != policy or call.name != data.name:
        return _call_of(data, recent, policy)
    try:
        # Compared as written, not as Python sees it: to that, 1 and 1.0 and true are the same.
        same = _encode(readable_arguments(call)) == _encode(data.arguments)
    except (TypeError, ValueError, RecursionError):
        same = False
    return ({"said": ref.n}, ("call_id", "name", "arguments")) if same else _call_of(data, recent, policy)


def _call_end(data: ToolCallEnd, recent: RecentItems, policy: StoragePolicy) -> _Found:
    header, covered = _call_of(data, recent, policy)
    call = recent.call(data.call_id)
    if call is not None and isinstance(call.item, ToolCall) and call.policy == policy and call.item.name == data.name:
        covered = (*covered, "name")
    # The one that ended last is nearly always the one: no need for another table.
    for ref in reversed(recent.ended.values()):
        output = ref.item
        if isinstance(output, ToolOutput) and output.call_id == data.call_id:
            if ref.policy == policy and _first_text(output.parts) == data.output:
                return {**header, "said": ref.n}, (*covered, "output")
            break
    return header, covered


def _completed(data: TaskComplete, recent: RecentItems, policy: StoragePolicy) -> _Found:
    if data.last_assistant_message is None:
        return _NOTHING
    for ref in reversed(recent.spoken.values()):
        if isinstance(ref.item, AssistantMessage):
            if ref.policy == policy and ref.item.text == data.last_assistant_message:
                return {"said": ref.n}, ("last_assistant_message",)
            break
    return _NOTHING


def _started(data: TaskStarted, recent: RecentItems, policy: StoragePolicy) -> _Found:
    ref, preview = recent.asked, data.input_preview
    if ref is None or preview is None or ref.policy != policy or not _said(ref.item).startswith(preview):
        return _NOTHING
    return {"said": ref.n, "upto": len(preview)}, ("input_preview",)


def _call_of(data: EventData, recent: RecentItems, policy: StoragePolicy) -> _Found:
    ref = recent.call(getattr(data, "call_id", _NO_CALL))
    return _NOTHING if ref is None else ({"call": ref.n}, ("call_id",))


_FINDERS: Mapping[type[EventData], Callable[[Any, RecentItems, StoragePolicy], _Found]] = {
    AgentMessage: _message,
    AgentReasoning: _message,
    ToolCallBegin: _call_begin,
    ToolCallEnd: _call_end,
    TaskComplete: _completed,
    TaskStarted: _started,
}

ENDS = (TaskComplete, TurnAborted)
"""After these events no row refers to the items of the task."""

# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────


def resolve_references(kind: type[EventData], header: Json, items: dict[int, Item], lost: dict[int, None]) -> Json:
    """The fields that a header takes from rows read before. Of an item whose text is lost only the ids are taken."""
    fields: Json = {}
    item, call = _at(items, header.get("said")), _at(items, header.get("call"))
    if isinstance(call, ToolCall):
        fields["call_id"] = call.call_id
        if kind is ToolCallEnd:
            fields["name"] = call.name
    if item is None:
        return fields
    is_lost = header["said"] in lost
    if kind is AgentMessage or kind is AgentReasoning:
        fields |= {"item_id": item.id, "text": "" if is_lost else _said(item)}
    elif kind is ToolCallBegin and isinstance(item, ToolCall):
        fields |= {"call_id": item.call_id, "name": item.name}
        fields["arguments"] = None if is_lost else readable_arguments(item)
    elif is_lost:
        pass
    elif kind is ToolCallEnd and isinstance(item, ToolOutput):
        fields["output"] = _first_text(item.parts) or ""
    elif kind is TaskComplete:
        fields["last_assistant_message"] = _said(item)
    elif kind is TaskStarted:
        upto = header.get("upto")
        fields["input_preview"] = _said(item)[: upto if type(upto) is int and upto >= 0 else 0]
    return fields


def _at(items: dict[int, Item], n: object) -> Item | None:
    return items.get(n) if type(n) is int else None


def _said(item: Item) -> str:
    return item.arguments if isinstance(item, ToolCall) else item.text


def _first_text(parts: tuple[Part, ...]) -> str | None:
    return parts[0].text if parts and isinstance(parts[0], TextPart) else None
