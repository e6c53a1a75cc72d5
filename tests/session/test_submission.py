"""From a message to its answer: checked, queued, waited for, given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.protocol.inputs import Message
from tertulia.protocol.records import message_key
from tertulia.session import submission
from tertulia.testing import say
from tests.session.staging import Stage, stage, ticks


def sent(on: Stage, **fields: Any) -> Any:
    conversation = on.parts.conversations.root
    return submission.submit(on.parts.scheduler, conversation, Message(conversation_id=conversation.id, **fields))


def test_every_submission_has_an_id_of_its_own() -> None:
    """X-39"""
    one, other = submission.new_sub_id(), submission.new_sub_id()
    assert one != other
    assert one.startswith("sub/")


async def test_a_submission_becomes_one_plan() -> None:
    async with stage("{}") as on:
        chain = sent(on, text="hi", sender="ada", output_schema={"type": "object"}, message_id="m")
        (frame,) = chain.frames
        assert (frame.plan.kind, frame.plan.conversation_id) == ("user", on.root.id)
        assert (frame.plan.input[0].text, frame.plan.input[0].sender) == ("hi", "ada")
        assert frame.plan.output_schema == '{"type":"object"}'
        assert (frame.plan.sub_id or "").startswith("sub/")
        assert chain.message == message_key("m", on.session.id)
        assert (await submission.wait_for_reply(on.parts.scheduler, chain)).status == "completed"


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
        chain = sent(on, text="hi")
        waiting = [on.begin(submission.wait_for_reply(on.parts.scheduler, chain)) for _ in range(3)]
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
        chain = sent(on, text="hi")
        first = await submission.wait_for_reply(on.parts.scheduler, chain)
        assert await submission.wait_for_reply(on.parts.scheduler, chain) is first


async def test_following_misses_nothing_and_ends_with_the_answer() -> None:
    async with stage(say("a b c", repeat=True)) as on:
        conversation = on.parts.conversations.root
        message = Message(conversation_id=conversation.id, text="hi")
        events = [
            e async for e in submission.submit_and_stream(on.parts.scheduler, on.parts.bus, conversation, message)
        ]
        assert (events[0].type, events[-1].type) == ("task_started", "task_complete")
        numbers = [event.seq for event in events if event.seq is not None]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_a_follower_that_falls_behind_is_told_so_and_gets_the_end() -> None:
    """S002-45: a lag is said, never silent; terminal events are never lost."""
    async with stage(say("word " * 3_000)) as on:
        conversation = on.parts.conversations.root
        message = Message(conversation_id=conversation.id, text="hi")
        following = submission.submit_and_stream(on.parts.scheduler, on.parts.bus, conversation, message)
        first = await anext(following)
        while on.parts.scheduler.current is not None:
            await ticks(10)
        rest = [event.type async for event in following]
        assert first.type == "task_started"
        assert "subscriber_lagged" in rest
        assert rest[-1] == "task_complete"
