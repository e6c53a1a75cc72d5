"""A task that a crash cut, as its record left it: what is known, and what is not, when it goes on under its own id."""

from __future__ import annotations

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.protocol.ids import CallId
from tertulia.protocol.items import NO_USAGE, ToolOutput, Usage

UNKNOWN = "unknown: it may have happened; look before you repeat it"
"""The output of a call that had begun when the process died, and whose tool does not say that it may run twice."""


class CutTask(msgspec.Struct, frozen=True):
    """How far a task had come."""

    conversation: ConversationState
    """It may be closed before the task goes on; its calls are answered all the same."""
    elapsed_s: float = 0.0
    """How long ago it began: its time limit counts from there."""
    begun: frozenset[CallId] = frozenset()
    """Calls that were told to have begun, and have no end."""
    asking: frozenset[CallId] = frozenset()
    """Those of them that waited for a person's answer, so that nothing of them has run."""
    outputs: tuple[ToolOutput, ...] = ()
    """Of calls that have ended; they join the history in the order of the calls."""
    last_text: str | None = None
    """What the model said last in this task."""
    answered: bool = False
    """Whether that was a whole answer, without calls."""
    announced: bool = True
    """Whether clients were told what the task was asked."""
    repaired: bool = False
    """Whether the model was asked to repair its answer."""
    spent: Usage = NO_USAGE
