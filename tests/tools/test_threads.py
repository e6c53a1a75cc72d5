"""Synchronous functions in threads of their own."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from tertulia.errors import InternalError, InvalidParamsError, LimitError
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.tools import threads
from tertulia.tools.threads import MAX_THREADS, run_in_thread, thread_context
from tertulia.tools.tool import CallContext
from tests.deadlines import HANG_S
from tests.tables import each_row
from tests.tools.calling import context

who = contextvars.ContextVar("who", default="nobody")
DEADLINE = HANG_S


class Gate:
    """A function that tells when it is entered and stays until it is let go."""

    def __init__(self) -> None:
        self.entered: asyncio.Queue[None] = asyncio.Queue()
        self.open = threading.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> str:
        self._loop.call_soon_threadsafe(self.entered.put_nowait, None)
        assert self.open.wait(DEADLINE)
        return "through"


def join_all() -> None:
    for thread in threading.enumerate():
        if thread.name == "tertulia tool":
            thread.join(DEADLINE)
            assert not thread.is_alive()


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()
    join_all()


async def test_the_result_comes_from_another_thread() -> None:
    def adding(a: int, b: int) -> tuple[int, threading.Thread]:
        return a + b, threading.current_thread()

    total, thread = await run_in_thread(adding, 1, 2)
    assert total == 3
    assert thread is not threading.current_thread()


async def test_context_variables_go_along_and_changes_do_not_come_back() -> None:
    def changing() -> str:
        before = who.get()
        who.set("the thread")
        return before

    who.set("the caller")
    assert await run_in_thread(changing) == "the caller"
    assert who.get() == "the caller"


async def test_an_error_is_raised_where_it_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)


@each_row("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration])
async def test_what_would_end_a_thread_or_confuse_the_loop_is_an_ordinary_error(kind: type[BaseException]) -> None:
    def leave() -> None:
        raise kind

    with pytest.raises(InternalError, match=kind.__name__):
        await run_in_thread(leave)


async def test_a_cancelled_caller_leaves_at_once_and_the_late_result_is_dropped(gate: Gate) -> None:
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        waiting = group.create_task(run_in_thread(gate))
        await gate.entered.get()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert not gate.open.is_set()
        gate.open.set()
        assert await run_in_thread(lambda: "next") == "next"


async def test_threads_are_counted_until_they_end(gate: Gate) -> None:
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        first, *others = [group.create_task(run_in_thread(gate)) for _ in range(MAX_THREADS)]
        for _ in range(MAX_THREADS):
            await gate.entered.get()
        with pytest.raises(LimitError, match=str(MAX_THREADS)):
            await run_in_thread(lambda: "one too many")
        for one in others:
            one.cancel()
        await asyncio.wait(others)
        with pytest.raises(LimitError):
            await run_in_thread(lambda: "abandoned threads still count")
        gate.open.set()
        assert await first == "through"
        join_all()
        assert await run_in_thread(lambda: "room again") == "room again"


async def test_where_no_thread_can_be_started_the_slot_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = threads._slots._value
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(LimitError, match="no thread could be started"):
            await run_in_thread(lambda: None)
    assert threads._slots._value == before


async def test_what_a_function_publishes_is_told_on_the_loop_in_order_and_before_its_result() -> None:
    """G4: the bus is not for threads."""
    lines: list[tuple[str, bool]] = []

    def publish(data: EventData) -> None:
        assert isinstance(data, WarningEvent)
        lines.append((data.message, threading.current_thread() is threading.main_thread()))
        if data.message == "late":
            raise asyncio.CancelledError
        if data.message == "bad":
            raise InvalidParamsError("no")

    call = thread_context(context(publish))

    def work() -> str:
        for message in ("one", "late", "bad", "two"):
            call.publish(WarningEvent(message))
        return "done"

    assert await run_in_thread(work) == "done"
    assert lines == [("one", True), ("late", True), ("bad", True), ("two", True)]


def test_publishing_to_a_loop_that_is_gone_disturbs_nobody() -> None:
    async def made() -> CallContext:
        return thread_context(context())

    asyncio.run(made()).publish(WarningEvent("nobody hears"))


def test_a_result_for_a_loop_that_is_gone_disturbs_nobody() -> None:
    """Pytest fails this test if the thread ends with an exception."""

    async def leave() -> Gate:
        gate = Gate()
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            waiting = group.create_task(run_in_thread(gate))
            await gate.entered.get()
            waiting.cancel()
        return gate

    gate = asyncio.run(leave())
    gate.open.set()
    join_all()


STUCK = """
import asyncio, threading
from tertulia.tools.threads import run_in_thread
async def main():
    started = threading.Event()
    def stuck():
        started.set()
        threading.Event().wait()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(run_in_thread(stuck))
        while not started.is_set():
            await asyncio.sleep(0)
        waiting.cancel()
asyncio.run(main())
"""


def test_a_function_that_never_returns_does_not_hold_the_process() -> None:
    """H3-like: a stuck synchronous tool."""
    assert subprocess.run([sys.executable, "-c", STUCK], timeout=HANG_S, check=False).returncode == 0
