"""When a server is asked again what it offers."""

from __future__ import annotations

import asyncio

import pytest

from tertulia.errors import McpError
from tertulia.mcp.pool.relist_schedule import MIN_INTERVAL_S, RelistSchedule
from tertulia.scheduler.nursery import Nursery
from tertulia.testing.fake_mcp_server import FakeGate
from tests.mcp.virtual_time import LoopClock, in_virtual_time, steps


class Scene:
    """Listings as they happen."""

    def __init__(self, *, begun: bool = True) -> None:
        self.nursery = Nursery()
        self.gate = FakeGate()
        self.times: list[float] = []
        self.at_once = 0
        self.error: McpError | None = None
        self.relisting = RelistSchedule(self.nursery.start, LoopClock(), "fs")
        if begun:
            self.relisting.begin(self.list_again)

    async def list_again(self) -> McpError | None:
        self.times.append(asyncio.get_running_loop().time())
        self.at_once += 1
        assert self.at_once == 1
        try:
            await self.gate.passed()
        finally:
            self.at_once -= 1
        return self.error


@in_virtual_time
async def test_a_storm_of_notices_costs_one_listing_every_fifth_of_a_second() -> None:
    scene = Scene()
    began = asyncio.get_running_loop().time()
    for _ in range(1_000):
        for _ in range(100):
            scene.relisting.want()
        await asyncio.sleep(0.001)
    await asyncio.sleep(10)
    gaps = [after - before for before, after in zip([began, *scene.times], scene.times, strict=False)]
    assert len(scene.times) == 5
    assert gaps == pytest.approx([MIN_INTERVAL_S] * 5, abs=0.002)
    assert len(scene.nursery) == 0


@in_virtual_time
async def test_notices_during_a_listing_make_one_more() -> None:
    scene = Scene()
    scene.gate.shut()
    scene.relisting.want()
    await scene.gate.until_reached()
    for _ in range(100):
        scene.relisting.want()
    await asyncio.sleep(5)
    assert len(scene.times) == 1
    scene.gate.open()
    await asyncio.sleep(5)
    assert len(scene.times) == 2


@in_virtual_time
async def test_who_asks_is_answered_at_once_even_while_a_notice_waits() -> None:
    scene = Scene()
    began = asyncio.get_running_loop().time()
    scene.relisting.want()
    await steps()
    assert scene.times == []
    await scene.relisting.now()
    assert scene.times == [began]
    await asyncio.sleep(5)
    assert len(scene.times) == 1


@in_virtual_time
async def test_after_somebody_asked_a_storm_is_held_back_as_before() -> None:
    scene = Scene()
    await scene.relisting.now()
    for _ in range(100):
        scene.relisting.want()
        await asyncio.sleep(0.01)
    await asyncio.sleep(5)
    assert len(scene.times) == 6


@in_virtual_time
async def test_who_asks_during_a_listing_waits_for_the_next_one() -> None:
    """The one under way may have begun before the change that is asked for."""
    scene = Scene()
    scene.gate.shut()
    first = asyncio.create_task(scene.relisting.now())
    await scene.gate.until_reached()
    others = [asyncio.create_task(scene.relisting.now()) for _ in range(50)]
    await steps()
    scene.gate.open()
    await first
    await asyncio.gather(*others)
    assert len(scene.times) == 2


@in_virtual_time
async def test_an_error_reaches_all_who_asked_and_not_those_who_ask_later() -> None:
    scene = Scene()
    scene.error = McpError("no list today", hint=1)
    outcomes = await asyncio.gather(*(scene.relisting.now() for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["no list today"] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    scene.error = None
    await scene.relisting.now()


@in_virtual_time
async def test_a_notice_before_the_beginning_is_kept_for_after_it() -> None:
    scene = Scene(begun=False)
    scene.relisting.want()
    await asyncio.sleep(5)
    assert scene.times == []
    with pytest.raises(McpError):
        await scene.relisting.now()
    scene.relisting.begin(scene.list_again)
    await asyncio.sleep(5)
    assert len(scene.times) == 1


@in_virtual_time
async def test_the_end_of_the_connection_answers_whoever_waits_and_refuses_who_comes_later() -> None:
    scene = Scene()
    scene.gate.shut()
    under_way = asyncio.create_task(scene.relisting.now())
    await scene.gate.until_reached()
    queued = asyncio.create_task(scene.relisting.now())
    await steps()
    scene.relisting.stop()
    outcomes = await asyncio.gather(under_way, queued, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [McpError, McpError]
    with pytest.raises(McpError, match="the connection ended"):
        await scene.relisting.now()
    scene.relisting.want()
    await asyncio.sleep(5)
    assert len(scene.times) == 1
    assert len(scene.nursery) == 0


@in_virtual_time
async def test_tasks_ended_from_outside_leave_nobody_waiting_and_nothing_begins_again() -> None:
    scene = Scene()
    scene.gate.shut()
    waiting = asyncio.create_task(scene.relisting.now())
    await scene.gate.until_reached()
    scene.relisting.want()
    assert await scene.nursery.close(1) == 0
    with pytest.raises(McpError):
        await waiting
    await asyncio.sleep(5)
    assert len(scene.times) == 1


@in_virtual_time
async def test_a_notice_in_the_last_step_of_a_listing_is_not_lost() -> None:
    """Between the last look and the end of the task."""
    for step in range(10):
        scene = Scene()
        scene.relisting.want()
        await asyncio.sleep(MIN_INTERVAL_S - 0.01)
        scene.gate.shut()
        await scene.gate.until_reached()
        scene.gate.open()
        await steps(step)
        scene.relisting.want()
        await asyncio.sleep(5)
        assert len(scene.times) == 2, step


@pytest.mark.parametrize("step", range(12))
def test_who_asked_may_leave_at_any_step(step: int) -> None:
    """H1: the others get their answer."""

    @in_virtual_time
    async def play() -> None:
        scene = Scene()
        leaving, staying = (asyncio.create_task(scene.relisting.now()) for _ in range(2))
        await steps(step)
        leaving.cancel()
        await staying
        await asyncio.wait({leaving})
        assert len(scene.times) == 1
        await steps()
        assert len(scene.nursery) == 0

    play()
