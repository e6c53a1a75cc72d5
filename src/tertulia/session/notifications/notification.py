"""What is told of a session: the ends of what clients submitted, and questions that wait for a person.

A task that another conversation asked for is not told by itself: it belongs to the submission that caused it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.protocol.events import ErrorEvent, Event, TaskComplete, TaskStarted, TurnAborted
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ApprovalRequest, ElicitationRequest
from tertulia.session.notifications.notify_table import Occasion

_MOST_CHARACTERS = 4_000
"""Of a text: a notification is read at a glance, and an argument of a program is bounded by the kernel."""
_CODEX_TYPES: dict[Occasion, str] = {
    "complete": "agent-turn-complete",
    "failure": "agent-turn-failed",
    "approval": "approval-requested",
}

TYPES = frozenset(
    kind.type for kind in (TaskStarted, TaskComplete, TurnAborted, ErrorEvent, ApprovalRequest, ElicitationRequest)
)
"""The types of the events that a notification can come of."""


class Notification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One notification. `title`, `text` and `error` are texts of the conversation; the rest never is."""

    type: Occasion
    session_id: str
    conversation_id: str | None
    task_id: str | None
    time: str
    cwd: str
    code: str | None = None
    """The code of the failure, such as `timeout`."""
    kind: str | None = None
    """What a person is asked for: the kind of an approval, or `elicitation`."""
    approval_id: str | None = None
    title: str | None = None
    text: str | None = None
    error: str | None = None

    def with_texts(self, change: Callable[[str], str | None]) -> Notification:
        """The same with its texts changed, and bounded."""
        texts = {name: getattr(self, name) for name in ("title", "text", "error")}
        changed = {name: None if text is None else change(text) for name, text in texts.items()}
        return replace(self, **{name: text and text[:_MOST_CHARACTERS] for name, text in changed.items()})

    def json(self, *, as_codex: bool) -> bytes:
        """As one line of JSON, in our form or in that of Codex."""
        return msgspec.json.encode(self._codex_form() if as_codex else self)

    def _codex_form(self) -> dict[str, Any]:
        form: dict[str, Any] = {
            "type": _CODEX_TYPES[self.type],
            "thread-id": self.session_id,
            "turn-id": self.task_id,
            "cwd": self.cwd,
            "input-messages": [],
            "last-assistant-message": self.text,
        }
        more = {"title": self.title, "error": self.error, "code": self.code, "kind": self.kind}
        return {**form, **{name: value for name, value in more.items() if value is not None}}


class NotificationFold:
    """Makes notifications of a session's events."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._open: dict[ConversationId, ErrorEvent | None] = {}
        """Conversations with a submission that has not ended, and the last error of it."""

    def take(self, event: Event) -> Notification | None:
        """The notification that this event is a reason for, if any."""
        of, data = event.conversation_id, event.data
        if of is None:
            return None
        match data:
            case TaskStarted(kind="user"):
                self._open[of] = None
            case ErrorEvent() if of in self._open:
                self._open[of] = data
            case TaskComplete() | TurnAborted() if of in self._open and not _goes_on(data):
                return self._ending(event, self._open.pop(of))
            case ApprovalRequest(approval_id=approval_id, kind=kind, title=title):
                return self._note("approval", event, kind=kind, approval_id=approval_id, title=title)
            case ElicitationRequest(elicitation_id=approval_id, message=message):
                return self._note("approval", event, kind="elicitation", approval_id=approval_id, title=message)
            case _:
                pass
        return None

    def _ending(self, event: Event, error: ErrorEvent | None) -> Notification | None:
        match event.data:
            case TaskComplete(status="completed", last_assistant_message=text):
                return self._note("complete", event, text=text)
            case TaskComplete():
                code, message = ("failed", None) if error is None else (error.code, error.message)
                return self._note("failure", event, code=code, error=message)
            case TurnAborted(reason="timeout" | "limit" | "crash" as reason):
                return self._note("failure", event, code=reason)
            case _:
                # A person or the program itself has stopped it, and knows.
                return None

    def _note(self, type: Occasion, event: Event, **parts: str | None) -> Notification:
        return Notification(
            type=type,
            session_id=event.session_id,
            conversation_id=event.conversation_id,
            task_id=event.task_id,
            time=event.ts,
            cwd=self._cwd,
            **parts,
        )


def _goes_on(data: TaskComplete | TurnAborted) -> bool:
    """Whether a continuation follows: the task was replaced by a conversation tool."""
    return isinstance(data, TurnAborted) and data.reason == "replaced"
