"""The thread: born with the first job, gone with the last, one wake-up for a batch."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tertulia.errors import StorageError
from tertulia.rollout.files import session_files
from tertulia.rollout.jobs import Append, Claim, Close
from tertulia.rollout.owned_file import OwnedFile
from tertulia.rollout.writer import Writer
from tests.rollout.scribe import SESSION_ID
from tests.rollout.stages import asked, row
from tests.rollout.still_clock import FakeClock


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("tertulia writer")]


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(OwnedFile(session_files(tmp_path / "home", SESSION_ID), FakeClock()), SESSION_ID)


async def test_the_thread_lives_from_the_first_job_to_the_close(writer: Writer) -> None:
    assert threads() == []
    await asked(lambda done: writer.put(Claim(done)))
    (thread,) = threads()
    assert thread.daemon
    await asked(lambda done: writer.put(Close(done)))
    thread.join(5)
    assert threads() == []


async def test_all_answers_of_a_batch_come_in_one_wake_up(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, wakes = asyncio.get_running_loop(), []
    real = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: wakes.append(1) or real(*args))
    await asked(lambda done: writer.put(Claim(done)))
    gate = threading.Event()
    claim = writer._file.claim
    monkeypatch.setattr(writer._file, "claim", lambda: (gate.wait(5), claim()))
    writer.put(Claim(lambda error: None))
    for n in range(1, 101):
        writer.put(Append([row(n)], 0, lambda error: None))
    wakes.clear()
    gate.set()
    await asked(lambda done: writer.put(Close(done)))
    assert len(wakes) <= 3


async def test_no_thread_to_be_had_is_told_and_a_later_job_tries_again(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
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


def test_a_loop_that_is_gone_is_not_waited_for(writer: Writer) -> None:
    """H7: the process may end its loop while the disk is still busy."""
    gate = threading.Event()
    real = writer._file.claim

    def slow() -> None:
        gate.wait(5)
        real()

    writer._file.claim = slow  # type: ignore[method-assign]

    async def leave() -> threading.Thread:
        writer.put(Claim(lambda error: pytest.fail("nobody is there")))
        writer.put(Close(lambda error: pytest.fail("nobody is there")))
        return threads()[0]

    thread = asyncio.run(leave())
    gate.set()
    thread.join(5)
    assert not thread.is_alive()
