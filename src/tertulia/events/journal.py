"""The interface of a journal, which commits events and records before the bus delivers them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tertulia.protocol.events import Event
from tertulia.protocol.records import Record
from tertulia.protocol.storage import StoragePolicy


class Journal(Protocol):
    """Implemented by the rollout; `NoJournal` where nothing is kept.

    Contract of `write`: called in order of `seq`, on the loop's thread; never blocks or raises. It returns None
    when the event is already as durable as it will be, else a future that completes in the same order. When
    a future fails, so do all those written after it and not yet completed, and events written after it that
    were answered with None are taken back too: all these numbers are given out again, so that what was
    acknowledged has no gaps.

    Contract of `keep`: called when it happens; never blocks or raises. A record is committed with, or before, the
    next event written; where it cannot be, that event's write fails, and the record is tried again with the next.

    Contract of `watch`: what it is given is called when futures have completed, all that did at once, on the loop's
    thread; perhaps within `hurry`, `settle` or `close`, never within `write` or `keep`. Those that were complete when
    `write` returned them are not told of. The futures say the same a turn of the loop later.
    """

    def write(self, event: Event, storage: StoragePolicy | None = None) -> asyncio.Future[None] | None:
        """Begin to commit one durable event, by its conversation's policy or the stricter one given."""
        ...

    def keep(self, record: Record) -> None:
        """Take over what has to be remembered besides events, each by its own strictest policy."""
        ...

    def watch(self, settled: Callable[[], None]) -> bool:
        """Have `settled` called each time futures have completed, in the same turn of the loop.

        Returns:
            False if it will not be called: then the futures' own callbacks are needed.
        """
        ...

    def hurry(self) -> None:
        """Commit now what was written so far: a caller waits. Otherwise a journal may wait a moment for more."""
        ...

    async def settle(self) -> None:
        """Return when all that was kept so far is committed; raises the error if it could not be."""
        ...

    async def close(self) -> None:
        """Commit what is left and let go. Nothing is written after it. Idempotent.

        Raises a StorageError where all that was committed is not there any more, and nothing else.
        """
        ...


class NoJournal:
    """A journal that stores nothing; every write is done at once."""

    __slots__ = ()

    def write(self, event: Event, storage: StoragePolicy | None = None) -> None:
        """Write nothing; None says that there is nothing to wait for."""

    def keep(self, record: Record) -> None:
        """Take the record and drop it."""

    def watch(self, settled: Callable[[], None]) -> bool:
        """Never calls `settled`: every write is done at once."""
        return False

    def hurry(self) -> None:
        """Do nothing, as nothing is pending."""

    async def settle(self) -> None:
        """Return at once, as nothing is pending."""

    async def close(self) -> None:
        """Do nothing, as nothing is open."""
