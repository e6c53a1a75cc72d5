"""What `session/board` answers. Not the board itself: only sessions that are asked for one load it."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.ids import SessionId
from tertulia.session.answers import Answer


class BoardAnswer(Answer, frozen=True):
    """`session/board`: what a screen shows of the session, up to an event."""

    session_id: SessionId
    epoch: int
    seq: int
    """The last event that is in it: follow the events after this one."""
    board: dict[str, Any]
    """Conversations with their cells, questions, servers and totals: `BoardState` of `tertulia schema`."""
