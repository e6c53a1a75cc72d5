"""A running conversation from Python: steering it, stopping it; and what can be made of its past: forks, summaries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.testing import ScriptedModel, say
from tests.contract.app_server import NEVER_MS
from tests.contract.python_session import becomes, past, soon, start_session
from tests.deadlines import HANG_S
from tests.tables import each_row


def held(text: str) -> Any:
    """What a model will never come to say."""
    return say(text, gate=asyncio.Event())


def session_with(model: ScriptedModel, **settings: Any) -> Any:
    return tertulia.Session.start(tertulia.Settings(model=model, **settings))


# ---- steering and stopping


async def test_steering_an_idle_conversation_is_refused() -> None:
    async with start_session("Hello.") as session:
        with pytest.raises(errors.NotRunningError) as caught:
            await session.root.steer("Be quick")
        assert caught.value.code == "not_running"
        assert await session.root.history() == []


async def test_what_is_steered_into_a_running_task_reaches_the_model_in_the_same_task() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([say("Thinking.", gate=gate), "Quick."])
    async with session_with(model) as session:
        running = asyncio.create_task(session.root.message("Work"))
        await becomes(lambda: len(model.requests) == 1)
        await session.root.steer("Be quick")
        gate.set()
        reply = await soon(running)
        assert reply.text == "Quick."
        assert model.last_request.last_input == "Be quick"
        assert len(await past(session, type="task_started")) == 1
        assert [entry.text for entry in await session.root.history()] == ["Work", "Thinking.", "Be quick", "Quick."]


async def test_interrupting_ends_the_task_once_and_the_conversation_goes_on() -> None:
    """H1: one terminal event, and the message answers interrupted."""
    model = ScriptedModel([held("never"), "Back again."])
    async with session_with(model) as session:
        running = asyncio.create_task(session.root.message("Work"))
        await becomes(lambda: len(model.requests) == 1)
        assert (await soon(session.root.interrupt())).interrupted is True
        reply = await soon(running)
        assert reply.status == "interrupted"
        events = await past(session, task_id=reply.task_id)
        ends = [event for event in events if event.type in {"turn_aborted", "task_complete"}]
        assert [(event.type, event.data.reason) for event in ends] == [("turn_aborted", "interrupted")]
        assert (await soon(session.root.message("Again"))).text == "Back again."


async def test_what_was_said_before_an_interruption_is_kept() -> None:
    model = ScriptedModel([{"text": "One two three four.", "delay_between_ms": NEVER_MS}, "Back."])
    async with session_with(model) as session:
        stream = session.events()
        running = asyncio.create_task(session.root.message("Count"))
        async with asyncio.timeout(HANG_S):
            async for event in stream:
                if event.type == "agent_message_delta":
                    break
        await soon(session.root.interrupt())
        reply = await soon(running)
        assert reply.status == "interrupted"
        assert [entry.text.strip() for entry in await session.root.history()] == ["Count", "One"]
        assert (await soon(session.root.message("Again"))).text == "Back."


async def test_interrupting_an_idle_conversation_says_that_there_was_nothing_to_stop() -> None:
    async with start_session() as session:
        assert (await session.root.interrupt()).interrupted is False
        assert not await past(session, type="turn_aborted")


async def test_a_task_past_its_time_fails_with_timeout() -> None:
    """turn_aborted{timeout}; the message answers failed with that code."""
    model = ScriptedModel([held("never"), "In time."])
    async with session_with(model, limits={"task_timeout_s": 0.05}) as session:
        reply = await soon(session.root.message("Work"))
        assert reply.status == "failed"
        assert reply.error.code == "timeout"
        ends = [event for event in await past(session) if event.type in {"turn_aborted", "task_complete"}]
        assert [(event.type, event.data.reason) for event in ends] == [("turn_aborted", "timeout")]
        assert (await soon(session.root.message("Again"))).text == "In time."


# ---- forking and compacting


async def three_rounds(conversation: tertulia.Conversation) -> None:
    for word in ("one", "two", "three"):
        await conversation.message(word)


async def test_a_fork_has_the_same_past_and_its_own_future() -> None:
    async with start_session("1", "2", "3", "fork says", "origin says") as session:
        conversation = await session.open(base_instructions="Count.")
        await three_rounds(conversation)
        before = await conversation.history()
        fork = await conversation.fork()
        assert fork.id != conversation.id
        assert await fork.history() == before
        await fork.message("to the fork")
        assert await conversation.history() == before
        await conversation.message("to the origin")
        assert [entry.text for entry in (await fork.history())[-2:]] == ["to the fork", "fork says"]
        assert (await fork.context()).base_instructions == "Count."
        assert fork.id in [one.id for one in session.conversations()]


async def test_a_fork_at_a_round_ends_with_that_round() -> None:
    """A round is a user message and all that followed it."""
    async with start_session("1", "2", "3") as session:
        await three_rounds(session.root)
        fork = await session.root.fork(at=2)
        assert [entry.text for entry in await fork.history()] == ["one", "1", "two", "2"]


@each_row("at", [0, -1, 4, 99, "nothing", 1.5])
async def test_a_fork_where_nothing_is_is_refused_and_makes_nothing(at: Any) -> None:
    async with start_session("1", "2", "3") as session:
        await three_rounds(session.root)
        with pytest.raises(errors.TertuliaError) as caught:
            await session.root.fork(at=at)
        assert caught.value.code in {"invalid_params", "not_found"}
        assert len(session.conversations()) == 1


async def test_compacting_shrinks_any_conversation_and_says_by_how_much() -> None:
    """X-22, S000-10: not only the root; base instructions are as before."""
    long = "word " * 2_000
    async with start_session(*["ok"] * 12, "In short: words.", "Still here.") as session:
        conversation = await session.open(base_instructions="Count words.")
        for _ in range(12):
            await conversation.message(long)
        answer = await soon(conversation.compact())
        assert answer.compacted is True
        assert answer.after_tokens < answer.before_tokens
        assert (await conversation.context()).base_instructions == "Count words."
        assert len(await past(session, type="history_compacted", conversation_id=conversation.id)) == 1
        assert (await soon(conversation.message("Still there?"))).status == "completed"


async def test_compacting_what_is_short_changes_nothing() -> None:
    async with start_session("Hi.") as session:
        await session.root.message("Hello")
        before = await session.root.history()
        answer = await session.root.compact()
        assert answer.compacted is False
        assert answer.before_tokens == answer.after_tokens
        assert await session.root.history() == before
