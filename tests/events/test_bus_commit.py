"""The bus and its journal: nobody hears of what is not committed, and a failure is never silent."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable

import pytest

from tertulia.errors import InternalError, StoragePolicyViolationError, TertuliaError
from tertulia.events.bus import EventBus, EventScope
from tertulia.protocol.events import ErrorEvent, Event, ForeignEvent, SubscriberLagged
from tertulia.protocol.storage import StoragePolicy
from tests.events.scripted import (
    SESSION,
    A,
    B,
    ScriptedJournal,
    StillClock,
    delta,
    drain,
    ending,
    message,
    numbers,
    ticks,
)
from tests.loop_steps import MOST_S, loop_steps

FULL = OSError(28, "No space left on device")


@pytest.fixture
async def journal() -> ScriptedJournal:
    return ScriptedJournal(asyncio.get_running_loop())


@pytest.fixture
async def bus(journal: ScriptedJournal) -> EventBus:
    return EventBus(SESSION, StillClock(), journal)


async def outcome(waiting: asyncio.Task[None]) -> BaseException | None:
    """How a flush that must be over by now ended."""
    await ticks()
    assert waiting.done()
    return waiting.exception()


# ---- holding back


async def test_a_durable_event_is_committed_before_anybody_hears_of_it(bus, journal) -> None:
    subscription = bus.subscribe()
    event = bus.publish(message())
    assert (event.seq, bus.last_seq) == (1, 0)
    await ticks()
    assert drain(subscription) == []
    journal.commit()
    await ticks()
    assert drain(subscription) == journal.kept == [event]
    assert bus.last_seq == 1


async def test_many_large_events_that_are_committed_at_once_do_not_hold_the_loop(bus, journal) -> None:
    """L1: what each weighs was found out when all were delivered, in one step of 270 ms."""
    for _ in range(100):
        bus.publish(ForeignEvent("codex", {"steps": [{"step": "x", "status": "pending"}] * 1_000}))
        await ticks()
    async with loop_steps() as steps:
        journal.commit()
        await ticks()
    assert bus.last_seq == 100
    assert steps.longest_s < MOST_S / 2


async def test_passing_events_do_not_overtake_what_is_held(bus, journal) -> None:
    subscription = bus.subscribe()
    published = [bus.publish(data) for data in (delta(), message(), delta(), message(), delta())]
    assert drain(subscription) == published[:1]
    journal.commit(1)
    await ticks()
    assert drain(subscription) == published[1:3]
    journal.commit(1)
    await ticks()
    assert drain(subscription) == published[3:]
    passing = bus.publish(delta())
    assert drain(subscription) == [passing]


async def test_an_event_that_needs_no_commit_waits_for_its_predecessors_all_the_same(bus, journal) -> None:
    subscription = bus.subscribe()
    first = bus.publish(message())
    journal.holding = False
    second = bus.publish(message())
    assert drain(subscription) == []
    journal.commit()
    await ticks()
    assert drain(subscription) == [first, second]
    third = bus.publish(message())
    assert drain(subscription) == [third]


async def test_what_is_committed_is_delivered_at_the_latest_with_the_next_event(bus, journal) -> None:
    subscription = bus.subscribe()
    bus.publish(message())
    journal.commit()
    bus.publish(delta())
    assert numbers(drain(subscription)) == [1, None]


async def test_who_subscribes_now_hears_what_is_held_now(bus, journal) -> None:
    """What is not delivered yet is later than now, with a cursor and without: no gap, no repetition."""
    bus.publish(message())
    journal.commit()
    await ticks()
    bus.publish(message())
    late, replaying = bus.subscribe(), bus.subscribe(after=0)
    journal.commit()
    await ticks()
    assert numbers(drain(late)) == [2]
    assert numbers(drain(replaying)) == [1, 2]


async def test_what_is_held_has_not_passed(bus, journal) -> None:
    subscription = bus.subscribe()
    bus.publish(ending())
    assert not subscription.passed(1)
    journal.commit()
    await bus.flush()
    assert not subscription.passed(1)
    assert numbers(drain(subscription)) == [1]
    assert subscription.passed(1)


# ---- flush


async def test_a_flush_returns_when_all_that_was_published_before_it_is_delivered(bus, journal) -> None:
    await bus.flush()
    bus.publish(message())
    bus.publish(delta())
    flushing = asyncio.Task(bus.flush())
    await ticks()
    bus.publish(message())
    assert not flushing.done()
    journal.commit(1)
    assert await outcome(flushing) is None
    assert bus.last_seq == 1
    assert len(journal.open) == 1


async def test_a_flush_that_was_cancelled_leaves_no_trace(bus, journal) -> None:
    bus.publish(message())
    gone, stays = asyncio.Task(bus.flush()), asyncio.Task(bus.flush())
    await ticks()
    gone.cancel()
    journal.commit()
    assert await outcome(stays) is None
    assert gone.cancelled()


class Prompt(ScriptedJournal):
    """Tells whoever watches, and may do so as soon as somebody waits."""

    at_once: BaseException | bool = False

    def watch(self, settled: Callable[[], None]) -> bool:
        self._settled = settled
        return True

    def hurry(self) -> None:
        if isinstance(self.at_once, BaseException):
            self.fail(self.at_once)
            self._settled()
        elif self.at_once:
            self.commit()
            self._settled()

    def commit(self, count: int | None = None) -> None:
        super().commit(count)
        self._settled()


@pytest.fixture
async def prompt() -> Prompt:
    return Prompt(asyncio.get_running_loop())


async def test_a_journal_that_tells_at_once_is_heard_before_the_loop_turns(prompt: Prompt) -> None:
    bus = EventBus(SESSION, StillClock(), prompt)
    subscription = bus.subscribe()
    published = [bus.publish(data) for data in (message(), delta(), message())]
    assert drain(subscription) == []
    prompt.commit(1)
    assert drain(subscription) == published[:2]
    prompt.commit()
    assert drain(subscription) == published[2:]
    await ticks()
    assert drain(subscription) == []


async def test_a_flush_whose_hurry_settles_everything_waits_for_nothing(prompt: Prompt) -> None:
    bus = EventBus(SESSION, StillClock(), prompt)
    subscription = bus.subscribe()
    event = bus.publish(message())
    prompt.at_once = True
    await bus.flush()
    assert drain(subscription) == [event]


async def test_a_journal_that_tells_at_once_may_refuse_at_once_too(prompt: Prompt) -> None:
    """F5: what was complete when it was written is not told of, and is heard all the same."""
    bus = EventBus(SESSION, StillClock(), prompt)
    real = prompt.write

    def refuse(event: Event, storage: StoragePolicy | None = None) -> asyncio.Future[None] | None:
        written = real(event, storage)
        prompt.fail(FULL)
        return written

    prompt.write = refuse  # type: ignore[method-assign]
    bus.publish(message())
    with pytest.raises(InternalError):
        await bus.flush()
    prompt.write = real  # type: ignore[method-assign]
    assert bus.publish(message()).seq == 1
    prompt.commit()
    await bus.flush()


async def test_no_failure_that_is_told_at_once_is_reported_as_ignored(prompt: Prompt, caplog) -> None:
    bus = EventBus(SESSION, StillClock(), prompt)
    with caplog.at_level(logging.ERROR, "asyncio"):
        for data in (message(), delta(), message(), message()):
            bus.publish(data)
        prompt.at_once = FULL
        with pytest.raises(InternalError):
            await bus.flush()
        gc.collect()
        await ticks()
    assert caplog.records == []


async def test_a_flush_whose_hurry_fails_raises_it_once(prompt: Prompt) -> None:
    bus = EventBus(SESSION, StillClock(), prompt)
    bus.publish(message())
    prompt.at_once = StoragePolicyViolationError("headers only")
    with pytest.raises(StoragePolicyViolationError):
        await bus.flush()
    assert bus.last_seq == 0
    await bus.flush()
    prompt.at_once = True
    assert bus.publish(message()).seq == 1
    await bus.flush()


# ---- failing


async def test_after_a_failure_nothing_held_is_delivered_and_the_numbers_are_given_out_again(bus, journal) -> None:
    """F5, F6: what was acknowledged has no gaps."""
    subscription = bus.subscribe()
    for data in (message("kept"), message("lost"), delta(), message("lost too")):
        bus.publish(data)
    journal.commit(1)
    journal.fail(FULL)
    await ticks()
    delivered, failed = drain(subscription)
    assert (delivered.seq, delivered.data) == (1, message("kept"))
    assert (failed.seq, failed.sub_id, failed.conversation_id) == (None, SESSION, None)
    assert failed.data == ErrorEvent("internal", "the journal could not write: No space left on device")
    assert bus.last_seq == 1
    again = bus.publish(message("the disk is back"))
    assert again.seq == 2
    journal.commit()
    await ticks()
    assert drain(subscription) == [again]
    assert journal.kept == [delivered, again]


async def test_a_number_given_out_between_a_failure_and_its_notice_is_right(bus, journal) -> None:
    """The futures have failed, the loop has not run yet, and the next event comes; the journal checks its number."""
    subscription = bus.subscribe()
    bus.publish(message("lost"))
    bus.publish(message("lost too"))
    journal.fail(FULL)
    again = bus.publish(message("again"))
    assert again.seq == 1
    journal.commit()
    await ticks()
    assert [event.data for event in drain(subscription)][1:] == [message("again")]


async def test_events_written_before_the_journal_fails_are_lost_with_it_whatever_they_were_promised(
    bus, journal
) -> None:
    """One that needed no commit of its own stood behind one that failed: its number is given out again too."""
    subscription = bus.subscribe()
    bus.publish(message())
    journal.holding = False
    assert bus.publish(message()).seq == 2
    journal.fail(FULL)
    await ticks()
    assert numbers(drain(subscription)) == [None]
    assert bus.publish(message()).seq == 1
    assert numbers(drain(subscription)) == [1]


async def test_every_flush_that_waits_for_a_lost_event_raises(bus, journal) -> None:
    bus.publish(message())
    first = asyncio.Task(bus.flush())
    await ticks()
    bus.publish(message())
    second = asyncio.Task(bus.flush())
    await ticks()
    journal.fail(FULL)
    error = await outcome(first)
    assert isinstance(error, InternalError)
    assert error.__cause__ is FULL
    assert await outcome(second) is error
    await bus.flush()


async def test_a_failure_that_nobody_waited_for_is_raised_by_the_next_flush_once(bus, journal) -> None:
    bus.publish(message())
    waiting = asyncio.Task(bus.flush())
    await ticks()
    bus.publish(message("after the flush"))
    journal.fail(FULL)
    await ticks()
    assert isinstance(await outcome(waiting), InternalError)
    bus.publish(message())
    with pytest.raises(InternalError):
        await bus.flush()
    journal.commit()
    await bus.flush()
    assert bus.last_seq == 1


async def test_a_flush_that_was_cancelled_has_heard_nothing(bus, journal) -> None:
    bus.publish(message())
    waiting = asyncio.Task(bus.flush())
    await ticks()
    waiting.cancel()
    await ticks()
    journal.fail(FULL)
    with pytest.raises(InternalError):
        await bus.flush()


async def test_an_error_of_ours_is_raised_and_told_as_it_came(bus, journal) -> None:
    subscription = bus.subscribe()
    refusal = StoragePolicyViolationError("headers only")
    bus.publish(message())
    journal.fail(refusal)
    with pytest.raises(TertuliaError) as raised:
        await bus.flush()
    assert raised.value is refusal
    assert drain(subscription)[0].data == ErrorEvent("storage_policy_violation", "headers only")


async def test_a_journal_that_was_cancelled_has_failed(bus, journal) -> None:
    bus.publish(message())
    journal.fail(None)
    with pytest.raises(InternalError, match="stopped"):
        await bus.flush()
    assert bus.last_seq == 0


async def test_a_failure_is_told_to_every_listener_whatever_its_filter(bus, journal) -> None:
    everything, only_b, slow = bus.subscribe(), bus.subscribe(conversation=B), bus.subscribe(limit=1)
    journal.holding = False
    bus.publish(message())
    bus.publish(message())
    journal.holding = True
    bus.publish(message(), EventScope("1", A))
    journal.fail(FULL)
    await ticks()
    assert [event.type for event in drain(everything)] == ["agent_message", "agent_message", "error"]
    assert [event.type for event in drain(only_b)] == ["error"]
    heard = drain(slow)
    assert numbers(heard) == [1, None, 2]
    assert heard[1].data == SubscriberLagged(None, None, 1), "one that is behind hears that it missed something"


async def test_a_failure_is_not_told_to_those_who_left(bus, journal) -> None:
    closed, finished = bus.subscribe(), bus.subscribe()
    bus.publish(message())
    closed.close()
    finished.finish()
    journal.fail(FULL)
    await ticks()
    assert drain(closed) == drain(finished) == []


async def test_the_notice_of_a_failure_that_is_already_queued_outlives_a_lag(bus, journal) -> None:
    slow = bus.subscribe(limit=2)
    bus.publish(message())
    journal.fail(FULL)
    await ticks()
    journal.holding = False
    for data in (delta(), delta(), message()):
        bus.publish(data)
    heard = drain(slow)
    assert [event.type for event in heard] == ["error", "subscriber_lagged", "agent_message"]
    assert heard[1].data == SubscriberLagged(None, None, 2)


async def test_no_failure_is_reported_as_ignored(bus, journal, caplog) -> None:
    """Every future that failed was looked at, in whatever order they fail."""
    with caplog.at_level(logging.ERROR, "asyncio"):
        for _ in range(3):
            bus.publish(message())
        futures = [future for _, future in journal.open]
        journal.open.clear()
        futures[0].set_exception(FULL)
        await ticks()
        for future in futures[1:]:
            future.set_exception(FULL)
        await ticks()
        del futures, future
        with pytest.raises(InternalError):
            await bus.flush()
    assert caplog.records == []


# ---- closing


async def test_what_is_held_at_close_is_written_but_nobody_hears_of_it(bus, journal) -> None:
    live, behind = bus.subscribe(), bus.subscribe(limit=1)
    journal.holding = False
    bus.publish(message())
    bus.publish(message())
    journal.holding = True
    bus.publish(message())
    flushing = asyncio.Task(bus.flush())
    await ticks()
    bus.close()
    journal.commit()
    assert await outcome(flushing) is None
    assert len(journal.kept) == 3
    assert numbers(drain(live)) == numbers(drain(behind)) == [1, 2]
    assert bus.last_seq == 2


async def test_a_failure_after_close_still_reaches_its_flush(bus, journal) -> None:
    bus.publish(message())
    flushing = asyncio.Task(bus.flush())
    await ticks()
    bus.close()
    journal.fail(FULL)
    assert isinstance(await outcome(flushing), InternalError)
