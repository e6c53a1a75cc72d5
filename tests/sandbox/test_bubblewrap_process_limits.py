"""Limits that are held by looking."""

from __future__ import annotations

import asyncio
import os

import pytest

from tertulia.sandbox.bubblewrap_process import LimitWatch
from tertulia.sandbox.limits.usage import SOONEST_S, UsageMeter


class Counting(UsageMeter):
    """Exceeds at the third look."""

    looks = 0

    def look(self) -> str | None:
        self.looks += 1
        self.pause_s = 0.0
        return "memory_bytes" if self.looks == 3 else None


async def test_it_calls_once_when_a_limit_is_exceeded() -> None:
    meter = Counting(os.getpid(), processes=None, memory=None, written=None)
    meter.pause_s = 0.0
    heard: list[str] = []
    called = asyncio.Event()
    watch = LimitWatch(meter, lambda limit: (heard.append(limit), called.set()))
    await asyncio.wait_for(called.wait(), 10)
    await asyncio.sleep(0)
    assert (heard, meter.looks) == (["memory_bytes"], 3)
    watch.stop()
    watch.stop()


async def test_one_that_is_stopped_looks_no_more() -> None:
    meter = Counting(os.getpid(), processes=None, memory=None, written=None)
    meter.pause_s = SOONEST_S
    watch = LimitWatch(meter, lambda limit: pytest.fail("it was stopped"))
    watch.stop()
    assert watch._timer.cancelled()
