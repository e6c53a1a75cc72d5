"""The first signal asks, the second is obeyed."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tertulia.cli.stop_signals import on_stop_signal
from tertulia.testing import FakeClock
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_is_told_to_the_loop(number: signal.Signals) -> None:
    heard = asyncio.Event()
    with on_stop_signal(heard.set):
        signal.raise_signal(number)
        async with asyncio.timeout(DEADLINE_S):
            await heard.wait()


async def test_the_second_signal_does_what_it_always_does() -> None:
    calls: list[int] = []
    clock = FakeClock()
    with on_stop_signal(lambda: calls.append(1), clock):
        signal.raise_signal(signal.SIGTERM)
        clock.advance(1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        await asyncio.sleep(0)
    assert calls == [1]


async def test_a_signal_that_comes_twice_at_once_is_one() -> None:
    """H7: `timeout` sends it to the program, and then to the group that the program is in."""
    calls: list[int] = []
    with on_stop_signal(lambda: calls.append(1), FakeClock()):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)
    assert calls == [1]


async def test_handlers_are_put_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with on_stop_signal(lambda: None):
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before
