"""News for somebody slow: one piece under way, the newest next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tertulia.mcp.serve.latest_only import LatestOnlySender
from tertulia.scheduler.nursery import Nursery
from tests.mcp.connected import until


class Slow:
    def __init__(self) -> None:
        self.nursery, self.heard = Nursery(), list[int]()
        self.may_go = asyncio.Event()
        self.newest = LatestOnlySender(self.nursery.start, "news")

    def piece(self, number: int) -> Callable[[], Awaitable[None]]:
        async def send() -> None:
            self.heard.append(number)
            await self.may_go.wait()

        return send


async def test_of_all_that_comes_while_one_piece_is_under_way_the_last_is_told() -> None:
    slow = Slow()
    for number in range(1_000):
        slow.newest.tell(slow.piece(number))
    assert len(slow.nursery) == 1
    await until(lambda: slow.heard == [999])
    for number in range(1_000, 2_000):
        slow.newest.tell(slow.piece(number))
    assert len(slow.nursery) == 1
    slow.may_go.set()
    await until(lambda: slow.heard == [999, 1_999] and not len(slow.nursery))
    slow.newest.tell(slow.piece(5))
    await until(lambda: slow.heard[-1] == 5)


async def test_after_the_end_nothing_is_told() -> None:
    slow = Slow()
    slow.newest.close()
    slow.newest.tell(slow.piece(1))
    await until(lambda: slow.heard == [1])
    slow.newest.tell(slow.piece(2))
    slow.newest.close()
    await until(lambda: not len(slow.nursery))
    assert slow.heard == [1]


async def test_a_piece_that_cannot_be_told_does_not_keep_the_next_from_it() -> None:
    slow = Slow()

    async def fails() -> None:
        raise OSError("gone")

    slow.newest.tell(fails)
    await until(lambda: not len(slow.nursery))
    slow.newest.tell(slow.piece(1))
    await until(lambda: slow.heard == [1])
    slow.newest.close()
    await until(lambda: not len(slow.nursery))
