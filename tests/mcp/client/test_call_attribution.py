"""Whose calls are under way, and whom a question concerns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tertulia.mcp.client.server_requests import CallAttribution, CallInProgress, clear_current_call
from tests.deadlines import HANG_S
from tests.mcp.connected import Asked


@asynccontextmanager
async def under_way(turns: CallAttribution, name: str, timeout_s: float | None = 10) -> AsyncIterator[CallInProgress]:
    async with asyncio.timeout(timeout_s) as limit:
        turn = CallInProgress(Asked(name).caller, lambda *_: None, limit)
        await turns.begin(turn)
        try:
            yield turn
        finally:
            turns.end(turn)


async def asks(turns: CallAttribution) -> CallInProgress | None:
    """A question of a server in the old era: from a task that is nobody's."""
    clear_current_call()
    return turns.concerned()


async def hold(turns: CallAttribution, name: str, begun: asyncio.Event, may_end: asyncio.Event) -> None:
    async with under_way(turns, name):
        begun.set()
        await may_end.wait()


async def test_nobody_is_asked_when_no_call_is_under_way() -> None:
    """C16."""
    assert await asyncio.create_task(asks(CallAttribution())) is None


async def test_the_only_conversation_under_way_is_asked() -> None:
    turns = CallAttribution()
    async with under_way(turns, "c1") as turn, under_way(turns, "c1"):
        assert await asyncio.create_task(asks(turns)) is turn
    assert await asyncio.create_task(asks(turns)) is None


async def test_a_question_in_the_context_of_a_call_belongs_to_it_however_many_there_are() -> None:
    turns = CallAttribution()
    begun, may_end = asyncio.Event(), asyncio.Event()
    other = asyncio.create_task(hold(turns, "c2", begun, may_end))
    await begun.wait()
    async with under_way(turns, "c1") as turn:
        assert turns.concerned() is turn
    may_end.set()
    await other


async def test_a_question_in_the_context_of_a_call_of_another_connection_belongs_to_nobody() -> None:
    turns, others = CallAttribution(), CallAttribution()
    async with under_way(others, "c1"):
        assert turns.concerned() is None


async def test_calls_of_two_conversations_overlap_until_the_server_asks_once() -> None:
    """S000-38."""
    turns = CallAttribution()
    begun, may_end = [asyncio.Event() for _ in range(4)], asyncio.Event()
    first = [asyncio.create_task(hold(turns, f"c{n}", begun[n], may_end)) for n in range(2)]
    await asyncio.gather(begun[0].wait(), begun[1].wait())
    assert await asyncio.create_task(asks(turns)) is None
    may_end.set()
    await asyncio.gather(*first)

    may_end = asyncio.Event()
    one = asyncio.create_task(hold(turns, "c0", begun[2], may_end))
    await begun[2].wait()
    two = asyncio.create_task(hold(turns, "c1", begun[3], may_end))
    done, _ = await asyncio.wait({two}, timeout=0.05)
    assert not done
    assert not begun[3].is_set()
    may_end.set()
    await asyncio.gather(one, two)
    assert begun[3].is_set()


async def test_turns_are_in_the_order_of_coming_and_one_who_gives_up_holds_nobody_up() -> None:
    turns = CallAttribution()
    await asyncio.create_task(asks(turns))
    order: list[str] = []

    async def take(name: str) -> None:
        async with under_way(turns, name):
            order.append(name)

    async with under_way(turns, "c0"):
        tasks = [asyncio.create_task(take(f"c{n}")) for n in (1, 2, 3, 2)]
        late = asyncio.create_task(take("c0"))
        await asyncio.wait(tasks, timeout=0.02)
        assert order == []
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
    await asyncio.gather(tasks[0], *tasks[2:], late)
    assert order == ["c1", "c3", "c2", "c0"]


async def test_one_who_is_cancelled_as_its_turn_comes_lets_the_next_one_go() -> None:
    turns = CallAttribution()
    await asyncio.create_task(asks(turns))

    async def take(name: str) -> str:
        async with under_way(turns, name):
            return name

    async with under_way(turns, "c0"):
        first, second = asyncio.create_task(take("c1")), asyncio.create_task(take("c2"))
        await asyncio.wait({first, second}, timeout=0.02)
    first.cancel()
    assert await asyncio.wait_for(second, HANG_S) == "c2"
    assert await asyncio.create_task(asks(turns)) is None


async def test_news_after_the_end_are_dropped() -> None:
    turns, heard = CallAttribution(), []
    async with asyncio.timeout(None) as limit:
        turn = CallInProgress(Asked().caller, lambda *news: heard.append(news), limit)
        await turns.begin(turn)
        await turn.progress(1, 2, "x")
        turns.end(turn)
        await turn.progress(2, 2, "y")
    assert heard == [(1, 2, "x")]


async def test_time_stands_still_while_somebody_is_asked_and_goes_on_after() -> None:
    turns = CallAttribution()
    answered = asyncio.Event()
    with pytest.raises(TimeoutError):
        async with under_way(turns, "c1", 0.1) as turn:
            loop = asyncio.get_running_loop()
            loop.call_later(0.3, answered.set)
            await turn.wait_for(asyncio.create_task(answered.wait()))
            assert answered.is_set()
            await asyncio.Event().wait()


async def test_whoever_is_asked_too_late_does_not_bring_the_time_back() -> None:
    turns = CallAttribution()
    with pytest.raises(TimeoutError):
        async with under_way(turns, "c1", 0) as turn:
            try:
                await asyncio.Event().wait()
            finally:
                answered = asyncio.Event()
                answered.set()
                await turn.wait_for(asyncio.create_task(answered.wait()))
