"""The answer of the operation `rights/explain`."""

from __future__ import annotations

from typing import Any, Literal

from tertulia.protocol.ids import ConversationId
from tertulia.session.answers import Answer


class ExplainedRight(Answer, frozen=True, omit_defaults=True):
    """One right of a conversation, and what set it."""

    field: str
    """The name of the input that sets it."""
    value: Any
    set_by: str
    """`session`, `conversation`, `ancestor:ID`, `agent:NAME` or `chain`."""
    source: str | None = None
    """Where the session has it from: `default`, a file and its line, a flag, `-c`, or `program`."""
    asked: Any = None
    """What was asked for, where less was given."""
    now: Any = None
    """What holds for the task that runs, where a conversation that waits for it may do less."""


class ExplainedAction(Answer, frozen=True, omit_defaults=True):
    """What would happen to a command, a call or a connection here and now."""

    verdict: Literal["run", "ask", "deny"]
    because: str
    set_by: str
    """As for a right: where the approval policy comes from that decides."""
    sandbox: str | None = None
    """How a command would be confined."""


class RightsAnswer(Answer, frozen=True, omit_defaults=True):
    """`rights/explain`: all rights of a conversation; of a command or a tool what would happen to it."""

    conversation_id: ConversationId
    rights: list[ExplainedRight]
    action: ExplainedAction | None = None
