"""Events for items that have none: those that a fork copied from its original, recorded before it was opened."""

from __future__ import annotations

from collections.abc import Iterator

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol import events as e
from tertulia.protocol import items as i
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, SessionId
from tertulia.protocol.message_events import UserMessageEvent, describe_attachments
from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.record_lines import RecordLine


class CopiedEvents:
    """Makes the events of a record's copied items. They have no number of an event: no client has got them."""

    def __init__(self, session_id: str) -> None:
        self._session_id = SessionId(session_id)
        self._at = Timestamps(SystemClock()).at
        self._names: dict[CallId, str] = {}

    def of(self, line: RecordLine, record: ItemsRecord) -> Iterator[e.Event]:
        """One for each item that a person would be shown."""
        ts, absent = self._at(line.ts), set(line.absent)
        for index, item in enumerate(record.items):
            data = self._data(item, stored=index not in absent)
            if data is not None:
                ids = self._session_id, self._session_id, record.conversation_id, None, None, None
                yield e.Event(0, None, ts, data.type, *ids, data)

    def _data(self, item: i.Item, *, stored: bool) -> e.EventData | None:
        match item:
            case i.UserMessage(injected=True):
                return None
            case i.UserMessage():
                attachments = describe_attachments(item.parts) if stored else ()
                return UserMessageEvent(
                    item.id, item.text if stored else "", attachments=attachments, sender=item.sender
                )
            case i.AssistantMessage():
                return e.AgentMessage(item.text if stored else "", item.id, item.phase)
            case i.Reasoning():
                return e.AgentReasoning(item.text if stored else "", item.id)
            case i.ToolCall():
                self._names[item.call_id] = item.name
                return t.ToolCallBegin(item.call_id, item.name, i.readable_arguments(item) if stored else None)
            case i.ToolOutput():
                name, text = self._names.get(item.call_id, ""), item.text if stored else ""
                return t.ToolCallEnd(item.call_id, name, item.success, text, truncated=False, duration_ms=0)
            case i.Summary():
                return e.BackgroundEvent(f"a summary of older items: {item.text if stored else ''}")
