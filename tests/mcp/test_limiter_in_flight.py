"""Servers that several sessions share: one count for all of them, and everybody gets a turn."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tertulia.errors import LimitError
from tertulia.mcp.limiter import FairLimiter, InFlight
from tertulia.policy.limits import NO_LIMITS, Limits
from tests.policy.virtual_time import LoopClock, run


class Street:
    """Two sessions, each with a turnstile, before one server."""

    def __init__(self, most: int, wait_s: float | None = None) -> None:
        self.doors, self.most = InFlight(), most
        self.limits = Limits(mcp_wait_s=wait_s) if wait_s is not None else NO_LIMITS
        self.sessions = {name: FairLimiter(LoopClock(), ceiling=NO_LIMITS, doors=self.doors) for name in "ab"}
        self.order: list[str] = []
        self.reasons: list[str] = []
        self.inside: Counter[str] = Counter()
        self.peak = 0

    async def call(self, session: str, *, seconds: float = 1.0, shared: str | None = "key", server: str = "s") -> None:
        passage = self.sessions[session].passage(
            "c", server, self.limits, server_concurrency=self.most, waits=self.reasons.append, shared=shared
        )
        async with passage:
            self.order.append(session)
            self.inside[shared or session] += 1
            self.peak = max(self.peak, self.inside[shared or session])
            await asyncio.sleep(seconds)
            self.inside[shared or session] -= 1

    @property
    def is_idle(self) -> bool:
        return self.doors.is_idle and all(each.is_idle for each in self.sessions.values())


def test_the_limit_of_a_server_counts_the_calls_of_all_sessions() -> None:
    """S002-39, C17"""

    async def scenario() -> None:
        street = Street(2)
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(street.call(session) for session in "ab" * 4))
        assert street.peak == 2
        assert asyncio.get_running_loop().time() - began == pytest.approx(4.0)
        assert street.reasons[0] == "the server s has 2 calls under way (its concurrency is 2)"
        assert street.is_idle

    run(scenario())


def test_a_session_with_many_calls_does_not_keep_another_one_waiting() -> None:
    """C17: fair, whoever came first with however many."""

    async def scenario() -> None:
        street = Street(1)
        crowd = [asyncio.ensure_future(street.call("a")) for _ in range(10)]
        await asyncio.sleep(0.5)
        await asyncio.gather(*(street.call("b") for _ in range(3)))
        await asyncio.gather(*crowd)
        assert "".join(street.order[:7]) == "aababab"
        assert street.order.count("a") == 10
        assert street.is_idle

    run(scenario())


def test_servers_that_are_not_shared_are_counted_for_each_session() -> None:
    async def scenario() -> None:
        street = Street(1)
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(street.call(session, shared=None) for session in "ab"))
        await asyncio.gather(street.call("a", shared="one"), street.call("b", shared="other"))
        assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)
        assert street.is_idle

    run(scenario())


def test_who_gives_up_or_is_cancelled_leaves_nothing_behind() -> None:
    """S000-44"""

    async def scenario() -> None:
        street = Street(1, wait_s=0.5)
        first = asyncio.ensure_future(street.call("a", seconds=10))
        await asyncio.sleep(0)
        cancelled = asyncio.ensure_future(street.call("b"))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        with pytest.raises(LimitError, match="mcp_wait_s"):
            await street.call("b")
        assert not street.doors.is_idle
        await first
        assert street.is_idle
        assert street.order == ["a"]

    run(scenario())


def test_who_never_waited_is_not_put_at_the_end_of_a_line() -> None:
    """It comes in by an open door, and is not called when somebody leaves."""
    doors, heard = InFlight(), list[str]()
    doors.enter("s", lambda: heard.append("me"))
    doors.leave("s")
    assert (heard, doors.under_way("s")) == ([], 0)
