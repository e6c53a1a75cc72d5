"""Events as a session would tell them, without a session."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tertulia.protocol.events import Event, EventData, SessionConfigured
from tertulia.protocol.ids import ConversationId, SessionId, TaskId

SESSION, ROOT, CHILD = SessionId("session"), ConversationId("root-id"), ConversationId("child-id")
CONFIGURED = SessionConfigured(ROOT, "1", "0", "scripted/test", {})


class EventMaker:
    """Numbers durable events, as the bus does."""

    def __init__(self) -> None:
        self._seqs: Iterator[int] = count(1)

    def __call__(self, data: EventData, conversation: ConversationId | None = ROOT, task: str | None = "task") -> Event:
        """The event, in its envelope."""
        seq = next(self._seqs) if data.durable else None
        task_id = None if task is None else TaskId(task)
        return Event(
            0, seq, "2026-01-01T00:00:00.000Z", data.type, SESSION, "sub", conversation, task_id, None, None, data
        )
