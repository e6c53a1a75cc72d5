"""Somebody else's function is asked, and can be given up whatever it does."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tertulia.errors import InternalError, LimitError
from tertulia.tools import threads
from tertulia.tools import threads as cancellable_call
from tertulia.tools.threads import call_cancellable
from tests.deadlines import HANG_S
from tests.tables import each_row

DEADLINE_S = HANG_S


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


@each_row("function", [str.upper, lambda text: later(text.upper())])
async def test_plain_functions_are_asked_in_a_thread_and_what_they_promise_is_waited_for(function: Any) -> None:
    """S001-05"""
    seen: list[threading.Thread] = []

    def asked(text: str) -> Any:
        seen.append(threading.current_thread())
        return function(text)

    assert await call_cancellable(asked, "ada") == "ADA"
    assert seen != [threading.current_thread()]


async def test_more_than_there_are_threads_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 9: a hundred agents that start at once are all told everything."""
    monkeypatch.setattr(threads, "_slots", threading.BoundedSemaphore(2))
    release, running = threading.Event(), threading.Semaphore(0)

    def asked(number: int) -> int:
        running.release()
        release.wait(DEADLINE_S)
        return number

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        answers = [group.create_task(call_cancellable(asked, number)) for number in range(6)]
        await asyncio.to_thread(lambda: [running.acquire(timeout=DEADLINE_S) for _ in range(2)])
        assert not running.acquire(blocking=False)
        release.set()
    assert [task.result() for task in answers] == [0, 1, 2, 3, 4, 5]


async def test_where_no_thread_comes_free_asking_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_slots", threading.BoundedSemaphore(1))
    monkeypatch.setattr(cancellable_call, "_MAX_POLLS", 2)
    assert threads._slots.acquire(blocking=False)
    with pytest.raises(LimitError):
        await call_cancellable(str.upper, "ada")
    threads._slots.release()
    assert await call_cancellable(str.upper, "ada") == "ADA"


async def test_an_asynchronous_one_is_asked_here() -> None:
    """S001-05"""

    async def asked(text: str) -> Any:
        return await later(text), threading.current_thread()

    assert await call_cancellable(asked, "ada") == ("ada", threading.current_thread())


async def test_what_it_waits_for_may_fail_and_it_may_go_on() -> None:
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(broken.set_exception, ValueError("no"))

    async def asked() -> str:
        try:
            await broken
        except ValueError as error:
            return str(error)
        return "yes"

    assert await call_cancellable(asked) == "no"


@each_row("is_async", [True, False])
async def test_nobody_ends_the_process(is_async: bool) -> None:
    """HARDENING H6"""

    async def ends() -> None:
        raise SystemExit(3)

    def returns_awaitable() -> Any:
        return ends()

    with pytest.raises(InternalError, match="SystemExit"):
        await call_cancellable(ends if is_async else returns_awaitable)


async def test_who_is_cancelled_lets_it_clean_up() -> None:
    done: list[str] = []

    async def asked() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    task = asyncio.create_task(call_cancellable(asked))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["cleaned up"]


@each_row("deaf_to", [asyncio.CancelledError, BaseException])
async def test_one_that_does_not_stop_is_closed_by_the_second_cancellation(deaf_to: type[BaseException]) -> None:
    """HARDENING H1, H6: nobody waits for ever for somebody who swallows every cancellation."""
    heard: list[str] = []
    was_told = asyncio.Event()

    async def asked() -> None:
        # Cancelled, closed, and closed once more when it is collected, which must not be heard in another test.
        for _ in range(3):
            try:
                await asyncio.Event().wait()
            except deaf_to as error:
                heard.append(type(error).__name__)
                was_told.set()

    task = asyncio.create_task(call_cancellable(asked))
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.sleep(0)
        task.cancel()
        await was_told.wait()
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert heard[1:] == (["GeneratorExit"] if deaf_to is BaseException else [])


@each_row("times", [2, 3])
async def test_its_own_timeouts_are_its_own_affair(times: int) -> None:
    """HARDENING H1: they cancel the same task, and nobody gives it up for that."""

    async def asked() -> int:
        passed = 0
        for _ in range(times):
            try:
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                passed += 1
        return passed

    assert await call_cancellable(asked) == times
    assert cancellable_call.pending_cancellations() == 0


async def test_its_own_groups_may_fail() -> None:
    """HARDENING H1"""

    async def fails() -> None:
        raise ValueError("no")

    async def asked() -> int:
        failed = 0
        for _ in range(3):
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(fails())
                    await asyncio.Event().wait()
            except* ValueError:
                failed += 1
        return failed

    assert await call_cancellable(asked) == 3


async def test_two_timeouts_of_who_asks_stop_one_that_does_not_hear() -> None:
    """HARDENING H1: also one that has had timeouts of its own."""
    heard: list[str] = []

    async def asked() -> None:
        for _ in range(5):
            try:
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                heard.append("own")
        for _ in range(5):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard.append("outside")
                second.reschedule(0)

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as second, asyncio.timeout(0.05):
                await call_cancellable(asked)
    assert heard == [*["own"] * 5, "outside"]
