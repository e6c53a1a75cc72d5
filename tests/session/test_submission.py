"""From a message to its answer: checked, queued, waited for, given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.protocol.inputs import Message
from tertulia.protocol.records import message_key
from tertulia.session.submission import Submission, new_sub_id
from tertulia.testing import say
from tests.session.staging import Stage, stage, ticks


def sent(on: Stage, *, follow: bool = False, **fields: Any) -> Submission:
    return on.root.submit(Message(conversation_id=on.root.id, **fields), follow=follow)


def chain_of(on: Stage, submitted: Submission) -> Any:
    return on.parts.scheduler.find(submitted.task_id)


def test_every_submission_has_an_id_of_its_own() -> None:
    """X-39"""
    one, other = new_sub_id(), new_sub_id()
    assert one != other
    assert one.startswith("sub/")


async def test_a_submission_becomes_one_plan() -> None:
    async with stage("{}") as on:
        submitted = sent(on, text="hi", sender="ada", output_schema={"type": "object"}, message_id="m")
        chain = chain_of(on, submitted)
        (branch,) = chain.branches
        assert (branch.plan.kind, branch.plan.conversation_id) == ("user", on.root.id)
        assert (branch.plan.input[0].text, branch.plan.input[0].sender) == ("hi", "ada")
        assert branch.plan.output is not None
        assert branch.plan.output.schema == '{"type":"object"}'
        assert (branch.plan.sub_id or "").startswith("sub/")
        assert chain.message == message_key("m", on.session.id)
        assert (await submitted.reply()).status == "completed"


@pytest.mark.parametrize("message_id", ["", "x" * 257, "\ud800"])
async def test_a_message_id_is_short_and_can_be_encoded(message_id: str) -> None:
    async with stage() as on:
        with pytest.raises(InvalidParamsError, match="message_id"):
            sent(on, text="hi", message_id=message_id)
        assert not on.parts.scheduler.queued()


@pytest.mark.parametrize("schema", [{"a": "\ud800"}, {"a": object()}])
async def test_a_schema_that_cannot_be_written_is_refused(schema: Any) -> None:
    async with stage() as on:
        with pytest.raises(InvalidParamsError, match="output_schema"):
            sent(on, text="hi", output_schema=schema)
        assert not on.parts.scheduler.queued()


async def test_the_last_one_who_gives_up_stops_the_task() -> None:
    async with stage(say("never", gate=asyncio.Event())) as on:
        submitted = sent(on, text="hi")
        chain = chain_of(on, submitted)
        waiting = [on.begin(submitted.reply()) for _ in range(3)]
        await on.asked(1)
        assert chain.waiters == 3
        for task in waiting[:2]:
            task.cancel()
        await ticks()
        assert (chain.waiters, chain.answer.done()) == (1, False)
        waiting[2].cancel()
        reply = await chain.answer
        assert (reply.status, chain.waiters) == ("interrupted", 0)


async def test_one_who_asks_after_the_answer_gets_it_at_once() -> None:
    async with stage("ok") as on:
        submitted = sent(on, text="hi")
        first = await submitted.reply()
        assert await submitted.reply() is first


async def test_following_misses_nothing_and_ends_with_the_answer() -> None:
    async with stage(say("a b c", repeat=True)) as on:
        events = [event async for event in sent(on, text="hi", follow=True).events()]
        assert (events[0].type, events[-1].type) == ("task_started", "task_complete")
        numbers = [event.seq for event in events if event.seq is not None]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_a_follower_that_falls_behind_is_told_so_and_gets_the_end() -> None:
    """S002-45: a lag is said, never silent; terminal events are never lost."""
    async with stage(say("word " * 3_000)) as on:
        following = sent(on, text="hi", follow=True).events()
        first = await anext(following)
        while on.parts.scheduler.active:
            await ticks(10)
        rest = [event.type async for event in following]
        assert first.type == "task_started"
        assert "subscriber_lagged" in rest
        assert rest[-1] == "task_complete"
