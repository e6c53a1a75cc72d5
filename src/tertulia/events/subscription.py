"""One subscription of the bus: its queue, and what happens when its reader is slow.

A subscription is live while its reader keeps up: each matching event is put into its queue. When the queue is full,
the subscription falls behind: queued deltas are dropped and nothing more is queued. Once the reader has emptied the
queue, it reads on from the shared ring; at the ring's end the subscription is live again. Replay works the same way: a
subscription with a cursor begins behind. So durable events are lost only when the ring drops them before they are
read, and terminal ones not even then. A `subscriber_lagged` announces every loss, at the place where the reader goes
on. `limit` bounds the memory, also when the reader never reads.

Loop thread only, like the bus.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tertulia.events.ring import Ring
from tertulia.protocol.events import Event, EventData, SubscriberLagged
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import (
    ApprovalRequest,
    ApprovalResolved,
    ElicitationRequest,
    ElicitationResolved,
)

# A constant, because it is used for every event.
_QUESTION_EVENTS = (ApprovalRequest, ApprovalResolved, ElicitationRequest, ElicitationResolved)


def visible_in(event: Event) -> tuple[ConversationId, ...]:
    """The conversations that an event shows in: its own; an approval or elicitation also in its whole chain."""
    if event.conversation_id is None:
        return ()
    if isinstance(event.data, _QUESTION_EVENTS):
        return (event.conversation_id, *event.data.chain)
    return (event.conversation_id,)


class Mailbox:
    """The bus's end of a subscription.

    The bus holds mailboxes, not subscriptions. So the bus keeps a task alive that waits for events, as the loop does
    for a task that waits for a socket, while an abandoned subscription is garbage collected and removes its mailbox.
    """

    __slots__ = (
        "_cursor",
        "_dropped",
        "_gone",
        "_limit",
        "_lost",
        "_notice",
        "_owed",
        "_ring",
        "_waiter",
        "behind",
        "conversation",
        "ended",
        "queue",
    )

    passing = True
    """Whether it takes deltas and progress."""

    def __init__(
        self,
        ring: Ring,
        cursor: int,
        conversation: ConversationId | None,
        limit: int,
        notice: Callable[[EventData], Event],
        gone: Callable[[Mailbox], None],
    ) -> None:
        """`notice` stamps an event for this reader alone; `gone` must be safe to call from any thread."""
        self.conversation = conversation
        self.queue: deque[Event] = deque()
        self.behind = cursor < ring.last
        """Whether durable events above the cursor are still to be read, from the ring or from `_owed`."""
        self.ended = False
        """Whether no more events are put in; queued ones can still be taken. Never true while `behind`."""
        self._ring = ring
        self._limit = limit
        self._notice = notice
        self._gone = gone
        self._cursor = cursor
        self._owed: deque[Event] = deque()
        """Terminal events that the ring dropped before the reader came to them."""
        self._lost: tuple[int, int] | None = None
        self._dropped = 0
        self._waiter: asyncio.Future[None] | None = None
        if self.behind:
            self._begin_replay()

    # ── the bus puts in ──────────────────────────────────────────────────────────────────────────────────────

    def put(self, event: Event) -> None:
        """Queue an event, or count it as dropped; the bus adds it to the ring afterwards. Never waits, never raises."""
        if self.behind:
            if event.seq is None:
                self._dropped += 1
        elif len(self.queue) >= self._limit:
            self._fall_behind()
            Mailbox.put(self, event)
        else:
            self.queue.append(event)
            if self._waiter is not None:
                self._wake(self._waiter)

    def missed(self, seq: int, event: Event) -> None:
        """The ring drops an event: if it matches and was not read yet, it is lost, or kept in `_owed` if terminal."""
        if seq <= self._cursor:
            return
        self._cursor = seq
        if not self._matches(event):
            return
        if not event.data.terminal:
            self._lost = (self._lost[0] if self._lost else seq, seq)
        elif len(self._owed) < self._limit:
            self._owed.append(event)
        else:
            self._cut(seq)

    def end(self) -> None:
        """Accept no more events; what is queued, owed or in the ring now can still be taken."""
        if self.behind:
            # All at once, even beyond the limit: the ring goes on and would drop events without calling `missed`.
            self._read_on(sys.maxsize)
        self.ended = True
        if self._waiter is not None:
            self._wake(self._waiter)

    # ── the subscriber takes out ─────────────────────────────────────────────────────────────────────────────

    def take(self) -> Event | None:
        """The next event, or None when there is none now."""
        return self.queue.popleft() if self.queue or self._ready() else None

    async def wait(self) -> bool:
        """Wait until `take` would return an event (True), or no more events can come (False)."""
        while not self._ready():
            if self.ended:
                return False
            if self._waiter is not None:
                raise RuntimeError("a subscription has one reader; another task is already waiting")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return True

    def passed(self, seq: int) -> bool:
        """What `Subscription.passed` returns for this mailbox."""
        if self._ready():
            for event in self.queue:
                if event.seq is not None:
                    return event.seq > seq
        return self.ended or (not self.behind and seq <= self._ring.last)

    def finish(self) -> None:
        """Accept no more events and have the bus remove this mailbox; queued events can still be taken."""
        if not self.ended:
            self.end()
            self._gone(self)

    def close(self) -> None:
        """End the subscription and drop everything that is queued or owed."""
        self._leave_ring()
        self._owed.clear()
        self.queue.clear()
        self.finish()

    def vanish(self) -> None:
        """The subscription was garbage collected, in any thread: have the bus remove this mailbox, change nothing."""
        if not self.ended:
            self._gone(self)

    # ── falling behind and catching up ───────────────────────────────────────────────────────────────────────

    def _matches(self, event: Event) -> bool:
        return self.conversation is None or self.conversation in visible_in(event)

    def _ready(self) -> bool:
        if self.behind and not self.queue:
            self._read_on(self._limit)
        return bool(self.queue)

    def _begin_replay(self) -> None:
        oldest = self._ring.first
        if self._cursor + 1 < oldest:
            self._lost = (self._cursor + 1, oldest - 1)
            self._cursor = oldest - 1
        self._ring.behind.add(self)
        # Read now: if the replay fits into the queue, deltas published before the first read are not dropped.
        self._read_on(self._limit)

    def _fall_behind(self) -> None:
        self.behind = True
        self._cursor = self._ring.last
        self._ring.behind.add(self)
        durable = [event for event in self.queue if event.data.durable or event.type == SubscriberLagged.type]
        self._dropped += len(self.queue) - len(durable)
        self.queue.clear()
        self.queue.extend(durable)

    def _read_on(self, limit: int) -> None:
        self._settle_arrears()
        for event in self._ring.after(self._cursor):
            if len(self.queue) >= limit:
                return
            self._cursor += 1
            if self._matches(event):
                self.queue.append(event)
        self._leave_ring()

    def _leave_ring(self) -> None:
        self.behind = False
        self._ring.behind.discard(self)

    def _settle_arrears(self) -> None:
        if self._lost or self._dropped:
            self._announce(self._lost, self._dropped)
            self._lost, self._dropped = None, 0
        self.queue.extend(self._owed)
        self._owed.clear()

    def _announce(self, lost: tuple[int, int] | None, dropped: int) -> None:
        first, last = lost or (None, None)
        self.queue.append(self._notice(SubscriberLagged(first, last, dropped)))

    def _cut(self, seq: int) -> None:
        # The reader left more terminal events unread than the mailbox may hold. Bounded memory comes first, so the
        # subscription ends; a reader that comes back gets a last `subscriber_lagged` with the range that it missed.
        self._settle_arrears()
        self._announce((seq, self._ring.last), 0)
        self._leave_ring()
        self.finish()

    def _wake(self, waiter: asyncio.Future[None]) -> None:
        if waiter.done():
            return
        try:
            waiter.set_result(None)
        except RuntimeError:  # the waiter's loop was closed: no task will ever read this mailbox
            self.close()


_Place = tuple[Ring, int, ConversationId | None, int, Callable[[EventData], Event], Callable[[Mailbox], None]]
"""What a mailbox is made with."""


class FilteredMailbox(Mailbox):
    """A mailbox of a reader that wants some events only. Those that it does not want cost it nothing.

    A class of its own: most readers want everything, and pay for no test.
    """

    __slots__ = ("_types", "passing")

    def __init__(
        self,
        *place: *_Place,
        passing: bool,
        types: frozenset[str] | None,
    ) -> None:
        """`passing`: whether it wants deltas and progress; `types`: the types that it wants, None for all."""
        self.passing = passing
        self._types = types
        super().__init__(*place)

    def put(self, event: Event) -> None:
        """Queue an event if it is wanted."""
        if self._is_wanted(event):
            super().put(event)

    def _matches(self, event: Event) -> bool:
        return self._is_wanted(event) and super()._matches(event)

    def _is_wanted(self, event: Event) -> bool:
        return (self.passing or event.data.durable) and (self._types is None or event.type in self._types)


class Subscription:
    """Events for one reader: iterate, or poll with `next_nowait` and `wait`. Made by `EventBus.subscribe`.

    Events come in the order in which they were published, and `seq` strictly grows. Iteration ends after `close`;
    after `finish` or a close of the bus, once everything was taken; and after a last `subscriber_lagged` when the
    reader left more than `limit` terminal events unread that the ring has dropped. The bus cleans up a subscription
    that is dropped without a `close`.
    """

    __slots__ = ("__weakref__", "_box", "_notify")

    def __init__(self, box: Mailbox) -> None:
        self._box = box
        self._notify: Callable[[], object] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event, as soon as there is one. Cancelling the wait loses no event."""
        while (event := self._box.take()) is None:
            if not await self._box.wait():
                raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
        self.close()

    def __del__(self) -> None:
        self._box.vanish()

    def next_nowait(self) -> Event | None:
        """The next event if there is one now; never waits."""
        return self._box.take()

    async def wait(self) -> bool:
        """Return True as soon as `next_nowait` would return an event, False when it never will again."""
        return await self._box.wait()

    def passed(self, seq: int) -> bool:
        """Whether the reader has taken every matching durable event numbered `seq` or below.

        A number that the bus has not delivered yet has not passed: `await bus.flush()` first. While this is False, an
        event is ready or will be. Servers use it to send an answer only after the events that led to it.
        """
        return self._box.passed(seq)

    @property
    def is_open(self) -> bool:
        """Whether more events may be queued."""
        return not self._box.ended

    def finish(self) -> None:
        """Accept no more events; iteration ends when those that are there now were taken. Idempotent."""
        self._box.finish()

    def close(self) -> None:
        """Stop listening and drop what is queued. Idempotent; a reader that waits stops waiting."""
        self._box.close()
        notify, self._notify = self._notify, None
        if notify is not None:
            notify()

    def when_closed(self, notify: Callable[[], object]) -> None:
        """Call this once, when the reader closes it; not where it is dropped, or the bus closes."""
        self._notify = notify
