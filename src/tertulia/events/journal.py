"""The interface of a journal, which commits events and records before the bus delivers them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tertulia.protocol.events import Event
from tertulia.protocol.records import Record
from tertulia.protocol.storage import StoragePolicy


class Journal(Protocol):
    """Commits events and records. Implemented by the rollout; `NoJournal` where nothing is stored.

    Contract of `write`: called in order of `seq`, on the loop's thread; never blocks or raises. It returns None
    when nothing more will be done for the event's durability, else a future; futures complete in order. When a future
    fails, so do all later ones that have not completed, and later events for which `write` returned None are dropped
    too: the bus gives all these numbers out again, so that the numbers of acknowledged events have no gaps.

    Contract of `keep`: called when the record is made; never blocks or raises. A record is committed with, or before,
    the next event written; if that fails, the event's write fails, and the record is tried again with the next event.

    Contract of `watch`: the callback is called on the loop's thread, once for all futures that completed together;
    perhaps within `hurry`, `settle` or `close`, never within `write` or `keep`. It is not called for futures that were
    complete when `write` returned them. The futures' own callbacks run one iteration of the loop later.
    """

    def write(self, event: Event, storage: StoragePolicy | None = None) -> asyncio.Future[None] | None:
        """Begin to commit one durable event, under its conversation's storage policy or the stricter one given."""
        ...

    def keep(self, record: Record) -> None:
        """Accept a record, which is committed under the strictest storage policy of its contents."""
        ...

    def watch(self, settled: Callable[[], None]) -> bool:
        """Have `settled` called each time futures have completed, in the same iteration of the loop.

        Returns:
            False if `settled` will never be called, and the caller has to use the futures' own callbacks.
        """
        ...

    def hurry(self) -> None:
        """Commit now what was written so far: a caller waits. Without this a journal may wait for more to batch."""
        ...

    async def settle(self) -> None:
        """Return when all records accepted so far are committed; raises the error if they could not be."""
        ...

    async def close(self) -> None:
        """Commit what is left and release the storage. Nothing is written after it. Idempotent.

        Raises only StorageError, where what was committed earlier is not there any more.
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
