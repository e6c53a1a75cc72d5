"""What the panel of approvals tells the application."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from textual.message import Message

from tertulia.protocol.ids import ConversationId


@dataclass
class ApprovalAnswered(Message):
    """The person has answered an approval."""

    approval_id: str
    decision: Literal["allow", "deny"]
    _: KW_ONLY
    scope: str | None = None
    ttl_s: float | None = None
    message: str | None = None


@dataclass
class ElicitationAnswered(Message):
    """The person has answered what an MCP server asks."""

    elicitation_id: str
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None


@dataclass
class PlanAnswered(Message):
    """The person has said whether a plan is to be carried out."""

    conversation_id: ConversationId
    _: KW_ONLY
    carry_out: bool
    message: str | None = None


@dataclass
class WholeTextRequested(Message):
    """A question has more text than its event; `take_whole_text` wants all of it."""

    approval_id: str


@dataclass
class TypedThrough(Message):
    """Text that the person typed while the panel had taken the focus by itself: it goes to the composer."""

    text: str


class FocusReleased(Message):
    """The panel no longer needs the focus, which goes back to the composer."""
