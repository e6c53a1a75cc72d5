"""Events for messages of records that were made before `user_message` was an event: their items have the texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol.events import Event, TaskStarted
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.protocol.items import UserMessage
from tertulia.protocol.message_events import UserMessageEvent, describe_attachments
from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.record_lines import RecordLine


class UntoldMessages:
    """Makes the events of an excerpt. They have no number: no client has got them."""

    def __init__(self, session_id: str, untold: Collection[int], lines: Sequence[RecordLine]) -> None:
        """`untold`: the records with messages that no event tells. `lines`: those of the excerpt, in order."""
        self._session_id = SessionId(session_id)
        self._at = Timestamps(SystemClock()).at
        self._began = _beginnings(untold, lines) if untold else {}
        """The tasks that took the messages, as far as their beginning is in the excerpt."""

    def events(self, line: RecordLine) -> list[Event]:
        """The messages of this line; none where events of their own tell them."""
        record = line.what
        if line.n not in self._began or not isinstance(record, ItemsRecord):
            return []
        absent = set(line.absent)
        return [
            self._event(line, record.conversation_id, item, is_stored=index not in absent)
            for index, item in enumerate(record.items)
            if isinstance(item, UserMessage) and not item.injected
        ]

    def _event(self, line: RecordLine, conversation_id: ConversationId, item: UserMessage, *, is_stored: bool) -> Event:
        began = self._began[line.n]
        data = UserMessageEvent(
            item.id,
            item.text if is_stored else "",
            attachments=describe_attachments(item.parts) if is_stored else (),
            how="delegated" if _is_delegated(began) else "message",
            sender=item.sender,
        )
        ts, session_id = self._at(line.ts), self._session_id
        if began is None:
            return Event(0, None, ts, data.type, session_id, session_id, conversation_id, None, None, None, data)
        ids = began.sub_id, conversation_id, began.task_id, began.trace_id, began.span_id
        return Event(began.epoch, None, ts, data.type, session_id, *ids, data)


def _is_delegated(began: Event | None) -> bool:
    return began is not None and isinstance(began.data, TaskStarted) and began.data.kind == "target"


def _beginnings(untold: Collection[int], lines: Sequence[RecordLine]) -> dict[int, Event | None]:
    """The task of each message: the one that begins directly after it, else the one that runs."""
    running: dict[ConversationId | None, Event] = {}
    waiting: dict[ConversationId | None, list[int]] = {}
    found: dict[int, Event | None] = {}
    for line in lines:
        if isinstance(record := line.what, ItemsRecord) and line.n in untold:
            found[line.n] = running.get(record.conversation_id)
            waiting.setdefault(record.conversation_id, []).append(line.n)
        elif isinstance(event := line.what, Event):
            messages = waiting.pop(event.conversation_id, [])
            if isinstance(event.data, TaskStarted):
                running[event.conversation_id] = event
                found |= dict.fromkeys(messages, event)
    return found
