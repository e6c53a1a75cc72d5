"""A clock and a journal that do what the test says, when it says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tertulia.events.bus import EventBus
from tertulia.events.subscription import Subscription
from tertulia.protocol.events import AgentMessage, AgentMessageDelta, Event, TaskComplete
from tertulia.protocol.ids import ConversationId, ItemId, SessionId
from tertulia.protocol.items import NO_USAGE
from tertulia.protocol.records import Record
from tertulia.protocol.storage import StoragePolicy

SESSION = SessionId("the-session")
A = ConversationId("a")
B = ConversationId("b")


class StillClock:
    """Stands still until it is set."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


class ScriptedJournal:
    """Keeps the contract of `Journal.write` to the letter, and holds the bus to its side of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.holding = True
        """False: from now on each event is as durable as it will be."""
        self.kept: list[Event] = []
        self.open: deque[tuple[Event, asyncio.Future[None]]] = deque()
        self._loop = loop
        self._next = 1

    def write(self, event: Event, storage: StoragePolicy | None = None) -> asyncio.Future[None] | None:
        assert event.seq == self._next, "events are written in order of their numbers, without gaps"
        self._next += 1
        if not self.holding:
            if not self.open:
                self.kept.append(event)
            return None
        future = self._loop.create_future()
        self.open.append((event, future))
        return future

    def keep(self, record: Record) -> None:
        """Nothing here is about records."""

    def watch(self, settled: Callable[[], None]) -> bool:
        """Its futures tell."""
        return False

    def hurry(self) -> None:
        """It is never slow of its own accord."""

    async def settle(self) -> None:
        """Records are as durable as they will be."""

    async def close(self) -> None:
        """Nothing to let go of."""

    def commit(self, count: int | None = None) -> None:
        """The oldest `count` writes, or all of them, are on the disk."""
        for _ in range(len(self.open) if count is None else count):
            event, future = self.open.popleft()
            self.kept.append(event)
            future.set_result(None)

    def fail(self, error: BaseException | None) -> None:
        """Every open write fails, and the numbers from the first of them on are free again. None cancels them."""
        self._next = self.open[0][0].seq or 0
        while self.open:
            _, future = self.open.popleft()
            if error is None:
                future.cancel()
            else:
                future.set_exception(error)


def message(text: str = "hello") -> AgentMessage:
    """Durable news."""
    return AgentMessage(text, ItemId("item"))


def delta(text: str = "h", offset: int = 0) -> AgentMessageDelta:
    """Passing news."""
    return AgentMessageDelta(text, ItemId("item"), offset)


def ending() -> TaskComplete:
    """Terminal news."""
    return TaskComplete("completed", "done", NO_USAGE)


def drain(subscription: Subscription) -> list[Event]:
    """Everything there is now."""
    events: list[Event] = []
    while (event := subscription.next_nowait()) is not None:
        events.append(event)
    return events


def numbers(events: list[Event]) -> list[int | None]:
    """Only what identifies durable events."""
    return [event.seq for event in events]


def listeners(bus: EventBus) -> int:
    """How many mailboxes the bus holds."""
    return sum(len(boxes) for boxes in bus._boxes.values())


async def ticks(count: int = 5) -> None:
    """Let the loop run what is due, and what that made due."""
    for _ in range(count):
        await asyncio.sleep(0)
