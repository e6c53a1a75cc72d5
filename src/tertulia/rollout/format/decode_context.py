"""What earlier rows have named, for decoding the rows that refer to it."""

from __future__ import annotations

from typing import Any

import msgspec

from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.items import Item, ToolCall
from tertulia.protocol.storage import NoStorage
from tertulia.rollout.format.id_packing import unpack_ids
from tertulia.rollout.format.item_rows import is_tag, join_item, synthetic_call_id
from tertulia.rollout.format.record_state import ConversationRecordState, RecordState
from tertulia.rollout.store import StoredRow

Json = dict[str, Any]


class TaskIds(msgspec.Struct, frozen=True, gc=False):
    """The ids that the events of a task have in common."""

    sub: str | None = None
    task: str | None = None
    trace: str | None = None
    span: str | None = None


NO_TASK_IDS = TaskIds()


class DecodeContext:
    """Filled in the order of the rows: a reference finds what stands before it, or nothing."""

    __slots__ = ("_keep_items", "conversations", "items", "known", "lists", "lost", "names", "scopes", "terms")

    def __init__(self, keep_items: int | None = None) -> None:
        self._keep_items = keep_items
        self.known = RecordState()
        self.conversations: dict[int, ConversationId] = {}
        self.scopes: dict[int, TaskIds] = {0: NO_TASK_IDS}
        self.names: dict[int, Any] = {}
        self.terms: dict[int, Json] = {}
        self.items: dict[int, dict[int, Item]] = {}
        """Of each conversation, by row."""
        self.lost: dict[int, None] = {}
        """Rows of items that are placeholders."""
        self.lists: dict[tuple[int, str], bytes] = {}
        """Tool lists, by conversation and digest."""

    def meet(self, state: int, header: Json) -> None:
        """Learn which conversation a row names."""
        conversation = ConversationId(text_in(header, "id"))
        self.conversations[state] = conversation
        self.known.conversations[conversation] = ConversationRecordState(state, NoStorage())

    def item(self, row: StoredRow, header: Json, body: Json | None) -> Item:
        """The item of a row; a placeholder where its text is lost."""
        if not is_tag(row.type):
            raise LookupError("no kind of item")
        items = self.items.setdefault(row.conversation, {})
        item = items[row.n] = join_item(row.type, header, body, row.n, self._call_id(header, items))
        if body is None:
            self.lost[row.n] = None
        return item

    def forget_oldest(self, conversation: int) -> None:
        """Forget the oldest items of a conversation, as many as there are too many."""
        items = self.items.get(conversation, {})
        while self._keep_items is not None and len(items) > self._keep_items:
            oldest = next(iter(items))
            del items[oldest]
            self.lost.pop(oldest, None)

    def _call_id(self, header: Json, items: dict[int, Item]) -> CallId | None:
        """Of an output. It must be the one its call is read back with, or they would be parted."""
        row = header.get("call")
        if type(row) is not int:
            return None
        call = items.get(row)
        return call.call_id if isinstance(call, ToolCall) else synthetic_call_id(row)


def text_in(header: Json, key: str) -> str:
    """A text of a header; raises where it is none."""
    return msgspec.convert(unpack_ids(header[key], 1)[0], str)


def int_in(header: Json, key: str) -> int:
    """A number of a header; raises where it is none."""
    return msgspec.convert(header[key], int)
