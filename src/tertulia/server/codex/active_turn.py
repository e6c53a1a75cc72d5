"""The turn that a thread is in, and how what happens in it is told to a Codex client."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tertulia.protocol.events import Event
from tertulia.protocol.ids import SessionId, TaskId
from tertulia.server.codex.items import CodexItem

CodexNotification = tuple[str, dict[str, Any]]
"""A notification: its method and its parameters."""


class ActiveTurn:
    """Where a thread stands: in a turn or in none, waiting for a person or not."""

    __slots__ = ("thread_id", "turn_id", "waiting")

    def __init__(self, thread_id: SessionId) -> None:
        self.thread_id = thread_id
        self.turn_id: TaskId | None = None
        self.waiting = False
        """Somebody was asked, and has not answered."""

    def here(self, method: str, **told: Any) -> CodexNotification:
        """Something that belongs to the turn."""
        return method, {"threadId": self.thread_id, "turnId": self.turn_id or "", **told}

    def started(self, event: Event, item: CodexItem) -> CodexNotification:
        """An item begins."""
        return self.here("item/started", item=item, startedAtMs=event_time_ms(event))

    def completed(self, event: Event, item: CodexItem) -> CodexNotification:
        """An item has ended."""
        return self.here("item/completed", item=item, completedAtMs=event_time_ms(event))

    def status(self) -> CodexNotification:
        """What the thread does."""
        return "thread/status/changed", {"threadId": self.thread_id, "status": self.state()}

    def state(self) -> dict[str, Any]:
        """The same, as a thread has it."""
        if self.turn_id is None:
            return {"type": "idle"}
        return {"type": "active", "activeFlags": ["waitingOnApproval"] if self.waiting else []}

    def warning(self, message: str) -> CodexNotification:
        """Something that a person should know."""
        return "warning", {"threadId": self.thread_id, "message": message}


def turn_object(
    id: str, status: str = "inProgress", *, began_ms: int | None = None, ended_ms: int | None = None
) -> dict[str, Any]:
    """A turn, without its items."""
    return {
        "id": id,
        "items": [],
        "itemsView": "notLoaded",
        "status": status,
        "error": None,
        "startedAt": None if began_ms is None else began_ms // 1000,
        "completedAt": None if ended_ms is None else ended_ms // 1000,
        "durationMs": None if began_ms is None or ended_ms is None else ended_ms - began_ms,
    }


def turn_error(message: str) -> dict[str, Any]:
    """The error of a turn."""
    return {"message": message, "codexErrorInfo": "other", "additionalDetails": None}


def event_time_ms(event: Event) -> int:
    """When it happened, since 1970."""
    return round(datetime.fromisoformat(event.ts).timestamp() * 1000)
