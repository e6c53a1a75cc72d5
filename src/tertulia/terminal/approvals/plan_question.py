"""The question that plan mode ends with: whether the plan is to be carried out."""

from __future__ import annotations

import msgspec

from tertulia.protocol.ids import ConversationId


class PlanQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that waits for a yes before anything is written."""

    conversation_id: ConversationId
    text: str
    """The plan, as the model wrote it."""

    @property
    def key(self) -> str:
        """What the panel knows it by; a conversation has one at a time."""
        return f"plan:{self.conversation_id}"
