"""A subscription: reading, being slow, and what that may cost whom."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc

import pytest

from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import SystemClock
from tertulia.events.journal import NoJournal
from tertulia.events.ring import event_weight
from tertulia.events.subscription import Subscription
from tertulia.protocol.events import Event, EventData, SubscriberLagged
from tests.deadlines import HANG_S
from tests.events.scripted import SESSION, A, B, StillClock, delta, drain, ending, listeners, message, numbers, ticks

IN_A, IN_B = EventScope("1", A), EventScope("2", B)


def a_bus(**bounds: int) -> EventBus:
    return EventBus(SESSION, StillClock(), NoJournal(), **bounds)


def publish(bus: EventBus, letters: str, scope: EventScope | None = None) -> None:
    """m: a message, d: a delta, t: a terminal event."""
    for letter in letters:
        bus.publish({"m": message, "d": delta, "t": ending}[letter](), scope)


def told(subscription: Subscription) -> list[int | None | SubscriberLagged]:
    """What comes out: numbers, None for deltas, and announcements as they are."""
    return [event.data if isinstance(event.data, SubscriberLagged) else event.seq for event in drain(subscription)]


# ---- reading


async def test_a_reader_that_waits_gets_the_next_event() -> None:
    bus = a_bus()
    async with bus.subscribe() as subscription:
        waiting = asyncio.Task(anext(subscription))
        await ticks()
        assert not waiting.done()
        event = bus.publish(message())
        assert await asyncio.wait_for(waiting, HANG_S) is event


async def test_leaving_the_context_closes() -> None:
    bus = a_bus()
    async with bus.subscribe() as subscription:
        publish(bus, "mm")
        assert (await anext(subscription)).seq == 1
    assert subscription.next_nowait() is None
    with pytest.raises(StopAsyncIteration):
        await anext(subscription)
    publish(bus, "m")
    assert listeners(bus) == 0


async def test_wait_says_that_there_is_something_and_takes_nothing() -> None:
    bus = a_bus()
    subscription = bus.subscribe()
    waiting = asyncio.Task(subscription.wait())
    await ticks()
    assert not waiting.done()
    publish(bus, "d")
    assert await asyncio.wait_for(waiting, HANG_S)
    assert await asyncio.wait_for(subscription.wait(), HANG_S)
    assert told(subscription) == [None]


async def test_wait_says_when_nothing_will_ever_come() -> None:
    bus = a_bus()
    closed, ended = bus.subscribe(), bus.subscribe()
    waiting = [asyncio.Task(subscription.wait()) for subscription in (closed, ended)]
    await ticks()
    closed.close()
    bus.close()
    assert await asyncio.wait_for(asyncio.gather(*waiting), HANG_S) == [False, False]


async def test_a_close_forgets_what_was_queued_and_is_idempotent() -> None:
    bus = a_bus(ring_events=2)
    subscription = bus.subscribe(limit=2)
    publish(bus, "mmdttmm")
    assert bus._ring.behind == {subscription._box}, "queued, dropped, owed and in the ring: of each there is some"
    for _ in range(2):
        subscription.close()
        assert subscription.next_nowait() is None
        assert not await subscription.wait()
        assert not subscription._box._owed
    assert bus._ring.behind == set()
    publish(bus, "m")
    assert listeners(bus) == 0
    assert subscription.passed(1000)


async def test_a_second_reader_at_the_same_time_is_refused_and_the_first_goes_on() -> None:
    bus = a_bus()
    subscription = bus.subscribe()
    first = asyncio.Task(anext(subscription))
    await ticks()
    with pytest.raises(RuntimeError, match="one reader"):
        await anext(subscription)
    event = bus.publish(message())
    assert await asyncio.wait_for(first, HANG_S) is event


async def test_it_can_be_closed_the_way_generators_are() -> None:
    bus = a_bus()
    async with contextlib.aclosing(bus.subscribe()) as subscription:
        publish(bus, "m")
    assert subscription.next_nowait() is None
    publish(bus, "m")
    assert listeners(bus) == 0


# ---- finishing


async def test_a_finished_subscription_gives_what_there_is_and_ends() -> None:
    bus = a_bus()
    subscription = bus.subscribe()
    publish(bus, "mdm")
    subscription.finish()
    subscription.finish()
    assert not subscription.passed(2)
    publish(bus, "mdm")
    assert listeners(bus) == 0
    assert [event.seq async for event in subscription] == [1, None, 2]
    assert subscription.passed(4), "nothing is still to come"
    assert not await subscription.wait()


async def test_finishing_ends_a_reader_that_waits() -> None:
    subscription = a_bus().subscribe()
    waiting = asyncio.Task(anext(subscription, None))
    await ticks()
    subscription.finish()
    assert await asyncio.wait_for(waiting, HANG_S) is None


def test_a_reader_that_is_behind_when_it_is_finished_gets_what_there_was_then_and_no_more() -> None:
    """S002-45: also when the ring forgets it before the reader comes."""
    bus = a_bus(ring_events=3)
    slow = bus.subscribe(limit=2)
    publish(bus, "mmd" + "mtmtm")
    slow.finish()
    publish(bus, "mtmtmt")
    assert told(slow) == [1, 2, SubscriberLagged(3, 3, 1), 4, 5, 6, 7]
    assert slow.passed(1000)


def test_a_finished_subscription_can_be_closed() -> None:
    bus = a_bus()
    subscription = bus.subscribe()
    publish(bus, "mm")
    subscription.finish()
    subscription.close()
    assert told(subscription) == []


# ---- slow


def test_a_lag_that_the_ring_still_holds_costs_nothing_and_is_not_announced() -> None:
    """G2"""
    bus = a_bus()
    slow = bus.subscribe(limit=3)
    publish(bus, "mmmmtmmmm")
    assert told(slow) == list(range(1, 10))
    publish(bus, "dm")
    assert told(slow) == [None, 10], "and it is live again"


def test_deltas_are_the_first_to_go_and_their_number_is_said_once() -> None:
    """G2, S002-45"""
    bus = a_bus()
    slow = bus.subscribe(limit=4)
    publish(bus, "mddm" + "dmmd")
    assert told(slow) == [1, 2, SubscriberLagged(None, None, 4), 3, 4]
    publish(bus, "dmd")
    assert told(slow) == [None, 5, None]


def test_deltas_alone_can_overflow_too() -> None:
    bus = a_bus()
    slow = bus.subscribe(limit=3)
    publish(bus, "dddd")
    assert told(slow) == [SubscriberLagged(None, None, 4)]


def test_what_the_ring_forgot_is_announced_as_a_range_before_the_reader_goes_on() -> None:
    """G2: the gap event"""
    bus = a_bus(ring_events=3)
    slow = bus.subscribe(limit=2)
    publish(bus, "mmd" + "mmmmm")
    assert told(slow) == [1, 2, SubscriberLagged(3, 4, 1), 5, 6, 7]
    publish(bus, "m")
    assert told(slow) == [8]


def test_a_range_names_only_what_concerned_the_reader() -> None:
    bus = a_bus(ring_events=2)
    slow, untouched = bus.subscribe(limit=1, conversation=A), bus.subscribe(limit=1, conversation=B)
    publish(bus, "m", IN_A)
    publish(bus, "m", IN_B)
    publish(bus, "mm", None)
    publish(bus, "mm", IN_A)
    publish(bus, "mmmm", None)
    assert told(slow) == [1, SubscriberLagged(5, 6, 0)]
    assert told(untouched) == [2], "a full queue is not yet a lag"


def test_a_reader_that_lags_while_others_conversation_misses_nothing() -> None:
    bus = a_bus(ring_events=2)
    slow = bus.subscribe(limit=1, conversation=A)
    publish(bus, "mt", IN_A)
    publish(bus, "mmmmm", IN_B)
    assert told(slow) == [1, 2]


def test_terminal_events_are_never_lost() -> None:
    """S002-45: they outlive the ring, in their place."""
    bus = a_bus(ring_events=2)
    slow = bus.subscribe(limit=3)
    publish(bus, "mmm" + "tmtm" + "mm")
    assert told(slow) == [1, 2, 3, SubscriberLagged(5, 7, 0), 4, 6, 8, 9]


def test_if_only_terminal_events_were_forgotten_nothing_was_missed() -> None:
    bus = a_bus(ring_events=1)
    slow = bus.subscribe(limit=2)
    publish(bus, "mmttt")
    assert told(slow) == [1, 2, 3, 4, 5]


def test_an_event_larger_than_the_ring_still_reaches_those_who_keep_up() -> None:
    bus = a_bus(ring_bytes=3 * event_weight(message()))
    prompt, slow = bus.subscribe(), bus.subscribe(limit=1)
    for data in (message(), message("x" * 100_000), ending()):
        bus.publish(data)
    assert told(prompt) == [1, 2, 3]
    assert told(slow) == [1, SubscriberLagged(2, 2, 0), 3]


def test_a_reader_that_owes_the_bus_too_much_is_cut_and_told_where() -> None:
    """G2: a bound on memory is worth more than a promise to a dead reader."""
    bus = a_bus(ring_events=2)
    dead, prompt = bus.subscribe(limit=2), bus.subscribe()
    publish(bus, "mm" + "mtmtmt" + "mm")
    assert told(dead) == [
        *(1, 2),
        SubscriberLagged(3, 7, 0),
        *(4, 6),
        SubscriberLagged(8, 10, 0),
    ]
    publish(bus, "m")
    assert told(dead) == []
    assert numbers(drain(prompt)) == list(range(1, 12))
    assert listeners(bus) == 1


def test_a_reader_is_cut_once_however_much_the_ring_forgets_at_a_time() -> None:
    bus = a_bus(ring_bytes=8 * event_weight(ending()))
    dead = bus.subscribe(limit=1)
    publish(bus, "mttttttt")
    bus.publish(message("x" * 100_000))
    assert told(dead) == [1, 2, SubscriberLagged(3, 9, 0)]
    assert bus._ring.behind == set()


async def test_the_iteration_of_a_reader_that_was_cut_ends() -> None:
    bus = a_bus(ring_events=1)
    dead = bus.subscribe(limit=1)
    publish(bus, "mttt")
    assert [event.seq async for event in dead] == [1, 2, None]
    assert not await dead.wait()
    assert dead.passed(1000)
    dead.close()
    assert numbers(drain(bus.subscribe(after=2))) == [None, 4], "it may come back with its cursor"


def test_an_announcement_is_not_dropped_by_the_next_lag() -> None:
    bus = a_bus(ring_events=1)
    publish(bus, "mmm")
    slow = bus.subscribe(after=0, limit=3)
    publish(bus, "dmm")
    assert told(slow) == [SubscriberLagged(1, 2, 0), 3, SubscriberLagged(4, 4, 1), 5]


def test_a_replay_that_the_ring_overtakes_is_announced_too() -> None:
    bus = a_bus(ring_events=5)
    publish(bus, "mmmmm")
    slow = bus.subscribe(after=0, limit=2)
    publish(bus, "mmmt")
    assert told(slow) == [1, 2, SubscriberLagged(3, 4, 0), 5, 6, 7, 8, 9]


def test_after_catching_up_an_old_lag_has_no_consequences() -> None:
    bus = a_bus(ring_events=3)
    slow = bus.subscribe(limit=2)
    publish(bus, "mmm")
    assert told(slow) == [1, 2, 3]
    for seq in range(4, 20):
        publish(bus, "m")
        assert told(slow) == [seq]
    publish(bus, "mmm")
    assert told(slow) == [20, 21, 22]


def test_one_stuck_reader_costs_a_bounded_amount_of_memory_and_nobody_else_anything() -> None:
    """G2, S002-45: 100,000 events, one reader stopped, one reads on."""
    bus = EventBus(SESSION, SystemClock(), NoJournal(), ring_events=500)
    stuck, prompt = bus.subscribe(limit=100), bus.subscribe(limit=100)
    last = 0
    gc.collect()
    for index in range(100_000):
        bus.publish(delta() if index % 2 else ending() if index % 2000 == 0 else message())
        while (event := prompt.next_nowait()) is not None:
            if event.seq is not None:
                assert event.seq == last + 1
                last = event.seq
            assert not isinstance(event.data, SubscriberLagged)
    assert last == bus.last_seq == 50_000
    alive = sum(type(thing) is Event for thing in gc.get_objects())
    assert alive <= 500 + 100 + 100 + 10
    heard = drain(stuck)
    assert sum(event.data.terminal for event in heard) == 50
    lagged = [event.data for event in heard if isinstance(event.data, SubscriberLagged)]
    assert [(gap.from_seq, gap.to_seq) for gap in lagged] == [(51, 49_500)]
    assert lagged[0].dropped_deltas + sum(event.type == "agent_message_delta" for event in heard) == 50_000


def test_queues_share_the_events() -> None:
    """G2: a hundred listeners hold references, not copies."""
    bus = a_bus(ring_events=10)
    subscriptions = [bus.subscribe() for _ in range(100)]
    publish(bus, "m")
    text = "x" * 1_000_000
    tracemalloc.start()
    bus.publish(message(text))
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 100_000
    assert all(drain(subscription)[-1].data.text is text for subscription in subscriptions)


# ---- passed


def test_a_number_has_passed_when_nothing_up_to_it_is_still_to_come() -> None:
    bus = a_bus()
    subscription = bus.subscribe()
    assert subscription.passed(0)
    assert not subscription.passed(1), "not delivered yet"
    publish(bus, "dmdm")
    seen = []
    for _ in range(5):
        seen.append((subscription.passed(1), subscription.passed(2)))
        subscription.next_nowait()
    assert seen == [(False, False), (False, False), (True, False), (True, False), (True, True)]


def test_events_that_do_not_match_have_passed_by_themselves() -> None:
    bus = a_bus()
    subscription = bus.subscribe(conversation=A)
    publish(bus, "mm", IN_B)
    assert subscription.passed(2)
    assert not subscription.passed(3)


def test_of_a_reader_that_is_behind_the_ring_counts_too() -> None:
    bus = a_bus()
    slow = bus.subscribe(limit=1, conversation=A)
    publish(bus, "mm", IN_A)
    publish(bus, "mm", IN_B)
    seen = []
    for _ in range(3):
        seen.append([slow.passed(seq) for seq in (1, 2, 4)])
        slow.next_nowait()
    assert seen == [[False, False, False], [True, False, False], [True, True, True]]


def test_an_announcement_may_stand_before_what_has_not_passed() -> None:
    bus = a_bus(ring_events=1)
    publish(bus, "mmm")
    slow = bus.subscribe(after=0, limit=1)
    assert not slow.passed(3)
    assert told(slow) == [SubscriberLagged(1, 2, 0), 3]
    assert slow.passed(3)


async def test_while_a_number_has_not_passed_waiting_for_the_next_event_never_hangs() -> None:
    """A server writes the events of a task before its answer; also one that is far behind."""
    bus = a_bus(ring_events=5)
    for limit in (1, 2, 3, 100):
        slow = bus.subscribe(limit=limit, conversation=A)
        publish(bus, "mdmdtdm", IN_A)
        publish(bus, "mmmdm", IN_B)
        while not slow.passed(bus.last_seq):
            await asyncio.wait_for(anext(slow), HANG_S)
        assert all(event.seq is None for event in drain(slow))


def test_of_a_bus_that_is_closed_everything_has_passed_once_it_was_taken() -> None:
    bus = a_bus()
    subscription = bus.subscribe(limit=1)
    publish(bus, "mm")
    bus.close()
    assert not subscription.passed(1)
    assert told(subscription) == [1, 2]
    assert subscription.passed(1000)


def data_of(events: list[Event]) -> list[EventData]:
    return [event.data for event in events]


def test_a_lag_belongs_to_one_reader_alone() -> None:
    """G2: an announcement goes to nobody else, and takes no number."""
    bus = a_bus(ring_events=2)
    slow, prompt = bus.subscribe(limit=1), bus.subscribe()
    publish(bus, "mmmm")
    assert any(isinstance(data, SubscriberLagged) for data in data_of(drain(slow)))
    assert data_of(drain(prompt)) == [message()] * 4
    assert bus.publish(message()).seq == 5


async def test_a_subscription_is_open_until_nothing_more_may_come() -> None:
    bus = a_bus()
    finished, closed, ended = bus.subscribe(), bus.subscribe(), bus.subscribe()
    assert finished.is_open
    assert closed.is_open
    publish(bus, "m")
    finished.finish()
    closed.close()
    assert (finished.is_open, closed.is_open, ended.is_open) == (False, False, True)
    bus.close()
    assert not ended.is_open
    assert told(finished) == [1]
