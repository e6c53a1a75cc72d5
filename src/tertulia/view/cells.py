"""The cells of a transcript: a closed union of what a screen shows one below the other.

A cell is changed in place by later events; `revision` grows each time, so a screen knows what to draw again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.items import Usage
from tertulia.protocol.message_events import Attachment, MessageWay
from tertulia.protocol.tool_events import (
    ApprovalRequest,
    ApprovalResolved,
    Decider,
    ElicitationRequest,
    PatchChange,
    PlanStep,
)

MAX_OUTPUT = 256 * 1024
"""The most characters of a running command's output; the newest are kept. The event of its end has all of it."""


class BaseCell(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What the cells of all kinds have."""

    key: str
    """Unique in its conversation, the same for every reader of the same events."""
    ts: str
    seq: int | None = None
    """Of the durable event that it began with; None while only deltas have come."""
    revision: int = 0


class GrowingCell(BaseCell, omit_defaults=True, kw_only=True):
    """A cell whose text comes in pieces."""

    pieces: list[str] = msgspec.field(default_factory=list)
    """The text as it came; `text` joins it."""
    missing: int = 0
    """Characters that never came, because this reader was too slow; the whole text follows with the durable event."""
    length: int = 0
    """Characters of the stream so far, the missing ones included: the next piece begins there."""

    @property
    def text(self) -> str:
        """The whole text, joined once."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def grow(self, piece: str, offset: int) -> bool:
        """Append a piece that begins at this offset of the stream; False where all of it is known already."""
        if offset < self.length:
            piece = piece[self.length - offset :]
            offset = self.length
        if not piece:
            return False
        self.missing += offset - self.length
        self.pieces.append(piece)
        self.length = offset + len(piece)
        self.revision += 1
        return True

    def settle(self, text: str) -> None:
        """Take the whole text in place of the pieces."""
        self.pieces = [text]
        self.length = len(text)
        self.missing = 0
        self.revision += 1


class UserCell(BaseCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="user_text"):
    """What a person or another conversation wrote."""

    text: str
    item_id: ItemId
    how: MessageWay = "message"
    attachments: tuple[Attachment, ...] = ()
    sender: str | None = None
    """The name of the person, where there are several."""
    caller_id: ConversationId | None = None
    """The conversation that wrote it."""

    @property
    def delegated(self) -> bool:
        """Another conversation wrote it, no person."""
        return self.how == "delegated"


class AssistantCell(GrowingCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="assistant_text"):
    """An answer of the model."""

    item_id: ItemId
    done: bool = False


class ReasoningCell(GrowingCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="reasoning"):
    """What the model thought, as far as its provider shows it."""

    item_id: ItemId
    done: bool = False


class BaseCallCell(GrowingCell, omit_defaults=True, kw_only=True):
    """What all calls of a model have, whatever runs them. The text is the output, as far as it has come."""

    call_id: CallId
    name: str
    arguments: Any = None
    done: bool = False
    """Whether the call has its output."""
    success: bool | None = None
    """None while that is not known."""
    truncated: bool = False
    duration_ms: int | None = None
    allowed_by: Decider | None = None
    lost: bool = False
    """Its process ended before it was done."""


class ToolCallCell(BaseCallCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="tool_call"):
    """A call of a tool, ours or an MCP server's."""

    server: str | None = None
    progress: float | None = None
    total: float | None = None
    message: str | None = None
    """The server's own words about its progress."""


class CommandCell(BaseCallCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="command"):
    """A command and its output, which grows while it runs."""

    command: list[str]
    cwd: str
    sandbox: str | None = None
    exit_code: int | None = None
    cut: int = 0
    """Characters at the beginning of the output that are no longer kept."""

    def grow(self, piece: str, offset: int) -> bool:
        """As for other texts, but only the end of a long output is kept."""
        grown = super().grow(piece, offset)
        if grown and self.length - self.missing - self.cut > 2 * MAX_OUTPUT:
            text = self.text
            self.cut += len(text) - MAX_OUTPUT
            self.pieces = [text[-MAX_OUTPUT:]]
        return grown


class PatchCell(BaseCallCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="patch"):
    """A change of files, applied whole or not at all."""

    changes: list[PatchChange]
    diff: str | None = None
    """What becomes of the files, where the arguments of the call do not say it."""


class HandoffCell(BaseCallCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="handoff"):
    """A call that asks another conversation and waits for its answer."""

    target_id: ConversationId | None = None
    """None until the conversation is open."""
    title: str | None = None


class PlanCell(BaseCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="plan"):
    """The plan of the model; the newest one for a message replaces the one before."""

    steps: list[PlanStep]
    explanation: str | None = None
    done: bool = False
    """Another message has begun since, which has a plan of its own."""


class ApprovalCell(BaseCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="approval_question"):
    """A person is asked whether something may run."""

    request: ApprovalRequest
    answer: ApprovalResolved | None = None


class ElicitationCell(BaseCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="elicitation"):
    """An MCP server asks a person for something."""

    request: ElicitationRequest
    action: Literal["accept", "decline", "cancel"] | None = None


class NoticeCell(BaseCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="notice"):
    """A sentence of ours about the conversation."""

    level: Literal["note", "warning", "error"]
    text: str
    code: str | None = None


class TaskEndCell(BaseCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="task_end"):
    """A task has ended and its conversation waits for nothing."""

    status: Literal["completed", "failed", "replaced", "interrupted", "timeout", "shutdown", "crash", "limit"]
    usage: Usage | None = None


class GapCell(BaseCell, omit_defaults=True, kw_only=True, tag_field="kind", tag="gap"):
    """Durable events that this reader was too slow for, and that cannot be had any more."""

    from_seq: int
    to_seq: int


Cell = (
    UserCell
    | AssistantCell
    | ReasoningCell
    | ToolCallCell
    | CommandCell
    | PatchCell
    | HandoffCell
    | PlanCell
    | ApprovalCell
    | ElicitationCell
    | NoticeCell
    | TaskEndCell
    | GapCell
)
"""One entry of a transcript: exactly one of these."""

Call = ToolCallCell | CommandCell | PatchCell | HandoffCell
Question = ApprovalCell | ElicitationCell
