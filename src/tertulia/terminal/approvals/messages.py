"""What the panel of approvals tells the application."""

from __future__ import annotations

from typing import Any, Literal

from textual.message import Message

from tertulia.protocol.ids import ConversationId


class ApprovalAnswered(Message):
    """The person has answered an approval."""

    def __init__(
        self, approval_id: str, decision: Literal["allow", "deny"], *, scope: str | None = None,
        ttl_s: float | None = None, message: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.approval_id = approval_id
        self.decision = decision
        self.scope = scope
        self.ttl_s = ttl_s
        self.message = message


class ElicitationAnswered(Message):
    """The person has answered what an MCP server asks."""

    def __init__(
        self, elicitation_id: str, action: Literal["accept", "decline"], content: dict[str, Any] | None
    ) -> None:
        super().__init__()
        self.elicitation_id = elicitation_id
        self.action = action
        self.content = content


class PlanAnswered(Message):
    """The person has said whether a plan is to be carried out."""

    def __init__(self, conversation_id: ConversationId, *, carry_out: bool, message: str | None = None) -> None:
        super().__init__()
        self.conversation_id = conversation_id
        self.carry_out = carry_out
        self.message = message


class WholeTextRequested(Message):
    """A question has more text than its event; `take_whole_text` wants all of it."""

    def __init__(self, approval_id: str) -> None:
        super().__init__()
        self.approval_id = approval_id


class TypedThrough(Message):
    """Text that the person typed while the panel had taken the focus by itself: it goes to the composer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class FocusReleased(Message):
    """The panel no longer needs the focus, which goes back to the composer."""
