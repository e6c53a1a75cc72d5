"""Whatever happens at any step of a chain: every call is answered once, nothing is left, the next message works."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tertulia.errors import ClosedError, NotRunningError
from tertulia.testing import call, say
from tests.deadlines import HANG_S
from tests.delegation.delegation_stage import Play, create, play
from tests.session.staging import ticks
from tests.tables import each_row

Act = Callable[[Play], Awaitable[object]]


def script() -> list[Any]:
    """A asks B and D in one answer, B asks C, and C uses a tool."""
    plan = call("update_plan", {"plan": [{"step": "s", "status": "pending"}]}, "p")
    return [
        say("", create("a1", "B"), create("a2", "D")),
        say("", create("b1", "C")),
        say("", plan),
        "C", "B", "D", "A",
    ]  # fmt: skip


def interrupt(member: int) -> Act:
    async def act(on: Play) -> None:
        for conversation in on.session.conversations()[member : member + 1]:
            await conversation.interrupt()

    return act


def close(*members: int) -> Act:
    async def act(on: Play) -> None:
        there = on.session.conversations()
        await asyncio.gather(*(there[member].close() for member in members if member < len(there)))

    return act


async def close_and_interrupt(on: Play) -> None:
    there = on.session.conversations()
    if len(there) > 2:
        await asyncio.gather(there[1].close(), there[-1].interrupt(), there[2].close())


async def cancel_the_newest_task(on: Play) -> None:
    started = [event.task_id for event in on.events.drain() if event.type == "task_started"]
    if started:
        on.parts.scheduler.cancel(started[-1])


async def narrow_everybody(on: Play) -> None:
    for conversation in on.session.conversations():
        await conversation.set_context(storage_policy="headers_only", include_conv_tools=False)


async def steer_everybody(on: Play) -> None:
    for conversation in on.session.conversations():
        try:
            await conversation.steer("hey")
        except NotRunningError:
            continue


async def close_the_session(on: Play) -> None:
    there = on.session.conversations()
    await asyncio.gather(on.session.close(), *(conversation.close() for conversation in there[1:]))


ACTS: dict[str, Act] = {
    "interrupt A": interrupt(0), "interrupt B": interrupt(1), "interrupt D": interrupt(2), "interrupt C": interrupt(3),
    "close B": close(1), "close D": close(2), "close C": close(3), "close B and C": close(1, 3),
    "close all": close(1, 2, 3), "close and interrupt": close_and_interrupt, "cancel": cancel_the_newest_task,
    "narrow": narrow_everybody, "steer": steer_everybody, "close the session": close_the_session,
}  # fmt: skip


@each_row("name", ACTS)
async def test_anything_may_happen_at_any_step_of_a_chain(name: str) -> None:
    """S004-18, X-14, X-15, H5, G6: `play` checks numbers, order and ends of all events as well."""
    step, over = 0, False
    while not over:
        async with play(*script()) as on:
            running = on.begin(on.root.message("go"))
            await ticks(step)
            over = running.done()
            await asyncio.wait_for(ACTS[name](on), HANG_S)
            await asyncio.wait_for(running, HANG_S)
            if not on.session.closed:
                await _check_rest(on)
        for event in on.events.seen:
            if event.type == "tool_call_end":
                assert event.task_id, "an end belongs to a task"
                if event.data.name == "conv_create":
                    assert json.loads(event.data.output)["ok"] is event.data.success
        step += 1
    assert step > 10


async def _check_rest(on: Play) -> None:
    await ticks()
    on.check_idle()
    assert not on.parts.closing
    on.replies.clear()
    for conversation in on.session.conversations():
        assert (await asyncio.wait_for(conversation.message("again"), HANG_S)).status == "completed"


async def test_a_conversation_that_is_closed_while_it_waits_is_heard_to_the_end_by_who_follows_the_chain() -> None:
    """The fine print of chains: its own call ends too, under the task that made it, before it is gone."""
    gate = asyncio.Event()
    async with play(say("", create("outer")), say("", create("inner")), say("never", gate=gate), "A goes on") as on:
        answers: list[Any] = []

        async def follow() -> None:
            answers.extend([event async for event in on.root.stream("go")])

        following = on.begin(follow())
        await on.asked(3)
        middle = on.session.conversations()[1]
        await middle.close()
        await asyncio.wait_for(following, HANG_S)
        begun = {event.data.call_id: event.task_id for event in answers if event.type == "tool_call_begin"}
        ended = {event.data.call_id: event for event in answers if event.type == "tool_call_end"}
        assert (set(begun), ended["inner"].task_id) == ({"outer", "inner"}, begun["inner"])
        closed = next(e for e in on.events.drain() if e.type == "conversation_closed")
        assert ended["inner"].seq < closed.seq
        with pytest.raises(ClosedError):
            on.session.conversation(middle.id)


async def test_another_close_does_not_answer_for_a_target_that_still_runs() -> None:
    """A waiting conversation that is being closed is answered for when its target has ended, and not before."""
    entered, free = asyncio.Event(), asyncio.Event()

    async def slow_to_stop() -> str:
        """Stop, in its own time."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            await free.wait()
        return ""

    inner = say("", call("slow_to_stop", {}, "s"))
    async with play(say("", create("outer")), say("", create("inner")), inner, "A goes on", tools=[slow_to_stop]) as on:
        idle = await on.session.open()
        running = on.begin(on.root.message("go"))
        await entered.wait()
        closing = on.begin(on.session.conversations()[2].close())
        await ticks()
        await idle.close()
        assert "tool_call_end" not in on.events.types()
        free.set()
        assert (await asyncio.wait_for(running, HANG_S)).text == "A goes on"
        assert not (await closing).forced
        order = [kind for kind in on.events.types() if kind in ("turn_aborted", "tool_call_end")]
        assert order[-4:] == ["tool_call_end", "turn_aborted", "tool_call_end", "tool_call_end"]
