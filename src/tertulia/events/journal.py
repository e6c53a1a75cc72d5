"""The port through which history and durable events are written down before anybody hears of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item
from tertulia.protocol.storage import StoragePolicy


class Journal(Protocol):
    """Implemented by the rollout; `NoJournal` where nothing is kept.

    Contract of `write`: called in order of `seq`, on the loop's thread; never blocks or raises. It returns None
    when the event is already as durable as it will be, else a future that completes in the same order. When
    a future fails, so do all those written after it and not yet completed, and events written after it that
    were answered with None are taken back too: all these numbers are given out again, so that what was
    acknowledged has no gaps.

    Contract of `keep`: called when items join a history; never blocks or raises. They are committed with, or
    before, the next event written; where they cannot be, that event's write fails.
    """

    def write(self, event: Event) -> asyncio.Future[None] | None:
        """Begin to commit one durable event."""
        ...

    def keep(self, conversation: ConversationId, items: Sequence[Item], policy: StoragePolicy) -> None:
        """Take over items of a conversation, to be stored by its policy or their own stricter one."""
        ...


class NoJournal:
    """Keeps nothing."""

    __slots__ = ()

    def write(self, event: Event) -> None:
        """Nothing to wait for."""

    def keep(self, conversation: ConversationId, items: Sequence[Item], policy: StoragePolicy) -> None:
        """Nothing to keep."""
