"""The bus: stamps, order, fan-out, replay, and listeners that cannot hurt it."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref

import pytest

from tertulia.errors import ClosedError, InvalidParamsError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import SystemClock
from tertulia.events.journal import NoJournal
from tertulia.protocol.events import SubscriberLagged, WarningEvent
from tertulia.protocol.ids import ConversationId, TaskId
from tests.deadlines import HANG_S
from tests.events.scripted import SESSION, A, B, StillClock, delta, drain, ending, listeners, message, numbers, ticks
from tests.tables import each_row
from tests.thorough import times

IN_A, IN_B = EventScope("1", A), EventScope("2", B)


def a_bus(**bounds: int) -> EventBus:
    return EventBus(SESSION, StillClock(1_700_000_000.25), NoJournal(), **bounds)


# ---- stamping


def test_the_ids_of_an_event_are_those_of_its_scope() -> None:
    """S000-46, S002-42"""
    scope = EventScope("sub-1", A, TaskId("t"), "trace", "span")
    event = EventBus(SESSION, StillClock(1_700_000_000.25), NoJournal(), epoch=3).publish(message("hi"), scope)
    assert json.loads(event.json()) == {
        "epoch": 3,
        "seq": 1,
        "ts": "2023-11-14T22:13:20.250Z",
        "type": "agent_message",
        "session_id": "the-session",
        "sub_id": "sub-1",
        "conversation_id": "a",
        "task_id": "t",
        "trace_id": "trace",
        "span_id": "span",
        "data": {"text": "hi", "item_id": "item", "phase": None},
    }


@each_row("scope", [None, EventScope("")])
def test_without_a_submission_the_session_stands_in(scope: EventScope | None) -> None:
    """S002-42: sub_id is always filled."""
    event = a_bus().publish(message(), scope)
    assert event.sub_id == SESSION
    assert (event.conversation_id, event.task_id, event.trace_id, event.span_id) == (None, None, None, None)


def test_a_consumer_that_knows_only_sub_id_can_tell_submissions_apart() -> None:
    """S002-43: it reads nothing else of the envelope, and finds it on every line, announcements included."""
    bus = a_bus(ring_events=1)
    subscription = bus.subscribe(limit=2)
    for scope in (IN_A, IN_B, IN_A, None, IN_B):
        bus.publish(message(), scope)
    lines = [json.loads(event.json()) for event in drain(subscription)]
    assert [line["sub_id"] for line in lines] == ["1", "2", SESSION, "2"]
    assert lines[2]["type"] == "subscriber_lagged"


def test_durable_events_are_numbered_from_one_and_passing_ones_not_at_all() -> None:
    bus = a_bus()
    assert bus.last_seq == 0
    events = [bus.publish(data) for data in (message(), delta(), delta(), ending(), delta(), message())]
    assert numbers(events) == [1, None, None, 2, None, 3]
    assert bus.last_seq == 3


# ---- who hears what


def test_everybody_gets_the_same_objects_in_the_order_of_publishing() -> None:
    bus = a_bus()
    one, two = bus.subscribe(), bus.subscribe()
    published = [bus.publish(data, IN_A) for data in (message(), delta(), ending())]
    for heard in (drain(one), drain(two)):
        assert all(a is b for a, b in zip(heard, published, strict=True))


def test_a_filter_lets_through_its_conversation_and_nothing_of_the_session_or_of_others() -> None:
    bus = a_bus()
    everything, only_a, only_b = bus.subscribe(), bus.subscribe(conversation=A), bus.subscribe(conversation=B)
    for scope in (None, IN_A, IN_B, IN_A):
        bus.publish(message(), scope)
    assert numbers(drain(everything)) == [1, 2, 3, 4]
    assert numbers(drain(only_a)) == [2, 4]
    assert numbers(drain(only_b)) == [3]


def test_publishing_touches_matching_subscriptions_only() -> None:
    """The cost of an event does not grow with those whom it does not concern."""
    bus = a_bus()
    others = [bus.subscribe(conversation=ConversationId(f"other-{i}")) for i in range(100)]
    touched: list[object] = []
    for subscription in others:
        subscription._box.queue = touched
    bus.publish(message(), IN_A)
    bus.publish(delta(), None)
    assert touched == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_events_arrive_in_order_and_without_gaps_in_each_conversation() -> None:
    """G4: a million in `make torture`."""
    count = times(1_000_000, 100_000)
    bus = EventBus(SESSION, SystemClock(), NoJournal())
    scopes = [EventScope(str(i), ConversationId(str(i))) for i in range(10)]
    everything = bus.subscribe()
    filtered = [bus.subscribe(conversation=scope.conversation_id) for scope in scopes]
    seen, per_conversation = 0, [0] * len(scopes)
    for index in range(count):
        bus.publish(message(), scopes[index % 10])
        if index % 1000 != 999:
            continue
        for event in drain(everything):
            seen += 1
            assert event.seq == seen
        for i, subscription in enumerate(filtered):
            for event in drain(subscription):
                assert event.seq == per_conversation[i] * 10 + i + 1
                per_conversation[i] += 1
    assert seen == bus.last_seq == count
    assert per_conversation == [count // 10] * 10


# ---- replay


def test_a_cursor_replays_what_follows_it_and_then_goes_on_live() -> None:
    bus = a_bus()
    for _ in range(5):
        bus.publish(message())
        bus.publish(delta())
    subscription = bus.subscribe(after=2)
    bus.publish(delta("live"))
    bus.publish(message())
    heard = drain(subscription)
    assert numbers(heard) == [3, 4, 5, None, 6]
    assert heard[3].data == delta("live")


@each_row("after", range(6))
def test_a_client_that_reconnects_misses_nothing_and_gets_nothing_twice(after: int) -> None:
    bus = a_bus()
    first = bus.subscribe()
    for scope in (IN_A, IN_B, None, IN_A, IN_B):
        bus.publish(message(), scope)
    before = [first.next_nowait() for _ in range(after)]
    first.close()
    again = drain(bus.subscribe(after=after))
    assert numbers([*before, *again]) == [1, 2, 3, 4, 5]
    assert numbers(drain(bus.subscribe(after=after, conversation=A))) == [n for n in (1, 4) if n > after]


def test_a_replay_longer_than_the_queue_is_whole() -> None:
    bus = a_bus()
    for _ in range(50):
        bus.publish(message())
    subscription = bus.subscribe(after=0, limit=3)
    heard = [subscription.next_nowait() for _ in range(20)]
    bus.publish(message())
    assert numbers([*heard, *drain(subscription)]) == list(range(1, 52))


def test_a_cursor_older_than_the_ring_is_told_first_what_is_gone() -> None:
    """The range is what was forgotten, whatever the filter: what was in it nobody knows any more."""
    bus = a_bus(ring_events=3)
    for scope in (IN_A, IN_B) * 5:
        bus.publish(message(), scope)
    lagged, *rest = drain(bus.subscribe(after=2))
    assert lagged.data == SubscriberLagged(3, 7, 0)
    assert lagged.seq is None
    assert numbers(rest) == [8, 9, 10]
    lagged, *rest = drain(bus.subscribe(after=2, conversation=A))
    assert lagged.data == SubscriberLagged(3, 7, 0)
    assert numbers(rest) == [9]


@each_row("after", [-1, 3, 1000])
def test_a_cursor_that_this_epoch_cannot_have_given_out_is_refused(after: int) -> None:
    bus = a_bus()
    bus.publish(message())
    bus.publish(message())
    with pytest.raises(InvalidParamsError, match="after must be between 0 and 2") as refusal:
        bus.subscribe(after=after)
    assert refusal.value.detail == {"after": after, "epoch": 0}
    assert listeners(bus) == 0
    assert numbers(drain(bus.subscribe(after=2))) == []


def test_a_queue_without_room_is_refused() -> None:
    bus = a_bus()
    with pytest.raises(InvalidParamsError, match="limit"):
        bus.subscribe(limit=0)
    assert listeners(bus) == 0


# ---- listeners cannot hurt it


async def test_an_exception_in_a_listener_stays_there() -> None:
    """H6"""
    bus = a_bus()

    async def broken() -> None:
        async for _ in bus.subscribe():
            raise ValueError("my own fault")

    async def sound() -> list[int | None]:
        return [event.seq async for event in bus.subscribe()]

    tasks = [asyncio.Task(broken()), asyncio.Task(sound())]
    await ticks()
    assert listeners(bus) == 2
    for _ in range(3):
        bus.publish(message())
        await ticks()
    bus.close()
    fault, heard = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), HANG_S)
    assert isinstance(fault, ValueError)
    assert heard == [1, 2, 3]
    assert listeners(bus) == 0


async def test_a_cancelled_listener_is_not_woken_and_harms_nobody() -> None:
    """H6: its future is cancelled but the task has not run yet when the next event comes."""
    bus = a_bus()
    subscription, other = bus.subscribe(), bus.subscribe()
    waiting = asyncio.Task(anext(subscription))
    await ticks()
    waiting.cancel()
    bus.publish(message())
    await ticks()
    assert waiting.cancelled()
    assert numbers(drain(subscription)) == numbers(drain(other)) == [1], "cancelling lost nothing"


def test_a_listener_whose_loop_was_closed_is_forgotten() -> None:
    """H6, H7"""
    bus = a_bus()
    other = bus.subscribe()
    loop = asyncio.new_event_loop()
    task = loop.create_task(anext(bus.subscribe()))
    task._log_destroy_pending = False
    loop.run_until_complete(ticks())
    loop.close()
    assert listeners(bus) == 2
    bus.publish(message())
    bus.publish(message())
    assert listeners(bus) == 1
    assert numbers(drain(other)) == [1, 2]


def test_a_subscription_that_nobody_holds_vanishes() -> None:
    """H6, G8: never closed, only dropped; with a full queue, and while it is behind."""
    bus = a_bus(ring_events=4)
    gone = [weakref.ref(bus.subscribe(limit=2)), weakref.ref(bus.subscribe(conversation=A))]
    bounded = bus.subscribe(limit=2)
    stuck = bus.subscribe(limit=2)
    for _ in range(5):
        bus.publish(message(), IN_A)
    assert bus._ring.behind == {bounded._box, stuck._box}
    del stuck
    bus.publish(message(), IN_A)
    assert [ref() for ref in gone] == [None, None]
    assert listeners(bus) == 1
    assert bus._ring.behind == {bounded._box}


def test_subscriptions_that_come_and_go_leave_nothing_behind_even_when_nothing_is_published() -> None:
    """G8"""
    bus = a_bus()
    for index in range(100):
        bus.subscribe(conversation=ConversationId(str(index)))
        bus.subscribe().close()
        assert listeners(bus) <= 2
        assert len(bus._boxes) <= 2


async def test_a_subscription_in_a_dead_cycle_vanishes_with_it() -> None:
    """G8"""
    bus = a_bus()
    cycle: list[object] = [bus.subscribe(), bus.subscribe(conversation=A)]
    cycle.append(cycle)
    bus.publish(message())
    assert listeners(bus) == 2
    del cycle
    gc.collect()
    bus.publish(message())
    assert listeners(bus) == 0


def test_garbage_may_be_collected_in_any_thread() -> None:
    """A tool's thread that happens to run the collector must not change what the bus is walking over."""
    bus = a_bus()
    subscriptions = [bus.subscribe() for _ in range(100)]
    before = bus._boxes[None]
    thread = threading.Thread(target=subscriptions.clear)
    thread.start()
    thread.join(HANG_S)
    assert bus._boxes[None] is before
    bus.publish(message())
    assert listeners(bus) == 0


async def test_a_task_that_listens_is_kept_alive_by_the_bus_alone() -> None:
    """The loop holds tasks weakly; a listener that nobody else holds must not be collected while it waits."""
    bus = a_bus()
    heard: list[int | None] = []

    async def listen() -> None:
        heard.append((await anext(bus.subscribe())).seq)

    asyncio.get_running_loop().create_task(listen())
    await ticks()
    gc.collect()
    bus.publish(message())
    await ticks()
    assert heard == [1]


# ---- closing


async def test_close_ends_every_subscription_after_what_it_still_has() -> None:
    """H4: one queue full, one listener behind, one waiting."""
    bus = a_bus()
    full, behind = bus.subscribe(limit=3), bus.subscribe(limit=2)
    for data in (message(), message(), ending()):
        bus.publish(data)
    waiting = asyncio.Task(anext(bus.subscribe(), None))
    await ticks()
    bus.close()
    bus.close()
    assert await asyncio.wait_for(waiting, HANG_S) is None
    assert [event.seq async for event in full] == [1, 2, 3]
    assert [event.seq async for event in behind] == [1, 2, 3], "terminal events are not lost by closing"
    assert not await full.wait()
    assert full.next_nowait() is None
    assert listeners(bus) == 0


async def test_after_close_nothing_can_be_published_or_subscribed_to() -> None:
    bus = a_bus()
    bus.publish(message())
    bus.close()
    with pytest.raises(ClosedError):
        bus.publish(message())
    with pytest.raises(ClosedError):
        bus.subscribe()
    await bus.flush()
    assert bus.last_seq == 1
    assert listeners(bus) == 0


def test_an_event_with_any_separator_in_it_reaches_a_reader_of_lines_as_one() -> None:
    """E11"""
    bus = a_bus()
    subscription = bus.subscribe()
    texts = ["a\u2028b", "a\u0085b", "a\nb\r\n"]
    for text in texts:
        bus.publish(WarningEvent(text))
    stream = b"".join(event.json() + b"\n" for event in drain(subscription))
    assert [json.loads(line)["data"]["message"] for line in stream.split(b"\n")[:-1]] == texts
