"""Rings and notifies the desktop (OSC 9) when the person is needed and the terminal is not in view.

Only texts of the program are sent, never those of a model: they go to the terminal unescaped.
"""

from __future__ import annotations

from collections.abc import Callable

from tertulia.protocol.events import ErrorEvent, Event, TaskComplete, TurnAborted
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest


def notification(event: Event, root_id: ConversationId | None) -> str | None:
    """The notification for an event; None for most."""
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


class DesktopNotifier:
    """Notifies while the terminal is not in view, where the terminal reports that."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write`: sends a text to the terminal unchanged."""
        self._write = write
        self.in_view = True
        """Whether the terminal has the focus. One that does not report it counts as in view."""

    def take(self, event: Event, root_id: ConversationId | None) -> None:
        """Ring and notify, if the event needs the person and the terminal is not in view."""
        if self.in_view:
            return
        text = notification(event, root_id)
        if text is not None:
            self._write(f"\a\x1b]9;{text}\x07")
