"""Tells of a patch once: with the question about it, or when it is applied."""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.cli.output.work_lines import Line
from tertulia.protocol.events import Event
from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, PatchApplyBegin, PatchApplyEnd


class PatchLines:
    """Holds the lines of each patch until it has been applied."""

    def __init__(self) -> None:
        self._held: dict[tuple[ConversationId | None, CallId | None], list[Line]] = {}

    def take(self, event: Event, lines: Sequence[Line]) -> list[Line]:
        """The lines that this event adds; `lines`: what is to be told of it otherwise."""
        match event.data:
            case PatchApplyBegin(call_id=call_id):
                self._held[event.conversation_id, call_id] = list(lines)
            case ApprovalRequest(call_id=call_id, files=files) if (event.conversation_id, call_id) in self._held:
                # The question shows all of it.
                counts = [f"{file.path}, {file.added} added, {file.removed} removed" for file in files]
                self._held[event.conversation_id, call_id] = [(("applied ", "green"), count) for count in counts]
            case PatchApplyEnd(call_id=call_id, success=success):
                held = self._held.pop((event.conversation_id, call_id), [])
                return [*(held if success else []), *lines]
            case _:
                pass
        return []
