"""A bell: rung anywhere, answered on the loop, gone without a trace."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from tertulia.rollout.sqlite.writer_pool import LoopWaker
from tests.deadlines import HANG_S


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_it_is_answered_on_the_loop_once_for_all_that_rang() -> None:
    answered: list[int] = []
    heard = asyncio.Event()

    def answer() -> None:
        answered.append(threading.get_ident())
        heard.set()

    bell = LoopWaker(asyncio.get_running_loop(), answer)

    def ring() -> None:
        for _ in range(3):
            bell.ring()

    for times in (1, 2):
        ringer = threading.Thread(target=ring)
        ringer.start()
        ringer.join(HANG_S)
        heard.clear()
        await asyncio.wait_for(heard.wait(), HANG_S)
        assert answered == [threading.get_ident()] * times
    bell.close()


@pytest.mark.parametrize("call", ["eventfd_write", "eventfd_read"])
async def test_it_is_answered_whatever_the_system_says(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """F5, F6: a call that fails costs time, never an answer."""
    heard = asyncio.Event()
    bell = LoopWaker(asyncio.get_running_loop(), heard.set)

    def fail(*args: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    bell.ring()
    await asyncio.wait_for(heard.wait(), HANG_S)
    bell.close()


def test_it_can_be_rung_when_the_loop_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> LoopWaker:
        return LoopWaker(asyncio.get_running_loop(), lambda: pytest.fail("nobody is there"))

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    bell = asyncio.run(make())
    monkeypatch.setattr(os, "eventfd_write", fail)
    bell.ring()
    bell.close()


async def test_closed_it_leaves_nothing_behind() -> None:
    """Target 8."""
    before = descriptors()
    bell = LoopWaker(asyncio.get_running_loop(), lambda: None)
    assert descriptors() == before + 1
    bell.close()
    assert descriptors() == before


async def test_a_loop_that_takes_no_readers_has_no_bell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise NotImplementedError

    loop, before = asyncio.get_running_loop(), descriptors()
    monkeypatch.setattr(loop, "add_reader", refuse)
    with pytest.raises(NotImplementedError):
        LoopWaker(loop, lambda: None)
    assert descriptors() == before


def test_it_can_be_closed_when_the_loop_is_gone() -> None:
    async def make() -> LoopWaker:
        return LoopWaker(asyncio.get_running_loop(), lambda: pytest.fail("nobody is there"))

    before = descriptors()
    bell = asyncio.run(make())
    bell.ring()
    bell.close()
    assert descriptors() == before
