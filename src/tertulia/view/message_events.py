"""Folds the events of messages: what persons and other conversations say, and what of it waits."""

from __future__ import annotations

from collections.abc import Mapping

from tertulia.protocol import events as e
from tertulia.protocol import message_events as m
from tertulia.protocol.ids import ItemId, TaskId
from tertulia.view.board_state import NOTHING, BoardState, Changes, add_cell, add_notice
from tertulia.view.cells import UserCell
from tertulia.view.conversation_view import ConversationView, QueuedMessage
from tertulia.view.fold import Fold


def _written(board: BoardState, event: e.Event, data: m.UserMessageEvent) -> Changes:
    view = board.view(event)
    if data.how == "queued":
        _leave_queue(view, data.item_id)
    cell = UserCell(
        # A message of an older record has no number of its own.
        key=f"u{data.item_id if event.seq is None else event.seq}",
        ts=event.ts,
        seq=event.seq,
        text=data.text,
        item_id=data.item_id,
        how=data.how,
        attachments=data.attachments,
        sender=data.sender,
        caller_id=data.caller_id,
    )
    return add_cell(view, cell, worth_reading=False, tree=True)


def _queued(board: BoardState, event: e.Event, data: m.MessageQueued) -> Changes:
    view = board.view(event)
    view.queued.append(QueuedMessage(event.task_id, data.item_id, data.preview, event.ts, data.attachments))
    return Changes(view.id, tree=True)


def _taken_back(board: BoardState, event: e.Event, data: m.MessageTakenBack) -> Changes:
    view = board.view(event)
    _leave_queue(view, data.item_id)
    view.taken_back = event.task_id
    return Changes(view.id, tree=True)


def _leave_queue(view: ConversationView, item_id: ItemId) -> None:
    view.queued = [message for message in view.queued if message.item_id != item_id]


def end_before_beginning(view: ConversationView, event: e.Event) -> Changes | None:
    """What the end of a task means that never began; None where it is the end of another one."""
    task_id: TaskId | None = event.task_id
    if task_id is not None and view.taken_back == task_id:
        view.taken_back = None
        return Changes(view.id, tree=True)
    dropped = [message for message in view.queued if message.task_id == task_id]
    if dropped:
        view.queued = [message for message in view.queued if message.task_id != task_id]
        return add_notice(view, event, f"a message that waited was not begun: {dropped[0].preview}")
    # A reader that has not seen a task begin sees at least that it ended.
    return None if view.task_id is None or task_id == view.task_id else NOTHING


def _widened(board: BoardState, event: e.Event, data: m.RightsWidened) -> Changes:
    before, after = (_setting(value) for value in (data.before, data.after))
    text = f"{data.field.replace('_', ' ')} was widened from {before} to {after}, at the {data.by}"
    return add_notice(board.view(event), event, text, "warning", "rights_widened")


def _setting(value: str | bool | dict[str, str | bool]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_setting(part)}" for name, part in value.items())
    return ("on" if value else "off") if isinstance(value, bool) else value


FOLDS: Mapping[type[e.EventData], Fold] = {
    m.UserMessageEvent: _written,
    m.MessageQueued: _queued,
    m.MessageTakenBack: _taken_back,
    m.RightsWidened: _widened,
}
