"""A reader that wants durable events only, or some types: it gets those, in order, and hears of no other's loss."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tertulia import Session, Settings, errors
from tertulia.errors import StorageError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.journal import NoJournal
from tertulia.protocol.events import Event, EventData, SubscriberLagged
from tertulia.testing import ScriptedModel
from tests.events.scripted import SESSION, A, B, ScriptedJournal, StillClock, delta, drain, ending, message, numbers

IN_A, IN_B = EventScope("1", A), EventScope("2", B)
ENDS = frozenset({"task_complete"})


def a_bus(**bounds: int) -> EventBus:
    return EventBus(SESSION, StillClock(), NoJournal(), **bounds)


def publish(bus: EventBus, letters: str, scope: EventScope | None = None) -> None:
    """m: a message, d: a delta, t: a terminal event."""
    for letter in letters:
        bus.publish({"m": message, "d": delta, "t": ending}[letter](), scope)


def test_without_passing_events_only_those_come_that_have_a_number() -> None:
    """Issue 23 (6): background tabs get durable events only."""
    bus = a_bus()
    publish(bus, "md")
    durable, everything = bus.subscribe(after=0, passing=False), bus.subscribe(after=0)
    publish(bus, "dmdt")
    assert numbers(drain(durable)) == [1, 2, 3]
    assert numbers(drain(everything)) == [1, None, 2, None, 3]


def test_of_types_only_those_that_are_wanted_replayed_and_live() -> None:
    bus = a_bus()
    publish(bus, "mtm")
    ends = bus.subscribe(after=0, types=ENDS)
    publish(bus, "dmt", IN_A)
    assert numbers(drain(ends)) == [2, 5]
    in_a = bus.subscribe(after=0, types=ENDS, conversation=A)
    publish(bus, "t", IN_B)
    assert numbers(drain(in_a)) == [5]


def test_a_loss_is_told_only_where_it_is_one() -> None:
    """`subscriber_lagged` keeps its meaning: a range of events that this reader would have got."""
    bus = a_bus(ring_events=2)
    ends = bus.subscribe(types=ENDS, limit=1)
    durable = bus.subscribe(passing=False, limit=1)
    publish(bus, "dddmmmm")
    assert drain(ends) == [], "neither deltas nor messages are missed by a reader of ends"
    first, lagged, *rest = drain(durable)
    assert (first.seq, lagged.data, numbers(rest)) == (1, SubscriberLagged(2, 2, 0), [3, 4])
    publish(bus, "tmt")
    assert numbers(drain(ends)) == [5, 7]


def test_a_number_has_passed_though_its_event_was_not_wanted() -> None:
    """An answer waits for the events before it: those that are left out delay nothing."""
    bus = a_bus()
    ends = bus.subscribe(types=ENDS)
    publish(bus, "mm")
    assert ends.passed(2)
    publish(bus, "t")
    assert not ends.passed(3)
    drain(ends)
    assert ends.passed(3)


async def test_a_journal_that_fails_is_told_to_every_reader() -> None:
    journal = ScriptedJournal(asyncio.get_running_loop())
    bus = EventBus(SESSION, StillClock(), journal)
    ends, full = bus.subscribe(types=ENDS), bus.subscribe(types=frozenset({"agent_message"}), limit=1)
    publish(bus, "m")
    journal.commit()
    await asyncio.sleep(0)
    publish(bus, "m")
    journal.fail(StorageError("the disk is gone"))
    with pytest.raises(StorageError):
        await bus.flush()
    assert [event.type for event in drain(ends)] == ["error"]
    assert [(event.type, event.seq) for event in drain(full)] == [("agent_message", 1), ("subscriber_lagged", None)]


def test_where_every_reader_wants_durable_events_a_delta_is_not_even_stamped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 23: an observer that sleeps costs the server nothing but its socket."""
    bus = a_bus()
    stamped: list[EventData] = []
    publish_event = bus.publish

    def count(data: EventData, scope: EventScope) -> Event:
        stamped.append(data)
        return publish_event(data, scope)

    monkeypatch.setattr(bus, "publish", count)
    sleeper = bus.subscribe(passing=False)
    bus.publish_passing(delta(), IN_A)
    assert stamped == []
    reader = bus.subscribe()
    bus.publish_passing(delta(), IN_A)
    assert len(stamped) == 1
    reader.close()
    del reader
    gc.collect()
    publish_event(message())
    bus.publish_passing(delta(), IN_A)
    assert len(stamped) == 1
    assert numbers(drain(sleeper)) == [1]


async def test_a_session_takes_both_filters_and_refuses_types_that_there_are_not() -> None:
    async with Session.start(Settings(model=ScriptedModel(["hello"]))) as session:
        durable, ends = session.events(passing=False), session.events(types=["task_complete"])
        await session.root.message("hi")
        assert all(event.seq is not None for event in drain(durable))
        assert [event.type for event in drain(ends)] == ["task_complete"]
        with pytest.raises(errors.InvalidParamsError, match="task_complete"):
            session.events(types=["task_completed"])
        assert session.events(types=[]).next_nowait() is None
