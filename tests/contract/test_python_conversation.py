"""One conversation from Python: messages and replies, history, one after another."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.testing import ScriptedModel, fail, say
from tests.contract.python_session import becomes, past, sent_texts, soon, start_session
from tests.deadlines import HANG_S
from tests.tables import each_row


def session_with(model: ScriptedModel, **settings: Any) -> Any:
    return tertulia.Session.start(tertulia.Settings(model=model, **settings))


# ---- replies


async def test_a_reply_has_text_status_and_statistics() -> None:
    """S002-47."""
    usage = {"input_tokens": 30, "cached_input_tokens": 10, "output_tokens": 7, "reasoning_output_tokens": 2}
    async with start_session({"text": "Good morning.", "usage": {**usage, "total_tokens": 37}}) as session:
        reply = await session.root.message("Hello")
    assert reply.text == "Good morning."
    assert reply.status == "completed"
    assert reply.tool_calls == 0
    assert isinstance(reply.duration, float)
    assert 0 <= reply.duration < HANG_S
    assert str(uuid.UUID(reply.task_id)) == reply.task_id
    assert reply.trace_id
    assert reply.usage.input_tokens == 30
    assert reply.usage.cached_input_tokens == 10
    assert reply.usage.output_tokens == 7
    assert reply.usage.reasoning_output_tokens == 2
    assert reply.usage.total_tokens == 37


async def test_the_usage_of_a_reply_sums_every_request_of_its_task() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    plan = {"plan": [{"step": "Look", "status": "pending"}]}
    first = {"tool_calls": [{"name": "update_plan", "arguments": plan}], "usage": usage}
    async with start_session(first, {"text": "Done.", "usage": usage}) as session:
        reply = await session.root.message("Plan it")
    assert reply.usage.total_tokens == 30
    assert reply.tool_calls == 1


async def test_a_failed_task_is_a_reply_and_the_conversation_still_works() -> None:
    """`error`, then task_complete{failed}; a failed task is a result."""
    async with start_session(fail("The provider is overloaded"), "Now I can.") as session:
        reply = await session.root.message("Hello")
        assert reply.status == "failed"
        assert reply.error
        assert reply.error.code == "model_error"
        assert "overloaded" in reply.error.message
        events = await past(session, task_id=reply.task_id)
        assert [event.type for event in events[-2:]] == ["error", "task_complete"]
        assert events[-2].data.code == "model_error"
        assert events[-1].data.status == "failed"
        assert (await session.root.message("Again")).text == "Now I can."


async def test_a_stream_that_ends_early_fails_the_task_and_nothing_else() -> None:
    async with start_session({"text": "Half a", "cut": True}, "Whole.") as session:
        assert (await session.root.message("Hello")).status == "failed"
        assert (await session.root.message("Again")).text == "Whole."


async def test_items_are_texts_and_pictures() -> None:
    model = ScriptedModel(["I see."])
    picture = "data:image/png;base64,iVBORw0KGgo="
    async with session_with(model) as session:
        await session.root.message([{"type": "text", "text": "Look"}, {"type": "image", "image_url": picture}])
        entry = (await session.root.history())[0]
    assert entry.role == "user"
    assert entry.text == "Look"
    assert entry.attachments == [{"type": "image", "image_url": picture}]


@each_row(
    "empty", ["", [], [{"type": "text"}], [{"type": "song", "text": "la"}], [{"type": "image", "image_url": "ftp://x"}]]
)
async def test_an_empty_or_unknown_input_is_refused_and_leaves_nothing_behind(empty: Any) -> None:
    model = ScriptedModel(["Hello."])
    async with session_with(model) as session:
        with pytest.raises(errors.InvalidParamsError):
            await session.root.message(empty)
        assert await session.root.history() == []
        assert not model.requests
        assert not await past(session, type="task_started")
        assert (await session.root.message("Hello")).text == "Hello."


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
async def test_a_lone_surrogate_is_refused(text: str) -> None:
    async with start_session("Hello.") as session:
        with pytest.raises(errors.InvalidParamsError):
            await session.root.message(text)
        assert (await session.root.message("Hello")).text == "Hello."


async def test_a_text_of_sixteen_megabytes_is_taken_and_a_longer_one_is_refused() -> None:
    megabytes = 16 * 1000 * 1000
    async with start_session("Long.", "Hello.") as session:
        assert (await soon(session.root.message("x" * megabytes))).text == "Long."
        other = await session.open()
        with pytest.raises(errors.InvalidParamsError):
            await other.message("x" * (16 * 1024 * 1024 + 1))
        assert (await other.message("Hello")).text == "Hello."


@each_row(
    "wrong",
    [
        lambda session: session.root.message(None),
        lambda session: session.root.message(3),
        lambda session: session.root.close(timeout="long"),
        lambda session: anext(aiter(session.events(after="x"))),
    ],
    ids=["message-none", "message-number", "close-timeout", "events-after"],
)
async def test_a_value_of_the_wrong_type_is_a_typed_error(wrong: Any) -> None:
    """Wrong types: a typed error with its code."""
    async with start_session("Hello.") as session:
        with pytest.raises(errors.InvalidParamsError):
            await soon(wrong(session))


# ---- history


async def test_history_holds_what_was_said_and_not_what_was_injected() -> None:
    """S000-13, S004-09: instructions and environment are sent to the model, and left out here."""
    model = ScriptedModel(["First.", "Second."])
    async with session_with(model) as session:
        conversation = await session.open(base_instructions="BASE", user_instructions="Always in Spanish.")
        await conversation.message("One")
        await conversation.message("Two")
        rows = [(entry.role, entry.text) for entry in await conversation.history()]
        newest = [(entry.role, entry.text) for entry in await conversation.history(limit=3)]
    assert rows == [("user", "One"), ("assistant", "First."), ("user", "Two"), ("assistant", "Second.")]
    assert newest == rows[-3:]
    seen = sent_texts(model)
    assert seen[0].startswith("<")
    assert "Always in Spanish." in seen[0]
    assert seen[1].startswith("<environment_context>")
    assert seen[2:] == ["One", "First.", "Two"]
    assert not any("BASE" in text for text in seen), "base instructions are never in history"


async def test_without_instructions_the_model_sees_the_environment_and_the_input() -> None:
    """S000-15."""
    model = ScriptedModel(["Hi."])
    async with session_with(model) as session:
        await session.root.message("Hello")
    seen = sent_texts(model)
    assert len(seen) == 2
    assert seen[0].startswith("<environment_context>")
    assert seen[1] == "Hello"


@each_row("limit", [0, -1, 1.5, "two", True])
async def test_a_limit_of_history_is_a_positive_whole_number(limit: Any) -> None:
    """S004-10."""
    async with start_session("Hi.") as session:
        await session.root.message("Hello")
        with pytest.raises(errors.InvalidParamsError):
            await session.root.history(limit=limit)


async def test_two_conversations_know_nothing_of_each_other() -> None:
    """S000-37, S002-03."""
    model = ScriptedModel(["I like tea.", "I know nothing."])
    async with session_with(model) as session:
        one = await session.open(base_instructions="You are ONE.", user_instructions="Drink tea.")
        two = await session.open(base_instructions="You are TWO.")
        await one.message("The word is saffron.")
        await two.message("What is the word?")
    first, second = model.requests
    assert "You are ONE." in first.instructions
    assert "You are TWO." in second.instructions
    assert "ONE" not in second.instructions
    assert not any("saffron" in text or "tea" in text for text in sent_texts(model, 1))


async def test_base_instructions_replace_the_built_in_prompt_and_nothing_is_added() -> None:
    """S000-09, S000-12."""
    model = ScriptedModel(["1", "2"])
    async with session_with(model) as session:
        await (await session.open(base_instructions="Only this.")).message("Go")
        await session.root.message("Go")
    assert model.requests[0].instructions == "Only this."
    assert len(model.requests[1].instructions) > 100


# ---- one after another


async def test_messages_at_the_same_time_are_answered_one_after_another_in_order() -> None:
    """S002-35, S004-13: at most one task at any moment in a session."""
    async with start_session(*[str(number) for number in range(6)]) as session:
        conversations = [session.root, await session.open(), await session.open()] * 2
        replies = await soon(asyncio.gather(*(conversation.message("Go") for conversation in conversations)))
        assert [reply.text for reply in replies] == ["0", "1", "2", "3", "4", "5"]
        turns = [event for event in await past(session) if event.type in {"task_started", "task_complete"}]
        assert [event.type for event in turns] == ["task_started", "task_complete"] * 6
        assert [event.task_id for event in turns[::2]] == [event.task_id for event in turns[1::2]]


async def test_the_same_message_id_gets_the_same_answer_and_not_a_second_run() -> None:
    model = ScriptedModel(["First.", "Second."])
    async with session_with(model) as session:
        first = await session.root.message("Hello", message_id="m1")
        again = await session.root.message("Hello", message_id="m1")
        other = await session.root.message("Hello", message_id="m2")
        assert (again.text, again.task_id, again.status) == (first.text, first.task_id, first.status)
        assert other.text == "Second."
        assert len(await past(session, type="task_started")) == 2
        assert len(await session.root.history()) == 4


async def test_the_same_message_id_while_it_still_runs_joins_the_first() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([say("Once.", gate=gate), "Twice."])
    async with session_with(model) as session:
        tasks = [asyncio.create_task(session.root.message("Hello", message_id="m")) for _ in range(3)]
        await becomes(lambda: len(model.requests) == 1)
        gate.set()
        replies = await soon(asyncio.gather(*tasks))
        assert {reply.text for reply in replies} == {"Once."}
        assert len({reply.task_id for reply in replies}) == 1
        assert len(model.requests) == 1


async def test_who_does_not_want_to_wait_is_told_that_the_session_is_busy() -> None:
    """X-37: `if_busy: fail` looks at the session's slot and leaves nothing behind."""
    gate = asyncio.Event()
    model = ScriptedModel([say("Done.", gate=gate), "Free."])
    async with session_with(model) as session:
        other = await session.open()
        running = asyncio.create_task(session.root.message("Work"))
        await becomes(lambda: len(model.requests) == 1)
        with pytest.raises(errors.BusyError) as caught:
            await other.message("Quick", if_busy="fail")
        assert caught.value.code == "busy"
        assert await other.history() == []
        gate.set()
        await soon(running)
        assert (await soon(other.message("Quick", if_busy="fail"))).text == "Free."
        assert len(await past(session, type="task_started")) == 2
