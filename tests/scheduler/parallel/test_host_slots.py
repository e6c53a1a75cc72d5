"""Running tasks of all sessions of a host: bounded, and shared fairly."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.scheduler.host_slots import HostSlots
from tertulia.testing import ScriptedModel, ScriptedRequest, call, say
from tests.deadlines import HANG_S
from tests.session.staging import ticks
from tests.tables import each_row


async def test_a_session_that_floods_the_host_delays_another_by_one_task_at_most() -> None:
    """Issue 20, proof: starvation."""
    order: list[str] = []
    gates: dict[str, asyncio.Event] = {}

    def reply(request: ScriptedRequest) -> Any:
        order.append(request.last_input)
        gate = gates[request.last_input] = asyncio.Event()
        return say("ok", gate=gate)

    settings = tertulia.Settings(
        model=ScriptedModel([reply], repeat=True), slots=8, max_running_tasks=1, storage_policy="none"
    )
    host = tertulia.Host(settings)
    async with asyncio.timeout(HANG_S), AsyncExitStack() as stack:
        stack.push_async_callback(host.close)
        loud, quiet = await host.start(), await host.start()
        flood = [await loud.open() for _ in range(6)]
        tasks = [asyncio.create_task(c.message(f"loud {n}")) for n, c in enumerate(flood)]
        while not order:
            await ticks(1)
        tasks.append(asyncio.create_task(quiet.root.message("quiet")))
        await ticks(20)
        for number in range(7):
            while len(order) <= number:
                await ticks(1)
            assert len([gate for gate in gates.values() if not gate.is_set()]) == 1
            gates[order[number]].set()
        await asyncio.gather(*tasks)
        assert order.index("quiet") <= 1
        assert sorted(order) == sorted([*(f"loud {n}" for n in range(6)), "quiet"])


async def test_closing_a_session_that_waits_for_a_permit_does_not_wait_for_others() -> None:
    gate = asyncio.Event()
    settings = tertulia.Settings(
        model=ScriptedModel([say("ok", gate=gate)], repeat=True), max_running_tasks=1, storage_policy="none"
    )
    host = tertulia.Host(settings)
    async with asyncio.timeout(HANG_S), AsyncExitStack() as stack:
        stack.push_async_callback(host.close)
        first, second = await host.start(), await host.start()
        running = asyncio.create_task(first.root.message("one"))
        await ticks(30)
        waiting = asyncio.create_task(second.root.message("two"))
        await ticks(30)
        assert not (await second.close()).forced
        assert (await waiting).status == "interrupted"
        gate.set()
        assert (await running).status == "completed"


async def test_a_slot_is_free_when_its_work_is_done_although_another_session_has_the_permit() -> None:
    """Issue 20, 1: no message is told that it waits for a conversation of its session that works no more."""
    gate = asyncio.Event()
    replies = {"held": say("held", gate=gate)}
    model = ScriptedModel([lambda request: replies.get(request.last_input, "ok")], repeat=True)
    host = tertulia.Host(tertulia.Settings(model=model, max_running_tasks=1, storage_policy="none"))
    async with asyncio.timeout(HANG_S), AsyncExitStack() as stack:
        stack.push_async_callback(host.close)
        first, second = await host.start(), await host.start()
        other, news = await first.open(), first.events()
        tasks = [asyncio.create_task(first.root.message("one"))]
        tasks.append(asyncio.create_task(second.root.message("held")))
        assert (await tasks[0]).text == "ok"
        tasks.append(asyncio.create_task(other.message("two", if_busy="fail")))
        await ticks(30)
        gate.set()
        assert [(await task).text for task in tasks] == ["ok", "held", "ok"]
        await first.close()
        assert [event.type async for event in news if event.type == "warning"] == []


async def test_a_session_whose_chain_waits_for_a_permit_is_not_idle() -> None:
    """Nothing of it runs at that moment, and yet it may not be closed for being idle."""
    gate = asyncio.Event()
    asks = say("", call("conv_create", {"user_instruction": "do it"}))
    replies = {"held": say("held", gate=gate), "ask": asks}
    model = ScriptedModel([lambda request: replies.get(request.last_input, "ok")], repeat=True)
    host = tertulia.Host(tertulia.Settings(model=model, slots=2, max_running_tasks=1, storage_policy="none"))
    async with asyncio.timeout(HANG_S), AsyncExitStack() as stack:
        stack.push_async_callback(host.close)
        first, second = await host.start(), await host.start()
        asking = asyncio.create_task(first.root.message("ask"))
        holding = asyncio.create_task(second.root.message("held"))
        while [task.status for task in second.activity.tasks] != ["running"]:
            await ticks(1)
        assert [(task.kind, task.status) for task in first.activity.tasks] == [("target", "queued")]
        assert not first.activity.is_idle
        gate.set()
        assert [reply.text for reply in await asyncio.gather(asking, holding)] == ["ok", "held"]
        assert first.activity.is_idle


async def test_slots_of_a_host_are_given_in_turn_and_none_is_lost() -> None:
    slots, order = HostSlots(2), []

    async def work(owner: str, number: int) -> None:
        if await slots.take(owner):
            assert slots.held <= 2
            order.append((owner, number))
            await ticks(2)
            slots.give_back()

    jobs = [asyncio.create_task(work("a", number)) for number in range(5)]
    await ticks(1)
    jobs += [asyncio.create_task(work("b", number)) for number in range(2)]
    await ticks(1)
    jobs[4].cancel()
    await asyncio.gather(*jobs, return_exceptions=True)
    assert [owner for owner, _ in order].index("b") <= 3
    assert (len(order), slots.held) == (6, 0)


async def test_an_owner_that_is_forgotten_gets_no_permit() -> None:
    slots = HostSlots(1)
    assert await slots.take("a")
    waiting = asyncio.create_task(slots.take("b"))
    await ticks(1)
    slots.forget("b")
    assert await waiting is False
    slots.give_back()
    assert slots.held == 0


@each_row("wrong", [0, -3, "many", True])
def test_a_limit_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParamsError, match="max_running_tasks must be a whole number"):
        tertulia.Settings(max_running_tasks=wrong)


async def test_a_wait_that_is_given_up_costs_no_permit() -> None:
    """Whether it is given up before its turn, in the same moment, or just after it was given one."""
    slots = HostSlots(1)
    assert await slots.take("a")
    alone, second, third, late = (asyncio.create_task(slots.take(owner)) for owner in "bccd")
    await ticks(1)
    alone.cancel()
    await ticks(1)
    second.cancel()
    slots.give_back()
    third.cancel()
    await ticks(1)
    assert await late
    assert slots.held == 1
    waiting = asyncio.create_task(slots.take("e"))
    await ticks(1)
    waiting.cancel()
    slots.forget("e")
    slots.give_back()
    results = await asyncio.gather(alone, second, third, waiting, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 4
    assert slots.held == 0
    assert await slots.take("f")
