"""The bus under arbitrary use, against a model that knows only lists.

The model keeps one list of everything that was delivered, in order, and for each listener what it took out. What a
listener must have heard follows from that list, from its filter, cursor and limit, and from what the ring can still
hold; how the bus came to it does not matter.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from tertulia.errors import InternalError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.subscription import Subscription
from tertulia.protocol.events import ErrorEvent, Event, SubscriberLagged
from tests.events.scripted import (
    SESSION,
    A,
    B,
    ScriptedJournal,
    StillClock,
    delta,
    ending,
    listeners,
    message,
    ticks,
)
from tests.thorough import examples

SCOPES = [None, EventScope("1", A), EventScope("2", B)]
NEWS = [(make, scope) for make in (message, delta, ending) for scope in SCOPES]
limits = st.sampled_from([1, 2, 3, 5, 100])


class World:
    """What was delivered so far."""

    def __init__(self, ring_events: int) -> None:
        self.ring_events = ring_events
        self.log: list[Event | None] = []
        """In order; None stands for the notice of a failure, which is the bus's own and goes to everybody."""
        self.durable: list[Event] = []

    @property
    def first(self) -> int:
        """The oldest number that the ring still holds."""
        return max(1, len(self.durable) - self.ring_events + 1)


class Listener:
    """One subscription, and the proof that it hears what it must."""

    def __init__(
        self, world: World, subscription: Subscription, scope: EventScope | None, after: int, limit: int
    ) -> None:
        self.world, self.subscription, self.limit = world, subscription, limit
        self.conversation = scope.conversation_id if scope else None
        self.heard_at = len(world.log)
        """Passing events from here on are for this listener."""
        self.forgotten = range(after + 1, world.first)
        """Gone before it came."""
        replayed = [event for event in world.durable[max(after + 1, world.first) - 1 :] if self.wants(event)]
        self.unread = len(replayed) + bool(self.forgotten)
        self.kept_up = self.unread <= limit
        """It never had more before it than its queue holds."""
        self.position = after
        """Every durable event up to here came out or was announced as lost."""
        self.place = -1
        """Where in the log the last event stood that came out."""
        self.announced: set[int] = set()
        self.passing = self.dropped = self.ends = 0
        self.last: Event | None = None
        self.claimed = 0
        """It said that everything up to this number had passed."""
        self.parked: asyncio.Task[Event] | None = None
        self.until: tuple[int, int] | None = None
        """It was finished, or the bus closed: so many entries of the log, so many durable events were for it."""

    def wants(self, event: Event | None) -> bool:
        return event is None or self.conversation in (None, event.conversation_id)

    def delivered(self, event: Event | None) -> None:
        """The bus has delivered this."""
        if self.until is None and self.wants(event):
            self.unread += 1
            self.kept_up = self.kept_up and self.unread <= self.limit

    def finished(self) -> None:
        """What is delivered from now on is not for this listener."""
        if not self.subscription._box.ended:
            self.until = (len(self.world.log), len(self.world.durable))

    def took(self, event: Event) -> None:
        """This came out."""
        self.unread -= 1
        self.last = event
        if isinstance(event.data, SubscriberLagged):
            self._took_announcement(event.data)
        elif event.seq is not None:
            self._took_durable(event, event.seq)
        elif isinstance(event.data, ErrorEvent):
            self.passing += 1
        else:
            self.passing += 1
            place = next(i for i, other in enumerate(self.world.log) if other is event)
            assert place >= self.heard_at, "published before it listened"
            assert self.until is None or place < self.until[0], "published after it was finished"
            assert place > self.place, "out of order"
            self.place = place
            before = [other.seq for other in self.world.log[:place] if other is not None and other.seq is not None]
            self._arrive(max(before, default=0))

    def _took_announcement(self, lagged: SubscriberLagged) -> None:
        assert lagged.dropped_deltas or lagged.from_seq is not None, "an announcement of nothing"
        self.dropped += lagged.dropped_deltas
        gone = range(lagged.from_seq or 0, (lagged.to_seq or 0) + 1) if lagged.from_seq is not None else range(0)
        assert gone == self.forgotten or not self.kept_up, "it kept up and lost something all the same"
        if gone:
            assert gone.start > self.position, "announced what had come out"
        self.announced.update(gone)

    def _took_durable(self, event: Event, seq: int) -> None:
        assert event is self.world.durable[seq - 1]
        assert self.wants(event)
        assert seq > self.position, "twice, or out of order"
        assert self.until is None or seq <= self.until[1], "published after it was finished"
        assert seq > self.claimed, "it had said that this had passed"
        assert seq not in self.announced or event.data.terminal, "announced as lost, and yet it came"
        self.ends += event.data.terminal
        self._arrive(seq - 1)
        self.position = seq
        place = next(i for i, other in enumerate(self.world.log) if other is event)
        assert place > self.place, "out of order"
        self.place = place

    def _arrive(self, seq: int) -> None:
        """Nothing up to `seq` is still to come; so what did not come must have been announced before."""
        for event in self.world.durable[self.position : seq]:
            if self.wants(event):
                assert event.seq in self.announced, "skipped in silence"
                assert not event.data.terminal or event.seq in self.forgotten, "a terminal event was lost"
        self.position = max(self.position, seq)

    def emptied(self) -> None:
        """Nothing more comes out now; so everything was accounted for, and only what the ring forgot is lost."""
        if self.cut:
            assert isinstance(self.last.data, SubscriberLagged), "the last word of a reader that is cut"
            from_seq = self.last.data.from_seq
            assert self.world.durable[from_seq - 1].data.terminal
            assert self.ends >= self.limit, "cut before it owed too much"
            return
        end, last = self.until or (len(self.world.log), len(self.world.durable))
        self._arrive(last)
        assert all(seq < self.world.first for seq in self.announced), "lost although the ring still has it"
        assert self.subscription.passed(last + 1 if self.until else last)
        meant = [event for event in self.world.log[self.heard_at : end] if event is None or event.seq is None]
        assert self.passing + self.dropped == sum(map(self.wants, meant))
        self.unread = 0

    @property
    def cut(self) -> bool:
        """The bus gave up on it."""
        return self.subscription._box.ended and self.until is None


class BusMachine(RuleBasedStateMachine):
    """Publish, subscribe, read, wait, vanish; hold, commit, fail, flush; close."""

    subscribed = Bundle("subscribed")

    @initialize(
        target=subscribed,
        ring_events=st.sampled_from([1, 2, 5, 20]),
        holding=st.booleans(),
        limits=st.lists(limits, min_size=1, max_size=3),
    )
    def begin(self, ring_events: int, holding: bool, limits: list[int]):
        self.loop = asyncio.new_event_loop()
        self.journal = ScriptedJournal(self.loop)
        self.journal.holding = holding
        self.bus = EventBus(SESSION, StillClock(), self.journal, ring_events=ring_events)
        self.world = World(ring_events)
        self.listening: list[Listener] = []
        self.held: list[tuple[Event, Any]] = []
        self.flushes: list[tuple[Event, asyncio.Task[None]]] = []
        self.unheard = False
        self.closed = False
        return multiple(*(self.subscribe_to(None, None, limit) for limit in limits))

    # ---- the model

    def deliver(self, event: Event | None) -> None:
        if self.closed:
            return
        for listener in self.listening:
            listener.delivered(event)
        self.world.log.append(event)
        if event is not None and event.seq is not None:
            self.world.durable.append(event)

    def settle(self) -> None:
        """The bus notices what its journal has done."""
        while self.held:
            event, future = self.held[0]
            if future is not None and not future.done():
                return
            if future is not None and future.exception() is not None:
                last = self.held[-1][0]
                self.unheard = not any(waits_for is last for waits_for, _ in self.flushes)
                self.held.clear()
                self.deliver(None)
                self.run()
                for _, flush in self.flushes:
                    assert isinstance(flush.exception(), InternalError)
                self.flushes.clear()
                return
            self.held.pop(0)
            self.deliver(event)
            while self.flushes and self.flushes[0][0] is event:
                self.run()
                assert self.flushes.pop(0)[1].exception() is None

    def publish(self, make, scope: EventScope | None) -> None:
        before = len(self.journal.open)
        event = self.bus.publish(make(), scope)
        self.settle()
        future = self.journal.open[-1][1] if len(self.journal.open) > before else None
        numbered = len(self.world.durable) + sum(event.seq is not None for event, _ in self.held)
        assert event.seq == (numbered + 1 if event.data.durable else None)
        if future is None and not self.held:
            self.deliver(event)
        else:
            self.held.append((event, future))

    def subscribe_to(self, scope: EventScope | None, back: int | None, limit: int) -> Listener:
        last = len(self.world.durable)
        after = last if back is None else max(0, last - back)
        conversation = scope.conversation_id if scope else None
        subscription = self.bus.subscribe(after=None if back is None else after, conversation=conversation, limit=limit)
        listener = Listener(self.world, subscription, scope, after, limit)
        self.listening.append(listener)
        return listener

    def run(self) -> None:
        self.loop.run_until_complete(ticks(4))

    # ---- rules

    @precondition(lambda self: not self.closed)
    @rule(news=st.lists(st.sampled_from(NEWS), min_size=1, max_size=8))
    def publish_all_sorts(self, news) -> None:
        for make, scope in news:
            self.publish(make, scope)

    @precondition(lambda self: not self.closed)
    @rule(news=st.sampled_from(NEWS), count=st.integers(1, 8))
    def publish_a_burst(self, news, count: int) -> None:
        for _ in range(count):
            self.publish(*news)

    @precondition(lambda self: not self.closed)
    @rule(target=subscribed, scope=st.sampled_from(SCOPES), back=st.none() | st.integers(0, 30), limit=limits)
    def subscribe(self, scope: EventScope | None, back: int | None, limit: int) -> Listener:
        return self.subscribe_to(scope, back, limit)

    @rule(listener=subscribed, count=st.integers(1, 6))
    def read(self, listener: Listener, count: int) -> None:
        if listener.parked is not None:
            return
        for _ in range(count):
            event = listener.subscription.next_nowait()
            if event is None:
                listener.emptied()
                return
            listener.took(event)

    @rule(listener=subscribed)
    def park(self, listener: Listener) -> None:
        """Read as most do: in a task that waits."""
        if listener.parked is None:
            listener.parked = self.loop.create_task(anext(listener.subscription))
            self.tick()

    @rule(listener=subscribed)
    def cancel(self, listener: Listener) -> None:
        if listener.parked is not None:
            listener.parked.cancel()
            self.tick()
            assert listener.parked is None

    @rule(listener=subscribed, number=st.integers(0, 60))
    def ask(self, listener: Listener, number: int) -> None:
        if listener.parked is None and listener.subscription.passed(number):
            assert number <= len(self.world.durable) or listener.subscription._box.ended
            listener.claimed = max(listener.claimed, min(number, len(self.world.durable)))

    @precondition(lambda self: len(self.listening) > 2)
    @rule(target=subscribed, listener=consumes(subscribed), how=st.sampled_from(["close", "vanish"]))
    def leave(self, listener: Listener, how: str):
        if listener.parked is not None:
            return listener
        if how == "close":
            listener.subscription.close()
            assert listener.subscription.next_nowait() is None
        del listener.subscription
        self.listening.remove(listener)
        return multiple()

    @precondition(lambda self: len(self.listening) > 1)
    @rule(listener=subscribed)
    def finish(self, listener: Listener) -> None:
        self.tick()
        listener.finished()
        listener.subscription.finish()
        self.tick()

    @rule()
    def hold_or_not(self) -> None:
        self.journal.holding = not self.journal.holding

    @precondition(lambda self: self.journal.open)
    @rule(count=st.integers(1, 5), noticed=st.booleans())
    def commit(self, count: int, noticed: bool) -> None:
        self.journal.commit(min(count, len(self.journal.open)))
        if noticed:
            self.tick()

    @precondition(lambda self: self.journal.open)
    @rule(noticed=st.booleans())
    def fail(self, noticed: bool) -> None:
        self.journal.fail(OSError("full"))
        if noticed:
            self.tick()

    @rule()
    def flush(self) -> None:
        self.tick()
        flush = self.loop.create_task(self.bus.flush())
        self.run()
        if self.unheard:
            assert isinstance(flush.exception(), InternalError)
            self.unheard = False
        elif self.held:
            assert not flush.done()
            self.flushes.append((self.held[-1][0], flush))
        else:
            assert flush.exception() is None

    @rule()
    def tick(self) -> None:
        self.run()
        self.settle()
        for listener in self.listening:
            if listener.parked is not None and listener.parked.done():
                parked, listener.parked = listener.parked, None
                if parked.cancelled():
                    continue
                if parked.exception() is None:
                    listener.took(parked.result())
                else:
                    assert isinstance(parked.exception(), StopAsyncIteration)
                    listener.emptied()
            elif listener.parked is not None:
                listener.emptied()

    @precondition(lambda self: len(self.world.log) > 30 and not self.closed)
    @rule()
    def close(self) -> None:
        self.tick()
        for listener in self.listening:
            listener.finished()
        self.bus.close()
        self.closed = True

    # ---- what always holds

    @invariant()
    def numbers_have_no_gaps(self) -> None:
        assert [event.seq for event in self.world.durable] == list(range(1, len(self.world.durable) + 1))

    @invariant()
    def memory_is_bounded(self) -> None:
        assert len(self.bus._ring._events) <= self.world.ring_events
        for listener in self.listening:
            box = listener.subscription._box
            assert len(box.queue) <= 2 * listener.limit + 2 + (self.world.ring_events if box.ended else 0)
            assert len(box._owed) <= listener.limit

    def teardown(self) -> None:
        self.tick()
        assert self.bus.last_seq == len(self.world.durable)
        if not self.closed:
            self.bus._sweep()
            assert listeners(self.bus) == sum(not listener.subscription._box.ended for listener in self.listening)
            self.close()
        if self.journal.open:
            self.journal.commit()
        self.tick()
        assert not self.flushes
        for listener in self.listening:
            assert listener.parked is None
            while (event := listener.subscription.next_nowait()) is not None:
                listener.took(event)
            listener.emptied()
        self.loop.close()


TestBusMachine = BusMachine.TestCase
TestBusMachine.settings = settings(
    max_examples=examples(2000), stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestBusMachine.pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
