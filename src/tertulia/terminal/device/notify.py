"""Rings and tells the desktop (OSC 9) when something needs the person and the terminal is not in view.

What is told are words of ours, never those of a model: they go to the terminal as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from tertulia.protocol.events import ErrorEvent, Event, TaskComplete, TurnAborted
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest


def notification(event: Event, root_id: ConversationId | None) -> str | None:
    """What a person who looks elsewhere is told of an event; None for most."""
    match event.data:
        case ApprovalRequest() | ElicitationRequest():
            return "Tertulia: a conversation asks you"
        case TaskComplete(status="completed") if event.conversation_id == root_id:
            return "Tertulia: done"
        case TaskComplete() | ErrorEvent() if event.conversation_id == root_id:
            return "Tertulia: failed"
        case TurnAborted(reason="timeout" | "limit" | "crash") if event.conversation_id == root_id:
            return "Tertulia: stopped before the end"
        case _:
            return None


class Notifier:
    """Notifies while the terminal is not in view, as far as it tells that."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write`: to the terminal, as it is."""
        self._write = write
        self.in_view = True
        """Whether the terminal has the keys of the person. One that does not tell counts as in view."""

    def take(self, event: Event, root_id: ConversationId | None) -> None:
        """An event has come: ring and tell, where that is due."""
        if self.in_view:
            return
        text = notification(event, root_id)
        if text is not None:
            self._write(f"\a\x1b]9;{text}\x07")
