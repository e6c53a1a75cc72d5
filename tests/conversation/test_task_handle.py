"""The handle of a running task: it stops once, for one reason, in bounded time."""

from __future__ import annotations

import asyncio
import gc
import weakref

from tertulia.conversation.task_handle import TaskHandle
from tertulia.protocol.ids import TaskId
from tests.conversation.conversations import make_conversation
from tests.deadlines import HANG_S
from tests.events.scripted import ticks
from tests.tables import each_row

NEVER = 3_600.0


class StubbornJob:
    """A job that does not mind being cancelled once, and ends when it is told to."""

    def __init__(self) -> None:
        self.cancels = 0
        self.release = asyncio.Event()
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancels += 1
                if self.cancels > 1:
                    raise  # a test that failed must not hang as well

    async def finish(self) -> None:
        self.release.set()
        async with asyncio.timeout(HANG_S):
            await self.task


async def willing() -> None:
    """A job that waits until it is cancelled."""
    await asyncio.Event().wait()


def handle() -> TaskHandle:
    return TaskHandle(TaskId("t"), 12.5)


async def test_a_handle_knows_its_task_and_no_conversation() -> None:
    """S002-07: task_id, started_at, abort, status; holds no conversation."""
    fresh = handle()
    assert (fresh.task_id, fresh.started_at, fresh.status, fresh.reason) == ("t", 12.5, "running", None)
    assert not {"talk", "conversation", "conversation_id"} & set(TaskHandle.__slots__)
    assert not hasattr(fresh, "__dict__")


async def test_a_handle_keeps_no_conversation_alive() -> None:
    """S002-07, S002-10, G8: a conversation is gone when its owner lets go, without the collector."""
    gc.disable()
    try:
        conversation, running = make_conversation(), handle()
        conversation.task = running
        seen = weakref.ref(conversation)
        del conversation
        assert seen() is None
        assert running.status == "running"
    finally:
        gc.enable()


# ---- ending by itself


async def test_a_task_that_ends_by_itself_is_done() -> None:
    """S002-07"""
    running = handle()
    running.attach(asyncio.ensure_future(asyncio.sleep(0)))
    await ticks()
    running.end()
    assert (running.status, running.reason, running.abandoned) == ("done", None, False)
    assert running.ended.is_set()


async def test_aborting_what_has_ended_does_nothing() -> None:
    """H2"""
    running = handle()
    running.end()
    assert running.abort("interrupted", 0) is False
    await ticks()
    assert (running.status, running.reason, running.abandoned) == ("done", None, False)


async def test_an_abort_between_the_last_step_and_the_end_does_nothing() -> None:
    """The job is over, so there is nothing to stop: what it came to stands."""
    running = handle()
    running.attach(asyncio.ensure_future(asyncio.sleep(0)))
    await ticks()
    assert running.abort("interrupted", 0) is False
    running.end()
    assert running.status == "done"


async def test_ending_twice_changes_nothing() -> None:
    """H2"""
    running = handle()
    running.end()
    running.end()
    assert (running.status, running.abandoned) == ("done", False)


# ---- stopping


async def test_an_abort_cancels_the_job_and_keeps_its_reason() -> None:
    """S002-07"""
    running = handle()
    job = asyncio.ensure_future(willing())
    running.attach(job)
    await ticks()
    assert running.abort("interrupted", NEVER) is True
    await ticks()
    assert job.cancelled()
    assert running.status == "running"
    running.end()
    assert (running.status, running.reason, running.abandoned) == ("cancelled", "interrupted", False)


async def test_only_the_first_abort_counts() -> None:
    """H2: twice cancels once, and the first reason stands."""
    running, job = handle(), StubbornJob()
    running.attach(job.task)
    await ticks()
    assert running.abort("interrupted", NEVER) is True
    await ticks()
    assert running.abort("shutdown", NEVER) is False
    await ticks()
    assert (job.cancels, running.reason) == (1, "interrupted")
    await job.finish()
    running.end()


async def test_an_abort_before_the_job_is_there_is_carried_out_when_it_comes() -> None:
    running = handle()
    assert running.abort("timeout", NEVER) is True
    assert running.abort("timeout", NEVER) is False
    job = asyncio.ensure_future(willing())
    running.attach(job)
    await ticks()
    assert job.cancelled()
    running.end()
    assert (running.status, running.reason) == ("cancelled", "timeout")


async def test_a_job_that_does_not_stop_within_its_grace_is_given_up() -> None:
    """H3: whoever waits goes on without it."""
    running, job = handle(), StubbornJob()
    running.attach(job.task)
    await ticks()
    running.abort("interrupted", 0.0)
    async with asyncio.timeout(HANG_S):
        await running.stopped
    assert running.abandoned
    running.end()
    assert (running.status, running.abandoned, running.grace_s) == ("cancelled", True, 0.0)
    await job.finish()


async def test_a_job_that_stops_in_time_is_not_given_up() -> None:
    """H3: the timer goes with the task."""
    running = handle()
    job = asyncio.ensure_future(willing())
    running.attach(job)
    await ticks()
    running.abort("interrupted", NEVER)
    await ticks()
    assert job.cancelled()
    running.end()
    assert running.stopped.done()
    assert not running.abandoned


@each_row(("first", "second", "holds"), [(NEVER, 0.0, 0.0), (0.0, NEVER, 0.0), (60.0, NEVER, 60.0)])
async def test_the_shorter_of_two_graces_holds(first, second, holds) -> None:
    """H2, H3: closing with little patience what was interrupted with much."""
    running, job = handle(), StubbornJob()
    running.attach(job.task)
    await ticks()
    running.abort("interrupted", first)
    running.abort("shutdown", second)
    assert running.grace_s == holds
    if holds == 0.0:
        async with asyncio.timeout(HANG_S):
            await running.stopped
    assert running.abandoned is (holds == 0.0)
    await job.finish()
    running.end()


async def test_a_grace_that_is_long_over_forces_no_second_time() -> None:
    """H2: closing again, even with a deadline in the past."""
    running, job, errors = handle(), StubbornJob(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    running.attach(job.task)
    await ticks()
    running.abort("interrupted", 0.0)
    async with asyncio.timeout(HANG_S):
        await running.stopped
    assert running.abort("shutdown", -5.0) is False
    await ticks()
    assert (running.reason, running.abandoned, errors) == ("interrupted", True, [])
    await job.finish()
    running.end()


async def test_whoever_waits_for_the_end_is_woken() -> None:
    running = handle()
    waiting = asyncio.ensure_future(running.ended.wait())
    await ticks()
    assert not waiting.done()
    running.end()
    async with asyncio.timeout(HANG_S):
        assert await waiting is True
