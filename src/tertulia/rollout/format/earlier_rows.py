"""The contents of earlier rows, for decoding the rows that refer to them."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec

from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.items import Item, ToolCall, ToolOutput
from tertulia.protocol.storage import NoStorage
from tertulia.rollout.format.item_rows import ItemBody, ItemHeader, join_item, synthetic_call_id
from tertulia.rollout.format.record_state import ConversationRecordState, RecordState
from tertulia.rollout.store import StoredRow

Json = dict[str, Any]
_OF_CALLS = (ToolCall, ToolOutput)
_PACKED_DIGITS = 96
_decode_body = msgspec.json.Decoder(ItemBody).decode


class TaskIds(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The ids that the events of a task have in common."""

    sub: str | None = None
    task: str | None = None
    trace: str | None = None
    span: str | None = None


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """What the requests of a conversation have in common."""

    instructions: str = ""
    """The digest of the instructions."""
    tools: str = ""
    """The digest of the tool list."""
    tools_json: bytes | None = None
    """None: not stored, or not any more."""


NO_TASK_IDS = TaskIds()


def unpack_ids(value: object) -> TaskIds:
    """The ids that `pack_key` made a text of, or left as they were. ValueError for anything else."""
    if not isinstance(value, str):
        return msgspec.convert(value, TaskIds)
    ids = b64decode(value, validate=True).hex()
    if len(ids) != _PACKED_DIGITS:
        raise ValueError(f"{len(ids)} digits are not the ids of a task")
    sub, task, trace, span = ids[:16], ids[16:48], ids[48:80], ids[80:]
    parts = task[:8], task[8:12], task[12:16], task[16:20], task[20:]
    return TaskIds(f"sub/{sub}", "-".join(parts), trace, span)


class EarlierRows:
    """Filled in the order of the rows: a reference finds what stands before it, or nothing."""

    __slots__ = (
        *("_keep_items", "_outputs", "conversations", "items", "known", "lost", "prompts", "repeated", "tasks"),
        "terms",
    )

    def __init__(self, keep_items: int | None = None) -> None:
        self._keep_items = keep_items
        self.known = RecordState()
        self.conversations: dict[int, ConversationId] = {}
        self.tasks: dict[int, TaskIds] = {0: NO_TASK_IDS}
        self.items: dict[int, dict[int, Item]] = {}
        """Of each conversation, by row."""
        self._outputs: dict[int, int] = {}
        """The row of the call, by the row of its output."""
        self.lost: dict[int, None] = {}
        """Rows of items that are placeholders."""
        self.repeated: dict[tuple[int, int], Json] = {}
        """Fields that hardly change, here and below by conversation and row."""
        self.prompts: dict[tuple[int, int], Prompt] = {}
        self.terms: dict[tuple[int, int], Json] = {}

    def meet(self, n: int, id: object) -> None:
        """Learn the id of a conversation, and the number by which others refer to it."""
        conversation = ConversationId(msgspec.convert(id, str))
        self.conversations[n] = conversation
        self.known.conversations[conversation] = ConversationRecordState(n, NoStorage())

    def item(self, row: StoredRow, header: ItemHeader) -> Item:
        """The item of a row; a placeholder where its text is lost. Raises what decoding a wrong row raises."""
        n, source = row.n, row.source
        items = self.items.get(row.conversation)
        if items is None:
            items = self.items[row.conversation] = {}
        if header.same:
            item = items[n] = items[source]
            if source in self.lost:
                self.lost[n] = None
            return item
        body = None if row.body is None else _decode_body(row.body)
        call = self._call_id(source, items) if source else None
        item = items[n] = join_item(row.type, header, body, n, call)
        if body is None:
            self.lost[n] = None
        if source:
            self._outputs[n] = source
        return item

    def joined(self, row: StoredRow, item: Item) -> None:
        """An item joined the history. KeyError where its conversation is not known."""
        conversation = self.conversations[row.conversation]
        if isinstance(item, _OF_CALLS):
            self.known.conversations[conversation].note(item, row.n)
        if self._keep_items is not None:
            self._forget_oldest(self.items[row.conversation], self._keep_items)

    def source_of(self, row: StoredRow) -> tuple[Item | None, Item | None]:
        """The item that a row refers to, and the call of that where it is an output; else the same twice."""
        items = self.items.get(row.conversation)
        if not items or not row.source:
            return None, None
        item = items.get(row.source)
        return item, items.get(self._outputs.get(row.source, row.source))

    def _call_id(self, source: int, items: dict[int, Item]) -> CallId:
        """The call id of an output. It must equal that of its call, or the two would be separated."""
        call = items.get(source)
        return call.call_id if isinstance(call, ToolCall) else synthetic_call_id(source)

    def _forget_oldest(self, items: dict[int, Item], most: int) -> None:
        while len(items) > most:
            oldest = next(iter(items))
            del items[oldest]
            self.lost.pop(oldest, None)
            self._outputs.pop(oldest, None)
