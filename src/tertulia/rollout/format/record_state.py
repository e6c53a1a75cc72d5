"""The state of a record that a recorder needs to continue it, collected while reading."""

from __future__ import annotations

import msgspec

from tertulia.protocol.ids import CallId, ConversationId, SessionId
from tertulia.protocol.items import Item, ToolCall, ToolOutput
from tertulia.protocol.storage import StoragePolicy

_ANSWERED = 256


class ConversationRecordState(msgspec.Struct):
    """One conversation of the record."""

    n: int
    """The row that has its id."""
    storage: StoragePolicy
    """The storage policy of its last terms."""
    calls: dict[CallId, int] = msgspec.field(default_factory=dict[CallId, int])
    """The rows of calls without an output, by the id they are read back with."""
    answered: dict[CallId, int] = msgspec.field(default_factory=dict[CallId, int])
    """Likewise of the last calls that have one, and of whose end nothing was read."""
    closed: bool = False

    def note(self, item: Item, n: int) -> None:
        """An item joined its history."""
        if isinstance(item, ToolCall):
            self.calls[item.call_id] = n
        elif isinstance(item, ToolOutput) and (call := self.calls.pop(item.call_id, None)) is not None:
            self.answered[item.call_id] = call
            if len(self.answered) > _ANSWERED:
                del self.answered[next(iter(self.answered))]


class RecordState(msgspec.Struct):
    """Made by reading; a recorder begins with it."""

    last_n: int = 0
    session_id: SessionId | None = None
    epoch: int = -1
    """Of the last owner that wrote an event; -1 if none did."""
    last_seq: int = 0
    """The last number of that epoch."""
    conversations: dict[ConversationId, ConversationRecordState] = msgspec.field(
        default_factory=dict[ConversationId, ConversationRecordState]
    )
