"""Finds what was said in records that have no `user_message` events: those made before there were any.

There the text of a message is only in the items of its conversation. In newer records an event tells it, directly
before or after its item, and nothing is added here.
"""

from __future__ import annotations

from tertulia.protocol.events import Event, TaskStarted
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.items import UserMessage
from tertulia.protocol.message_events import UserMessageEvent
from tertulia.protocol.records import ItemsRecord, ModelRequestRecord


class OlderMessages:
    """Follows a record from its beginning."""

    def __init__(self) -> None:
        self._waiting: dict[ConversationId, list[UserMessage]] = {}
        """Messages that an event may still tell."""
        self._announced: set[ItemId] = set()
        self._started: dict[ConversationId, Event] = {}
        """The event with which the task of a conversation began."""

    def take(self, what: object) -> list[Event]:
        """The messages that no event has told, as the events that would have: they come before this part of the record.

        `what`: an event or a record, in their order.
        """
        match what:
            case Event(data=UserMessageEvent(item_id=item_id), conversation_id=id):
                if not self._drop(id, item_id):
                    self._announced.add(item_id)
                return []
            case Event(data=TaskStarted(), conversation_id=id) if id is not None:
                self._started[id] = what
                return []
            case ItemsRecord(conversation_id=id, items=items):
                texts = [item for item in items if isinstance(item, UserMessage) and not item.injected]
                if texts:
                    self._waiting.setdefault(id, []).extend(item for item in texts if item.id not in self._announced)
                    return []
                return self._flush(id)
            case Event(conversation_id=id) | ModelRequestRecord(conversation_id=id):
                return self._flush(id)
            case _:
                return []

    def _drop(self, conversation_id: ConversationId | None, item_id: ItemId) -> bool:
        waiting = [] if conversation_id is None else self._waiting.get(conversation_id, [])
        found = [item for item in waiting if item.id == item_id]
        for item in found:
            waiting.remove(item)
        return bool(found)

    def _flush(self, conversation_id: ConversationId | None) -> list[Event]:
        waiting = [] if conversation_id is None else self._waiting.pop(conversation_id, [])
        began = None if conversation_id is None else self._started.get(conversation_id)
        # Where no task has begun with them they are items that were copied, and shown as such.
        return [] if began is None else [_message_event(began, item) for item in waiting]


def _message_event(began: Event, item: UserMessage) -> Event:
    delegated = isinstance(began.data, TaskStarted) and began.data.kind == "target"
    data = UserMessageEvent(item.id, item.text, how="delegated" if delegated else "message", sender=item.sender)
    ids = began.conversation_id, began.task_id, began.trace_id, began.span_id
    return Event(began.epoch, None, began.ts, data.type, began.session_id, began.sub_id, *ids, data)
