"""A session in which much happens: many conversations that are at work, and events at a steady rate."""

from __future__ import annotations

import asyncio
import time
from itertools import count

from tertulia.events.bus import EventScope
from tertulia.protocol.events import AgentMessage, AgentMessageDelta, TaskStarted
from tertulia.protocol.ids import ItemId, TaskId
from tertulia.session.host import Host
from tertulia.session.session import Session

_PIECES = 98
"""Of a message, before the whole of it is published."""
_BURSTS_S = 20


class Publisher:
    """Publishes what models say: every second event is of the root, the others of all conversations in turn."""

    def __init__(self, session: Session) -> None:
        self._bus = session.parts.bus
        self._scopes = [
            EventScope(conversation.id, conversation.id, TaskId(f"t-{conversation.id}"))
            for conversation in session.conversations()
        ]
        self._numbers = count()
        self._messages: dict[int, tuple[int, list[str]]] = {}
        """Of each conversation: the number of the message that it writes, and the pieces of it so far."""
        for scope in self._scopes:
            self._bus.publish(TaskStarted(kind="user", input_preview="work"), scope)

    async def publish(self, events_s: int, seconds: float) -> None:
        """So many a second, for so long."""
        begun = time.monotonic()
        for burst in range(round(_BURSTS_S * seconds)):
            for _ in range(events_s // _BURSTS_S):
                self._publish_one(next(self._numbers))
            await asyncio.sleep(max(0.0, begun + (burst + 1) / _BURSTS_S - time.monotonic()))

    def _publish_one(self, number: int) -> None:
        of = 0 if number % 2 else number // 2 % len(self._scopes)
        message, pieces = self._messages.get(of, (0, []))
        item, scope = ItemId(f"{of}-{message}"), self._scopes[of]
        if len(pieces) == _PIECES:
            self._bus.publish(AgentMessage(text="".join(pieces), item_id=item), scope)
            self._messages[of] = message + 1, []
            return
        piece = f"word {number:05} "
        delta = AgentMessageDelta(text=piece, item_id=item, offset=len(pieces) * len(piece))
        self._bus.publish_passing(delta, scope)
        self._messages[of] = message, [*pieces, piece]


async def make_busy_session(host: Host, conversations: int) -> tuple[Session, Publisher]:
    """A session with so many conversations."""
    session = await host.start()
    for number in range(1, conversations):
        await session.open(title=f"worker {number}")
    return session, Publisher(session)
