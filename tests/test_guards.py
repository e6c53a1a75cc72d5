"""The guards really fail when something is wrong."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

import tertulia
from tertulia.testing import ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.guards import SessionWatch, WatchedLock, no_lock_over_an_await
from tests.session.staging import ticks


@pytest.fixture(autouse=True)
def _watch_locks() -> None:
    """Not here: what these tests break on purpose is not for the guard of the whole suite."""


@pytest.fixture
def ours() -> Any:
    """A module that looks like one of ours: only our own locks are watched."""
    module = ModuleType("tertulia.pretended")
    code = """
import asyncio, threading

def make():
    return threading.Lock()

def make_async():
    return asyncio.Lock()
"""
    exec(code, vars(module))  # noqa: S102
    return module


# ---- a lock held over an await


def watched(monkeypatch: pytest.MonkeyPatch, work: Any) -> list[str]:
    with no_lock_over_an_await(monkeypatch) as broken:
        asyncio.run(work())
        return list(broken)


def test_a_lock_that_is_held_over_an_await_is_found(monkeypatch: pytest.MonkeyPatch, ours: Any) -> None:
    """S002-33"""

    async def work() -> None:
        with ours.make():
            await asyncio.sleep(0)

    broken = watched(monkeypatch, work)
    assert broken
    assert "tertulia.pretended" in broken[0]


def test_a_lock_that_is_released_before_is_fine(monkeypatch: pytest.MonkeyPatch, ours: Any) -> None:
    async def work() -> None:
        lock = ours.make()
        for _ in range(3):
            with lock:
                assert lock.locked()
            await asyncio.sleep(0)

    assert watched(monkeypatch, work) == []


def test_a_lock_that_another_thread_holds_is_fine(monkeypatch: pytest.MonkeyPatch, ours: Any) -> None:
    async def work() -> None:
        lock, taken, done = ours.make(), threading.Event(), threading.Event()

        def hold() -> None:
            with lock:
                taken.set()
                done.wait(HANG_S)

        thread = threading.Thread(target=hold)
        thread.start()
        await asyncio.to_thread(taken.wait, 10)
        done.set()
        await asyncio.to_thread(thread.join, 10)

    assert watched(monkeypatch, work) == []


def test_a_lock_that_could_not_be_taken_is_not_held(monkeypatch: pytest.MonkeyPatch, ours: Any) -> None:
    async def work() -> None:
        lock = ours.make()
        lock.acquire()
        assert not lock.acquire(blocking=False)
        lock.release()
        await asyncio.sleep(0)

    assert watched(monkeypatch, work) == []


def test_an_asyncio_lock_of_ours_is_found_when_it_is_made(monkeypatch: pytest.MonkeyPatch, ours: Any) -> None:
    async def work() -> None:
        ours.make_async()

    (broken,) = watched(monkeypatch, work)
    assert "asyncio.Lock" in broken


def test_locks_of_others_are_their_own_business(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        asyncio.Lock()
        lock = threading.Lock()
        with lock:
            await asyncio.sleep(0)

    assert watched(monkeypatch, work) == []
    assert WatchedLock.held == set()


def test_every_other_test_of_the_suite_is_watched() -> None:
    with open(os.path.join(os.path.dirname(__file__), "conftest.py"), encoding="utf-8") as file:
        conftest = file.read()
    assert "@pytest.fixture(autouse=True)\ndef _watch_locks" in conftest
    assert "with no_lock_over_an_await(monkeypatch) as broken" in conftest


# ---- something left of a session


@tertulia.tool
async def stuck() -> str:
    """Wait until somebody stops it."""
    await asyncio.Event().wait()
    return "never"


async def started() -> tertulia.Session:
    model = ScriptedModel([say("", call("stuck"))])
    return await tertulia.Session.start(tertulia.Settings(model=model, tools=[stuck])).__aenter__()


async def test_a_session_that_was_closed_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """S002-10"""
    watch = SessionWatch(monkeypatch)
    session = await started()
    running = asyncio.create_task(session.root.message("hi"))
    await ticks()
    await session.close()
    await running
    del session, running
    await ticks(2)
    watch.check()


async def test_a_task_that_is_left_running_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = SessionWatch(monkeypatch)
    session = await started()
    running = asyncio.create_task(session.root.message("hi"))
    await ticks()
    with pytest.raises(AssertionError, match="left in the registry"):
        watch.check()
    await session.close()
    await running


async def test_a_coroutine_that_is_left_running_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = SessionWatch(monkeypatch)
    session = await started()
    leaked = session.parts.nursery.start(asyncio.sleep(3600), "leaked")
    with pytest.raises(AssertionError, match="left running"):
        watch.check()
    leaked.cancel()
    await session.close()


async def test_a_slot_that_is_not_released_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = SessionWatch(monkeypatch)
    session = await started()
    session.parts.scheduler.active.append(object())  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="slot"):
        watch.check()
    session.parts.scheduler.active.clear()
    await session.close()


async def test_a_conversation_that_somebody_keeps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = SessionWatch(monkeypatch, patience_s=0.1)
    session = await started()
    root = session.parts.conversations.root
    await session.close()
    del session
    with pytest.raises(AssertionError, match="outlived"):
        watch.check()
    assert root.status == "idle"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
def test_a_file_that_is_left_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = SessionWatch(monkeypatch, patience_s=0.1)
    read, write = os.pipe()
    with pytest.raises(AssertionError, match="file descriptors"):
        watch.check()
    os.close(read)
    os.close(write)
    watch.check()


@pytest.mark.parametrize("stage", ["session", "scheduler", "conversation"])
def test_the_stages_that_make_sessions_are_watched(stage: str) -> None:
    conftest = os.path.join(os.path.dirname(__file__), stage, "conftest.py")
    with open(conftest, encoding="utf-8") as file:
        assert "watch_sessions" in file.read()
    assert sys.modules["tests.guards"].watch_sessions
