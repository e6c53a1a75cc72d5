"""The thread: born with the first job, gone with the last, one wake-up for a batch."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.rollout.job_runner import Append, Claim, Close
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.sqlite_store import WriterThread
from tests.deadlines import HANG_S
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import asked, row
from tests.rollout.still_clock import FakeClock


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("tertulia writer")]


@pytest.fixture
def writer(tmp_path: Path) -> WriterThread:
    return WriterThread(OwnedFile(session_files(tmp_path / "home", SESSION_ID), FakeClock()), SESSION_ID)


async def test_the_thread_lives_from_the_first_job_to_the_close(writer: WriterThread) -> None:
    assert threads() == []
    await asked(lambda done: writer.put(Claim(done)))
    (thread,) = threads()
    assert thread.daemon
    await asked(lambda done: writer.put(Close(done)))
    thread.join(HANG_S)
    assert threads() == []


async def test_all_answers_of_a_batch_come_in_one_wake_up(
    writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, wakes = asyncio.get_running_loop(), []
    real = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: wakes.append(1) or real(*args))
    await asked(lambda done: writer.put(Claim(done)))
    gate = threading.Event()
    claim = writer._file.claim
    monkeypatch.setattr(writer._file, "claim", lambda: (gate.wait(HANG_S), claim()))
    writer.put(Claim(lambda error: None))
    for n in range(1, 101):
        writer.put(Append([row(n)], 0, lambda error: None))
    wakes.clear()
    gate.set()
    await asked(lambda done: writer.put(Close(done)))
    assert len(wakes) <= 3


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), AttributeError("eventfd")])
async def test_without_a_bell_answers_come_all_the_same(
    writer: WriterThread, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """F8: no descriptor left, or a system without such a thing."""

    def refuse(*args: object) -> int:
        raise error

    monkeypatch.setattr(os, "eventfd", refuse)
    for n in (1, 2):
        assert await asked(lambda done, n=n: writer.put(Append([row(n)], 0, done))) is None
    assert await asked(lambda done: writer.put(Close(done))) is None


async def test_an_answer_that_raises_is_between_it_and_the_loop(writer: WriterThread) -> None:
    """All others are told, in order, in the same batch and after it."""
    loop, errors = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    told: list[int] = []

    def careless(error: object) -> None:
        raise ZeroDivisionError

    gate = threading.Event()
    claim = writer._file.claim
    writer._file.claim = lambda: (gate.wait(HANG_S), claim())  # type: ignore[method-assign, assignment]
    writer.put(Claim(careless))
    writer.put(Append([row(1)], 0, lambda error: told.append(1)))
    writer.put(Append([row(2)], 0, careless))
    gate.set()
    await asked(lambda done: writer.put(Append([row(3)], 0, done)))
    writer.put(Append([row(4)], 0, careless))
    await asked(lambda done: writer.put(Close(done)))
    loop.set_exception_handler(None)
    assert told == [1]
    assert [type(error) for error in errors] == [ZeroDivisionError] * 3


async def test_no_descriptor_is_left_when_it_is_closed(writer: WriterThread) -> None:
    """Target 8."""
    before = sorted(os.listdir("/proc/self/fd"))
    await asked(lambda done: writer.put(Claim(done)))
    (thread,) = threads()
    await asked(lambda done: writer.put(Close(done)))
    thread.join(HANG_S)
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_no_thread_to_be_had_is_told_and_a_later_job_tries_again(
    writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        error = await asked(lambda done: writer.put(Append([row(1)], 0, done)))
    assert isinstance(error, StorageError)
    assert "no thread" in error.message
    assert await asked(lambda done: writer.put(Append([row(1)], 1, done))) is None
    await asked(lambda done: writer.put(Close(done)))


def test_a_loop_that_is_gone_is_not_waited_for(writer: WriterThread) -> None:
    """H7: the process may end its loop while the disk is still busy."""
    gate = threading.Event()
    real = writer._file.claim

    def slow() -> None:
        gate.wait(HANG_S)
        real()

    writer._file.claim = slow  # type: ignore[method-assign]

    async def leave() -> threading.Thread:
        writer.put(Claim(lambda error: pytest.fail("nobody is there")))
        writer.put(Close(lambda error: pytest.fail("nobody is there")))
        return threads()[0]

    before = sorted(os.listdir("/proc/self/fd"))
    thread = asyncio.run(leave())
    gate.set()
    thread.join(HANG_S)
    assert not thread.is_alive()
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_fault_of_ours_in_the_thread_leaves_nobody_waiting(
    writer: WriterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant: whoever waits is told; what comes later is refused at once, and closing works."""
    await asked(lambda done: writer.put(Claim(done)))
    (thread,) = threads()
    begun, gate = threading.Event(), threading.Event()

    def breaks(rows: object) -> None:
        begun.set()
        gate.wait(HANG_S)
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(writer._file, "commit", breaks)
    first: list[object] = []
    writer.put(Append([row(1)], 0, first.append))
    assert begun.wait(HANG_S)
    writer.put(Append([row(2)], 0, first.append))
    gate.set()
    refused = await asked(lambda done: writer.put(Append([row(3)], 0, done)))
    assert isinstance(refused, StorageError)
    assert "broke down" in refused.message
    assert [type(error) for error in first] == [StorageError, StorageError]
    thread.join(HANG_S)
    assert isinstance(await asked(lambda done: writer.put(Append([row(4)], 0, done))), StorageError)
    assert isinstance(await asked(lambda done: writer.put(Close(done))), StorageError)
    assert threads() == []
