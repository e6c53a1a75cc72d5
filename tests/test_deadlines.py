"""The measures that tests judge time by."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Thread
from time import thread_time

import pytest

from tests import deadlines
from tests.deadlines import QuietTime
from tests.loop_steps import MOST_S, longest_step, loop_steps


def work(seconds: float) -> None:
    until = thread_time() + seconds
    while thread_time() < until:
        pass


async def test_a_step_is_measured_wherever_in_the_block_it_is() -> None:
    async with loop_steps() as first:
        work(0.02)
        await asyncio.sleep(0)
    async with loop_steps() as last:
        await asyncio.sleep(0)
        work(0.02)
    async with loop_steps() as of_another:
        asyncio.get_running_loop().call_soon(work, 0.02)
        await asyncio.sleep(0)
    assert min(first.longest_s, last.longest_s, of_another.longest_s) >= 0.02


async def test_steps_in_one_round_of_the_loop_are_not_added_and_threads_are_not_counted() -> None:
    thread = Thread(target=lambda: asyncio.run(asyncio.to_thread(work, 0.06)))
    async with loop_steps() as steps:
        thread.start()
        for _ in range(6):
            asyncio.get_running_loop().call_soon(work, 0.01)
        await asyncio.sleep(0)
        await asyncio.to_thread(thread.join)
    assert 0.01 <= steps.longest_s < 0.05


async def test_a_step_that_is_long_every_time_is_found_and_one_that_was_once_is_not() -> None:
    async def always() -> None:
        work(MOST_S)

    tries = iter([MOST_S, 0.001])

    async def once() -> None:
        work(next(tries))

    assert await longest_step(always) >= MOST_S
    assert await longest_step(once) < MOST_S


@pytest.fixture
def pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The numbers of the kernel, with a clock that stands still."""
    monkeypatch.setattr(deadlines, "_PRESSURE", tmp_path / "cpu")
    monkeypatch.setattr(deadlines, "monotonic", iter([100.0, 110.0]).__next__)
    return tmp_path / "cpu"


@pytest.mark.parametrize(("waited_us", "quiet_s"), [(0, 10.0), (3_000_000, 5.0), (10_000_000, 0.0)])
def test_seconds_in_which_a_process_waits_for_a_processor_do_not_count(
    pressure: Path, waited_us: int, quiet_s: float
) -> None:
    line = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    pressure.write_text(line.format(5_000_000))
    time = QuietTime()
    pressure.write_text(line.format(5_000_000 + waited_us))
    assert time.seconds == quiet_s


def test_without_the_numbers_of_the_kernel_no_second_counts(pressure: Path) -> None:
    assert not pressure.exists()
    assert QuietTime().seconds == 0.0
