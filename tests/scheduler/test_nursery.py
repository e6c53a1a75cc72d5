"""Nothing runs unowned."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from tertulia.scheduler.nursery import Nursery
from tests.deadlines import HANG_S
from tests.events.scripted import ticks


async def forever() -> None:
    await asyncio.Event().wait()


async def failing() -> None:
    await asyncio.sleep(0)
    raise ValueError("broken")


async def test_a_coroutine_runs_and_is_forgotten_when_it_ends() -> None:
    nursery = Nursery()

    async def five() -> int:
        return 5

    task = nursery.start(five(), "five")
    assert (len(nursery), task.get_name()) == (1, "five")
    assert await task == 5
    await ticks()
    assert len(nursery) == 0


async def test_what_runs_is_held_even_if_nobody_else_holds_it() -> None:
    """The loop itself holds tasks only weakly."""
    nursery, done = Nursery(), asyncio.Event()

    async def set_it() -> None:
        await asyncio.sleep(0)
        done.set()

    nursery.start(set_it(), "unheld")
    async with asyncio.timeout(HANG_S):
        await done.wait()


async def test_a_failure_is_logged_and_hurts_no_sibling(caplog: pytest.LogCaptureFixture) -> None:
    """H6"""
    nursery = Nursery()
    sibling = nursery.start(forever(), "sibling")
    with caplog.at_level(logging.ERROR):
        nursery.start(failing(), "the broken one")
        await ticks()
    (record,) = caplog.records
    assert record.getMessage().startswith("a background task failed: the broken one: ValueError scheduler/")
    assert record.exc_info is None, "whose text it had is not known, so its text is not logged"
    assert not sibling.done()
    assert len(nursery) == 1
    assert await nursery.close(10) == 0


async def test_a_cancellation_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    nursery = Nursery()
    task = nursery.start(forever(), "waits")
    await ticks()
    task.cancel()
    await ticks()
    assert caplog.records == []
    assert len(nursery) == 0


async def test_closing_cancels_all_and_waits_for_them() -> None:
    nursery, tidied = Nursery(), list[int]()

    async def tidy(number: int) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            tidied.append(number)

    tasks = [nursery.start(tidy(number), f"t{number}") for number in range(3)]
    await ticks()
    assert await nursery.close(10) == 0
    assert sorted(tidied) == [0, 1, 2]
    assert all(task.done() for task in tasks)


async def test_closing_what_is_empty_or_closed_is_harmless() -> None:
    """H2"""
    nursery = Nursery()
    assert await nursery.close(0) == 0
    nursery.start(forever(), "waits")
    assert await nursery.close(10) == 0
    assert await nursery.close(10) == 0


async def test_what_will_not_end_is_counted_and_left_behind() -> None:
    """H3: closing takes no longer than it was given."""
    nursery, release = Nursery(), asyncio.Event()

    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await release.wait()
        await release.wait()

    left = nursery.start(stubborn(), "stubborn")
    nursery.start(forever(), "willing")
    await ticks()
    async with asyncio.timeout(HANG_S):
        assert await nursery.close(0) == 1
    assert not left.done()
    release.set()
    async with asyncio.timeout(HANG_S):
        await left
    assert len(nursery) == 0


async def test_what_is_started_while_closing_is_counted_too() -> None:
    nursery = Nursery()

    async def leaves_a_successor() -> None:
        try:
            await forever()
        finally:
            nursery.start(forever(), "successor")

    nursery.start(leaves_a_successor(), "first")
    await ticks()
    assert await nursery.close(10) == 1
    assert await nursery.close(10) == 0


async def test_one_of_the_nursery_can_close_it_without_waiting_for_itself() -> None:
    nursery, left = Nursery(), list[int]()

    async def close() -> None:
        left.append(await nursery.close(10))

    nursery.start(forever(), "other")
    closer = nursery.start(close(), "closer")
    async with asyncio.timeout(HANG_S):
        await closer
    assert left == [0]
