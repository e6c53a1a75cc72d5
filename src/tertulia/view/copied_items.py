"""Shows the items that a conversation began with: those of the session that it is a copy of, which left no events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tertulia.protocol import items as i
from tertulia.protocol.ids import CallId
from tertulia.protocol.records import ItemsRecord
from tertulia.view.board_state import BoardState
from tertulia.view.call_events import make_call_cell
from tertulia.view.cells import AssistantCell, Cell, HandoffCell, NoticeCell, ReasoningCell, ToolCallCell, UserCell
from tertulia.view.conversation_view import ConversationView


def add_copied_items(board: BoardState, record: ItemsRecord, ts: str) -> None:
    """Put the items of a record into its conversation, if that is not open yet: later ones have events.

    `ts`: when the record was written.
    """
    view = board.conversations.get(record.conversation_id)
    if view is not None and view.backend:
        return
    items = [item for item in record.items if not (isinstance(item, i.UserMessage) and item.injected)]
    if not items:
        return
    if view is None:
        view = board.conversations[record.conversation_id] = ConversationView(id=record.conversation_id)
    calls = {cell.call_id: cell for cell in view.cells if isinstance(cell, ToolCallCell | HandoffCell)}
    for cell in _cells(items, ts, calls):
        view.add(cell)
        view.last_key = cell.key


def _cells(items: Iterable[i.Item], ts: str, calls: dict[CallId, ToolCallCell | HandoffCell]) -> Iterator[Cell]:
    for item in items:
        match item:
            case i.UserMessage():
                yield UserCell(key=f"u{item.id}", ts=ts, text=item.text, item_id=item.id, sender=item.sender)
            case i.AssistantMessage():
                yield AssistantCell(key=item.id, ts=ts, item_id=item.id, pieces=[item.text], done=True)
            case i.Reasoning():
                yield ReasoningCell(key=item.id, ts=ts, item_id=item.id, pieces=[item.text], done=True)
            case i.ToolCall(name="update_plan"):
                # The plan has a cell of its own.
                pass
            case i.ToolCall():
                fields = {"key": f"{item.call_id}@{item.id}", "ts": ts, "call_id": item.call_id}
                call = calls[item.call_id] = make_call_cell(item.name, i.readable_arguments(item), fields)
                yield call
            case i.ToolOutput():
                if (begun := calls.get(item.call_id)) is not None:
                    begun.settle(item.text)
                    begun.done, begun.success = True, item.success
            case i.Summary():
                yield NoticeCell(key=item.id, ts=ts, level="note", text=f"a summary of older items: {item.text}")
