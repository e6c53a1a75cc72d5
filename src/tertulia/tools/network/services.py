"""What all commands of a session that reach hosts by name share. Nothing of the proxy is loaded before one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId

if TYPE_CHECKING:
    from tertulia.sandbox.proxy.gate import NetworkUse
    from tertulia.sandbox.proxy.rules_gate import Start


class NetworkServices:
    """What the gates of a session share: what each conversation has used, and how work is started."""

    def __init__(self, start: Start, publish: Callable[[ConversationId, EventData], object]) -> None:
        """`publish` tells of what belongs to no task any more."""
        self.start = start
        self.publish = publish
        self._uses: dict[ConversationId, NetworkUse] = {}

    def use(self, conversation: ConversationId) -> NetworkUse:
        """What this conversation has used so far."""
        from tertulia.sandbox.proxy.gate import NetworkUse

        return self._uses.setdefault(conversation, NetworkUse())

    async def forget(self, conversation: ConversationId) -> None:
        """Count no longer what a closed conversation used."""
        self._uses.pop(conversation, None)

    async def close(self) -> None:
        """Count nothing any more: the session is closed."""
        self._uses.clear()
