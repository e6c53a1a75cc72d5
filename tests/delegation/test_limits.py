"""Delegation that cannot run away: depth, breadth and number are bounded, and a stop stops all of it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import tertulia
from tertulia.protocol.tool_spec import CONV_TOOLS
from tertulia.testing import ScriptedModel, call, say
from tests.delegation.delegation_stage import create, play, send
from tests.session.staging import ticks
from tests.thorough import times


def always(*calls: Any) -> ScriptedModel:
    """A model that delegates whenever it is allowed to, and never stops by itself."""
    return ScriptedModel([lambda request: say("", *calls) if _may(request) else say("done")], repeat=True)


def _may(request: Any) -> bool:
    last = request.items[-1]
    return type(last).__name__ != "ToolOutput" or last.success


async def test_the_defaults_are_those_of_the_design() -> None:
    """S004-20, X-16, DESIGN, Scheduling"""
    limits = tertulia.Settings().rights.limits
    assert (limits.max_interrupt_chain_depth, limits.max_chain_conversations) == (8, 64)
    assert (limits.max_task_interrupts, limits.max_conversations) == (64, 10_000)


async def test_recursion_ends_at_depth_eight() -> None:
    """G5: eight children below the first caller; the ninth is refused with an error that names the limit."""
    async with play() as on:
        on.model._cues = always(create())._cues
        reply = await on.root.message("go deep")
        assert reply.status == "completed"
        depths = [conversation.info.depth for conversation in on.session.conversations()]
        assert max(depths) == 8
        deepest = on.session.conversations()[8]
        assert on.heard(deepest)[0]["code"] == "depth_exceeded"
        assert "max_interrupt_chain_depth = 8" in on.heard(deepest)[0]["reason"]
        on.check_idle()


async def test_a_message_ends_however_often_its_model_delegates() -> None:
    """G5: 64 conversations, 64 handoffs; then the model is told, and the user's next message has its turn."""
    async with play() as on:
        on.model._cues = always(create())._cues
        running = on.begin(on.root.message("go wide and deep"))
        waiting = on.begin(on.root.message("and I?"))
        assert (await running).status == "completed"
        assert (await waiting).status == "completed"
        opened = [e for e in on.events.drain() if e.type == "conversation_opened"]
        assert 64 <= len(opened) <= 128
        assert all(c.info.status == "idle" for c in on.session.conversations())
        on.check_idle()


async def test_sends_in_a_row_do_not_deepen_and_are_counted() -> None:
    """X-16: nested is what depth means; the separate cap on what one user task may cause ends the rest."""
    async with play(limits={"max_interrupt_chain_depth": 1, "max_task_interrupts": 5}) as on:
        b = await on.session.open()
        for number in range(6):
            on.write(say("", send(b, f"c{number}")))
            if number < 5:
                on.write(f"answer {number}")
        on.write("enough")
        assert (await on.root.message("go")).text == "enough"
        assert [answer.get("code") for answer in on.heard()] == [None] * 5 + ["limit"]
        assert "max_task_interrupts" in on.heard()[-1]["reason"]


async def test_at_the_greatest_depth_interrupting_tools_are_not_offered() -> None:
    """X-20, the issue's 4: not offered; and who calls them all the same is told which limit it was."""
    async with play(limits={"max_interrupt_chain_depth": 1}) as on:
        b = await on.session.open()
        on.write(say("", create("c1")), say("", send(b, "c2"), call("conv_list", {}, "l1")), "B", "A")
        await on.root.message("go")
        offered = [[tool.name for tool in request.request.tools] for request in on.model.requests]
        assert offered[0][-5:] == list(CONV_TOOLS)
        assert [name for name in offered[1] if name in CONV_TOOLS] == ["conv_list", "conv_history", "conv_destroy"]
        assert offered[3] == offered[0]
        child = on.session.conversations()[-1]
        assert [answer.get("code") for answer in on.heard(child)] == ["depth_exceeded", None]
        assert [tool.name for tool in child.tools()][-5:] == list(CONV_TOOLS)


async def test_a_narrower_limit_of_any_member_of_the_chain_holds() -> None:
    """Limits are rights: a target cannot go deeper for a caller than that one may itself."""
    async with play() as on:
        a = await on.session.open(limits={"max_interrupt_chain_depth": 1})
        b = await on.session.open()
        on.write(say("", send(b)), say("", create("c2")), "B", "A")
        await a.message("go")
        assert on.heard(b)[0]["code"] == "depth_exceeded"


async def test_going_to_and_fro_is_bounded_and_every_call_is_answered_once() -> None:
    """H5: A asks B, B asks A: refused as long as A waits; in turns it ends at the limit."""
    async with play(limits={"max_task_interrupts": 4}) as on:
        a, b = await on.session.open(), await on.session.open()

        def turn(request: Any) -> Any:
            if not _may(request):
                return say("I give up")
            return say("", send(b if request.request.conversation_id == a.id else a, f"c{len(on.model.requests)}"))

        on.model._cues = ScriptedModel([turn], repeat=True)._cues
        assert (await a.message("go")).status == "completed"
        assert {answer.get("code") for answer in on.heard(b)} == {"awaiting_result", "limit"}
        assert [answer.get("code") for answer in on.heard(a)][-1] == "limit"
        on.check_idle()


async def test_nothing_begins_after_a_stop_was_acknowledged() -> None:
    """G6: raced a thousand times in `make torture`, at every moment of a fan-out."""
    lots, races = random.Random(6), times(1_000, 100)
    async with play() as on:
        b, c = await on.session.open(), await on.session.open()
        fan = say("", send(b, "c1"), send(c, "c2"), create("c3", "new"))

        def turn(request: Any) -> Any:
            return fan if request.last_input == "go" else say("done")

        on.model._cues = ScriptedModel([turn], repeat=True)._cues
        stopped = 0
        for _ in range(races):
            running = on.begin(on.root.message("go"))
            await ticks(lots.randrange(1, 40))
            # Published, not delivered: what is written down on the way is told a little later.
            numbered = on.parts.bus._numbered
            if await on.root.interrupt():
                stopped += 1
                assert (await running).status == "interrupted"
                after = {event.type for event in on.events.drain() if (event.seq or 0) > numbered}
                assert not after & {"task_started", "conversation_opened"}
            await running
            on.begun.clear()
            on.events.seen.clear()
            for conversation in on.session.conversations()[3:]:
                await conversation.close()
        assert stopped > races / 10
        on.check_idle()


@pytest.mark.parametrize("ended", ["interrupted", "closed"])
async def test_a_stop_in_the_middle_of_an_answer_is_json_as_well(ended: str) -> None:
    """S004-34: the call was made and never handed over; its answer is what those of its kind always are."""

    @tertulia.tool
    async def stuck() -> str:
        """Wait."""
        await asyncio.get_running_loop().create_future()
        return ""

    async with play(tools=[stuck], invariants=True) as on:
        on.write(say("", create("c1"), call("stuck", {}, "s1"), send("root", "c2")))
        running = on.begin(on.root.message("go"))
        await on.until("tool_call_begin")
        await on.until("tool_call_begin")
        await (on.root.interrupt() if ended == "interrupted" else on.session.close())
        assert (await running).status == "interrupted"
        texts = {output.call_id: output.text for output in on.outputs(on.root)}
        assert texts["c1"].startswith('{"ok":false,"code":"cancelled","reason":"interrupted')
        assert texts["s1"].startswith("interrupted")
        assert len(on.ids()) == 1


async def test_a_chain_can_be_followed_from_its_first_event_to_its_last() -> None:
    """`Conversation.stream` includes the child's `conversation_opened`, under the task that asked for it; S004-26."""
    async with play(say("", create(title="kid")), "B", "A") as on:
        events = [event async for event in on.root.stream("go") if event.seq is not None]
        opened = next(event for event in events if event.type == "conversation_opened")
        first = next(event for event in events if event.type == "task_started")
        assert opened.conversation_id == on.ids()[1]
        assert (opened.task_id, opened.trace_id, opened.sub_id) == (first.task_id, first.trace_id, first.sub_id)
        assert [f"{on.name(e.conversation_id)} {e.type}" for e in events] == [
            " ".join(line.split()[:2]) for line in on.score()
        ]
        assert all(event.conversation_id for event in events)
