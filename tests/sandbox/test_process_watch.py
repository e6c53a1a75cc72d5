"""Counting from outside."""

from __future__ import annotations

import asyncio
import os

import pytest

from tertulia.sandbox import process_watch
from tertulia.sandbox.process_watch import ProcessWatch


async def test_it_calls_once_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_watch, "_PERIOD_S", 0.0)
    machine = iter([100, 100, 120, 120, 120])
    monkeypatch.setattr(process_watch, "_tasks_of_the_machine", lambda: next(machine))
    counts = iter([10, 11])
    monkeypatch.setattr(process_watch, "count_tasks", lambda pid, enough: next(counts))
    called = asyncio.Event()
    watch = ProcessWatch(1, 10, called.set)
    await asyncio.wait_for(called.wait(), 10)
    assert next(counts, None) is None
    watch.stop()
    watch.stop()


async def test_the_machine_says_how_many_there_are() -> None:
    watch = ProcessWatch(os.getpid(), 1_000_000, lambda: pytest.fail("too many"))
    assert watch._others > 0
    watch._look()
    watch.stop()
