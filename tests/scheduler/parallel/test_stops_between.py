"""Stops that fall between two steps: a handoff that is not written down yet, a worker that has not begun."""

from __future__ import annotations

import asyncio

import pytest

from tests.deadlines import HANG_S
from tests.scheduler.parallel.test_slots import Crew, heard, running, until_running
from tests.session.staging import stage, ticks


@pytest.mark.parametrize("stopped", ["b", "c", "bc"])
async def test_targets_that_are_stopped_before_the_handoff_is_written_down_never_run(
    stopped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by random trees: they were started all the same, and their caller could end without an answer."""
    crew, handing, written = Crew(), asyncio.Event(), asyncio.Event()
    async with stage(model=crew.model, slots=3) as on, asyncio.timeout(HANG_S):
        a, b, c = await crew.open(on, "abc")
        flush = on.parts.bus.flush

        async def slow_flush() -> None:
            if any(branch.handing for chain in on.parts.scheduler.active for branch in chain.branches):
                handing.set()
                await written.wait()
            await flush()

        with monkeypatch.context() as patched:
            patched.setattr(on.parts.bus, "flush", slow_flush)
            reply = on.begin(a.message("ask b c"))
            await handing.wait()
        (chain,) = on.parts.scheduler.active
        for branch in [branch for branch in chain.branches if branch.caller is not None]:
            if any(crew.ids[name] == branch.conversation_id for name in stopped):
                assert on.session.activity.cancel(branch.plan.task_id, scope="branch")
        await ticks(20)
        assert running(on) == []
        written.set()
        left = sorted({"b", "c"} - set(stopped))
        await until_running(on, *left)
        for name in left:
            crew.gate(name).set()
        assert ((await reply).status, (await reply).text) == ("completed", "a done")
        assert [result.get("code") for result in heard(on, a)] == [
            "cancelled" if name in stopped else None for name in "bc"
        ]
        assert [len(await conversation.history()) for conversation in (b, c)] == [
            0 if name in stopped else 2 for name in "bc"
        ]
        on.check_idle()


async def test_a_worker_that_is_cancelled_before_its_first_step_takes_no_slot_along() -> None:
    """G7: the message runs in another, and the session can be closed."""
    crew = Crew()
    async with stage(model=crew.model, slots=1) as on:
        (a,) = await crew.open(on, "a")
        reply = on.begin(a.message("quick"))
        async with asyncio.timeout(HANG_S):
            while not (workers := [task for task in asyncio.all_tasks() if task.get_name() == "scheduler"]):
                await ticks(1)
        workers[0].cancel()
        assert (await asyncio.wait_for(reply, HANG_S)).text == "a done"
        assert (await a.message("quick")).text == "a done"


async def test_a_worker_that_is_cancelled_while_its_task_hands_over_answers_the_calls() -> None:
    """G7: whichever step of the loop it falls on, each call has its output and the message its answer."""
    for steps in range(40):
        crew = Crew()
        async with stage(model=crew.model, slots=3, invariants=False) as on:
            a, *_ = await crew.open(on, "abc")
            reply = on.begin(a.message("ask b:quick c:quick"))
            await ticks(steps)
            for worker in [task for task in asyncio.all_tasks() if task.get_name() == "scheduler"]:
                worker.cancel()
            assert (await asyncio.wait_for(reply, HANG_S)).status in ("completed", "interrupted", "failed")
            await ticks(5)
            on.check_idle()
            assert (await a.message("still there?")).text == "a done"
