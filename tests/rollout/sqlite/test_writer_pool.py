"""The threads that all sessions of a loop share: few, in order, and none of them held up by another's disk."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import ClosedError, StorageError
from tertulia.protocol.ids import new_session_id
from tertulia.rollout.job_runner import Append, Claim, Close
from tertulia.rollout.sqlite import writer_pool
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.sqlite_store import SessionWriter, SqliteStore
from tertulia.rollout.sqlite.writer_pool import MOST_HELPERS
from tests.deadlines import HANG_S
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import answer_from, row
from tests.rollout.still_clock import FakeClock


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("tertulia writer")]


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def _earlier_threads_have_ended() -> None:
    """The threads of an earlier test end by themselves, on a busy machine only after its end."""
    for thread in threads():
        thread.join(HANG_S)


Make = Callable[..., SessionWriter]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes the writer of another session."""

    def make(session_id: str | None = None, *, waits_for_disk: bool = False) -> SessionWriter:
        session_id = session_id or new_session_id()
        file = OwnedFile(session_files(tmp_path / "home", session_id), FakeClock())
        return SessionWriter(file, session_id, waits_for_disk=waits_for_disk)

    return make


@pytest.fixture
def writer(make: Make) -> SessionWriter:
    return make(SESSION_ID)


class Gate:
    """Stands before the disk of a session: nothing passes until it is open."""

    def __init__(self, *writers: SessionWriter) -> None:
        self.passed, self.opened = threading.Event(), threading.Event()
        for writer in writers:
            writer._file.claim = self._slow(writer._file.claim)  # type: ignore[method-assign]

    def _slow(self, claim: Callable[[], None]) -> Callable[[], None]:
        def slow() -> None:
            self.passed.set()
            assert self.opened.wait(HANG_S)
            claim()

        return slow


async def claim(writer: SessionWriter) -> object:
    return await answer_from(lambda done: writer.put(Claim(done)))


async def append(writer: SessionWriter, n: int = 1, attempt: int = 0) -> object:
    return await answer_from(lambda done: writer.put(Append([row(n)], attempt, done)))


async def close(*writers: SessionWriter) -> list[object]:
    return [await answer_from(lambda done, writer=writer: writer.put(Close(done))) for writer in writers]


async def test_a_thread_lives_from_the_first_job_to_the_close(writer: SessionWriter) -> None:
    assert threads() == []
    await claim(writer)
    (thread,) = threads()
    assert thread.daemon
    await close(writer)
    thread.join(HANG_S)
    assert threads() == []
    with pytest.raises(ClosedError):
        writer.put(Claim(lambda error: None))


async def test_what_was_never_used_is_closed_without_a_thread(writer: SessionWriter) -> None:
    assert await close(writer) == [None]
    assert threads() == []


async def test_a_hundred_sessions_share_one_thread_and_one_wake_up_descriptor(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_pool, "STALL_S", HANG_S)
    before = len(descriptors())
    writers = [make() for _ in range(100)]
    assert await asyncio.gather(*(claim(writer) for writer in writers)) == [None] * 100
    assert len(threads()) == 1
    assert await asyncio.gather(*(append(writer) for writer in writers)) == [None] * 100
    assert len(threads()) == 1
    assert await close(*writers) == [None] * 100
    # A helper that a slow disk called in ends by itself too, in its own time.
    for thread in threads():
        thread.join(HANG_S)
    assert len(descriptors()) <= before, "what earlier tests left may have been closed meanwhile"
    assert threads() == []


async def test_each_session_s_jobs_are_done_in_order(make: Make) -> None:
    writers, numbers = [make(waits_for_disk=True) for _ in range(10)], dict[int, list[int]]()
    for n in range(1, 51):
        for index, writer in enumerate(writers):
            writer.put(Append([row(n)], 0, lambda error, n=n, index=index: numbers.setdefault(index, []).append(n)))
        if n % 7 == 0:
            await asyncio.sleep(0)
    assert await close(*writers) == [None] * 10
    assert numbers == {index: list(range(1, 51)) for index in range(10)}


async def test_all_answers_of_a_batch_come_in_one_wake_up(
    writer: SessionWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, wakes = asyncio.get_running_loop(), []
    real = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: wakes.append(1) or real(*args))
    await claim(writer)
    gate = Gate(writer)
    writer.put(Claim(lambda error: None))
    for n in range(1, 101):
        writer.put(Append([row(n)], 0, lambda error: None))
    wakes.clear()
    gate.opened.set()
    await close(writer)
    assert len(wakes) <= 3


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), AttributeError("eventfd")])
async def test_without_an_eventfd_answers_come_all_the_same(
    writer: SessionWriter, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """F8: no descriptor left, or a system without such a thing."""

    def refuse(*args: object) -> int:
        raise error

    monkeypatch.setattr(os, "eventfd", refuse)
    for n in (1, 2):
        assert await append(writer, n) is None
    assert await close(writer) == [None]


async def test_an_answer_that_raises_is_between_it_and_the_loop(writer: SessionWriter) -> None:
    """All others are told, in order, in the same batch and after it."""
    loop, errors = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    counts: list[int] = []

    def careless(error: object) -> None:
        raise ZeroDivisionError

    gate = Gate(writer)
    writer.put(Claim(careless))
    writer.put(Append([row(1)], 0, lambda error: counts.append(1)))
    writer.put(Append([row(2)], 0, careless))
    gate.opened.set()
    await append(writer, 3)
    # One that is too long for the loop's own thread.
    writer.put(Append([row(4, b'"%b"' % (b"x" * 100_000))], 0, careless))
    await close(writer)
    loop.set_exception_handler(None)
    assert counts == [1]
    assert [type(error) for error in errors] == [ZeroDivisionError] * 3


async def test_no_descriptor_is_left_when_it_is_closed(writer: SessionWriter) -> None:
    """Target 8."""
    before = descriptors()
    await claim(writer)
    (thread,) = threads()
    await close(writer)
    thread.join(HANG_S)
    assert descriptors() == before


async def test_what_another_thread_has_taken_leaves_no_answer_untold(make: Make) -> None:
    """A thread sees more work, holds its answers back for it, and finds it gone."""

    class Contested(deque[Any]):
        def __bool__(self) -> bool:
            return True

    writers = [make(), make()]
    await asyncio.gather(*(claim(writer) for writer in writers))
    (pool,) = writer_pool._pools.values()
    pool._ready = Contested(pool._ready)
    assert await asyncio.gather(*(append(writer) for writer in writers)) == [None, None]
    pool._ready = deque(pool._ready)
    await close(*writers)


async def test_how_far_it_is_grows_with_all_that_is_done(tmp_path: Path) -> None:
    """One of many that are closed together can tell whether it is worth waiting."""
    store = SqliteStore(tmp_path / "home", SESSION_ID, FakeClock())
    assert store.progress == 0
    await answer_from(store.claim)
    first = store.progress
    assert first > 0
    await answer_from(lambda done: store.append([row(1)], 0, done))
    assert store.progress > first
    await answer_from(store.close)


# ── a slow disk ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_disk_that_hangs_holds_up_no_other_session(make: Make) -> None:
    """What was done before it in the same pass is told, and what comes after it is done by another thread."""
    before, stuck, after, late = (make() for _ in range(4))
    await asyncio.gather(*(claim(writer) for writer in (before, after, late)))
    gate = Gate(stuck)
    tasks = [asyncio.ensure_future(append(before)), asyncio.ensure_future(claim(stuck))]
    tasks.append(asyncio.ensure_future(append(after)))
    assert await asyncio.wait_for(tasks[0], HANG_S) is None
    assert await asyncio.wait_for(tasks[2], HANG_S) is None
    assert gate.passed.is_set()
    assert await asyncio.wait_for(append(late), HANG_S) is None
    assert not tasks[1].done()
    assert len(threads()) == 2
    gate.opened.set()
    assert await tasks[1] is None
    workers = threads()
    await close(before, stuck, after, late)
    for worker in workers:
        worker.join(HANG_S)
    assert threads() == []


async def test_sessions_that_wait_for_the_disk_do_not_wait_for_each_other(make: Make) -> None:
    """durability "full": as many threads as sessions, up to the limit, and the same ones again."""
    writers = [make(waits_for_disk=True) for _ in range(MOST_HELPERS + 3)]
    await claim(writers[-1])
    for _ in range(2):
        gate = Gate(*writers[:-1])
        tasks = [asyncio.ensure_future(claim(writer)) for writer in writers[:-1]]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(threads()) == MOST_HELPERS + 1
        gate.opened.set()
        assert await asyncio.gather(*tasks) == [None] * len(tasks)
    await close(*writers)


async def test_where_no_helper_can_be_started_it_only_takes_longer(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    writers = [make(waits_for_disk=True) for _ in range(3)]
    await claim(writers[0])

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert await asyncio.gather(*(append(writer) for writer in writers)) == [None] * 3
    assert len(threads()) == 1
    await close(*writers)


async def test_an_idle_pool_has_no_timer(make: Make) -> None:
    """Nothing wakes a process whose sessions are idle."""
    writers = [make() for _ in range(5)]
    await asyncio.gather(*(append(writer) for writer in writers))
    (pool,) = writer_pool._pools.values()
    looked = asyncio.get_running_loop().time() + HANG_S
    while pool._look is not None:
        assert asyncio.get_running_loop().time() < looked
        await asyncio.sleep(writer_pool.STALL_S)
    assert pool._ready == pool._answers == type(pool._ready)()
    await close(*writers)


# ── what can go wrong ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_no_thread_to_be_had_is_told_and_a_later_job_tries_again(
    writer: SessionWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        error = await append(writer)
    assert isinstance(error, StorageError)
    assert "no thread" in error.message
    assert await append(writer, 1, 1) is None
    await close(writer)


@pytest.mark.parametrize("has_waker", [True, False])
def test_a_loop_that_is_gone_is_not_waited_for(make: Make, monkeypatch: pytest.MonkeyPatch, *, has_waker: bool) -> None:
    """H7: the process may end its loop while the disk is still busy."""
    if not has_waker:
        monkeypatch.delattr(os, "eventfd")
    writers = [make(), make()]
    gate = Gate(*writers)

    async def leave() -> list[threading.Thread]:
        for writer in writers:
            writer.put(Claim(lambda error: pytest.fail("no receiver is there")))
        await asyncio.sleep(0)
        for writer in writers:
            writer.put(Close(lambda error: pytest.fail("no receiver is there")))
        await asyncio.sleep(0)
        return threads()

    before = descriptors()
    workers = asyncio.run(leave())
    assert workers
    gate.opened.set()
    for worker in workers:
        worker.join(HANG_S)
        assert not worker.is_alive()
    assert descriptors() == before
    assert not writer_pool._pools


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("waits_for_disk", [False, True])
async def test_a_fault_of_ours_fails_one_session_and_no_other(
    make: Make, monkeypatch: pytest.MonkeyPatch, *, waits_for_disk: bool
) -> None:
    """Invariant: every caller is told; what comes later is refused at once, closing works, and others go on."""
    writer, other, blocking = make(), make(), make(waits_for_disk=waits_for_disk)
    await asyncio.gather(claim(writer), claim(other))
    gate = Gate(blocking)
    blocked = None
    if waits_for_disk:
        # With the first thread in use, the fault meets a helper.
        blocked = asyncio.ensure_future(claim(blocking))
        assert await asyncio.to_thread(gate.passed.wait, HANG_S)
    begun, opened = threading.Event(), threading.Event()

    def breaks(rows: object) -> None:
        begun.set()
        opened.wait(HANG_S)
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(writer._file, "commit", breaks)
    first: list[object] = []
    writer.put(Append([row(1)], 0, first.append))
    assert await asyncio.to_thread(begun.wait, HANG_S)
    writer.put(Append([row(2)], 0, first.append))
    opened.set()
    refused = await append(writer, 3)
    assert isinstance(refused, StorageError)
    assert "broke down" in refused.message
    assert [type(error) for error in first] == [StorageError, StorageError]
    assert isinstance(await append(writer, 4), StorageError)
    assert isinstance((await close(writer))[0], StorageError)
    assert await append(other) is None
    gate.opened.set()
    if blocked is not None:
        assert await blocked is None
        await close(blocking)
    workers = threads()
    await close(other)
    for worker in workers:
        worker.join(HANG_S)
    assert threads() == []
