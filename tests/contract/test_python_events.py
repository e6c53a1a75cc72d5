"""Events as a Python program sees them: the envelope, the order, what each type carries, replay and streams."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.testing import ScriptedModel, call, say
from tests.contract.python_session import becomes, past, soon, start_session
from tests.deadlines import HANG_S

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def streamed(conversation: tertulia.Conversation, text: str) -> list[tertulia.Event]:
    async with asyncio.timeout(HANG_S):
        return [event async for event in conversation.stream(text)]


async def test_every_event_has_the_whole_envelope() -> None:
    """S000-46, S002-42: ids are stamped, sub_id is always filled."""
    async with start_session("Hello there.") as session:
        events = [*await past(session), *await streamed(session.root, "Hi")]
    for event in events:
        assert isinstance(event.epoch, int)
        assert RFC3339.fullmatch(event.ts)
        assert isinstance(event.sub_id, str)
        assert event.sub_id
        assert event.session_id == events[0].session_id
    task = [event for event in events if event.task_id]
    assert {event.type for event in task} >= {"task_started", "agent_message_delta", "agent_message", "task_complete"}
    assert len({event.task_id for event in task}) == 1
    assert {event.conversation_id for event in task} == {session.root.id}
    assert len({event.sub_id for event in task}) == 1, "who reads only sub_id sees one task (S002-43)"
    assert len({event.trace_id for event in task}) == 1
    assert all(event.trace_id and event.span_id for event in task)


async def test_durable_events_are_numbered_without_a_gap_and_deltas_not_at_all() -> None:
    """G4."""
    async with start_session(*["A few words to say."] * 5) as session:
        seen: list[tertulia.Event] = []
        for _ in range(5):
            seen += await streamed(session.root, "Go")
        durable = await past(session)
    assert [event.seq for event in durable] == list(range(1, len(durable) + 1))
    deltas = [event for event in seen if event.seq is None]
    assert {event.type for event in deltas} == {"agent_message_delta"}
    assert all(event.type.endswith("_delta") for event in deltas)


async def test_deltas_name_their_item_and_their_place_in_it() -> None:
    async with start_session("One two three.") as session:
        events = await streamed(session.root, "Count")
    deltas = [event.data for event in events if event.type == "agent_message_delta"]
    text = ""
    for delta in deltas:
        assert delta.offset == len(text)
        text += delta.text
    assert text == "One two three."
    assert len({delta.item_id for delta in deltas}) == 1
    whole = next(event.data for event in events if event.type == "agent_message")
    assert whole.text == text


async def test_a_task_is_told_from_its_start_to_its_one_end() -> None:
    async with start_session({"reasoning": "I think.", "text": "I am."}) as session:
        events = await streamed(session.root, "Who are you?")
    types = [event.type for event in events]
    assert types[0] == "task_started"
    assert types[-1] == "task_complete"
    assert types.count("task_started") == types.count("task_complete") == 1
    assert "turn_aborted" not in types
    for name in ("agent_reasoning_delta", "agent_reasoning", "agent_message_delta", "agent_message", "token_count"):
        assert name in types
    assert types.index("agent_reasoning") < types.index("agent_message")
    started, complete = events[0].data, events[-1].data
    assert started.kind == "user"
    assert started.input_preview == "Who are you?"
    assert complete.status == "completed"
    assert complete.last_assistant_message == "I am."
    counted = next(event.data for event in events if event.type == "token_count")
    assert complete.usage.total_tokens == counted.usage.total_tokens > 0
    assert counted.context_window == 128_000
    assert counted.cache_key


async def test_every_tool_call_has_a_begin_and_an_end() -> None:
    plan = {"plan": [{"step": "Look", "status": "in_progress"}]}
    async with start_session(call("update_plan", plan, "c1"), "Done.") as session:
        events = await streamed(session.root, "Plan")
        reply_types = [event.type for event in events]
    begin = next(event.data for event in events if event.type == "tool_call_begin")
    end = next(event.data for event in events if event.type == "tool_call_end")
    assert (begin.call_id, begin.name) == (end.call_id, end.name) == ("c1", "update_plan")
    assert end.success is True
    assert end.truncated is False
    assert isinstance(end.duration_ms, int)
    assert isinstance(end.output, str)
    order = [reply_types.index(name) for name in ("tool_call_begin", "plan_update", "tool_call_end", "task_complete")]
    assert order == sorted(order)


async def test_opening_changing_and_closing_are_told() -> None:
    async with start_session() as session:
        conversation = await session.open(title="Notes")
        await conversation.set_context(base_instructions="Other.")
        await conversation.close()
        types = [event.type for event in await past(session, conversation_id=conversation.id)]
    assert types == ["conversation_opened", "conversation_context_changed", "conversation_closed"]


async def test_events_from_a_number_on_are_replayed_and_then_go_on() -> None:
    async with start_session("Hello.", "Again.") as session:
        await session.root.message("Hi")
        all_of_them = await past(session)
        seen = []
        stream = session.events(after=3)
        running = asyncio.create_task(session.root.message("Hi"))
        async with asyncio.timeout(HANG_S):
            async for event in stream:
                seen.append(event)
                if event.type == "task_complete" and event.seq > len(all_of_them):
                    break
        await running
    durable = [event.seq for event in seen if event.seq]
    assert durable == list(range(4, durable[-1] + 1))


async def test_without_a_number_events_begin_now() -> None:
    async with start_session("Hello.", "Again.") as session:
        await session.root.message("Hi")
        stream = session.events()
        running = asyncio.create_task(session.root.message("Hi"))
        first = await soon(anext(aiter(stream)))
        await running
        assert first.type == "task_started"


async def test_a_number_older_than_the_ring_is_told_what_it_missed() -> None:
    """The ring holds 10,000: nothing is left out in silence."""
    model = ScriptedModel(["Hi."], repeat=True)
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        for _ in range(2_600):
            last = await session.root.message("Hi")
        seen = []
        async with asyncio.timeout(HANG_S):
            async for event in session.events(after=1):
                seen.append(event)
                if event.task_id == last.task_id and event.type == "task_complete":
                    break
    assert seen[0].type == "subscriber_lagged"
    assert seen[0].seq is None
    assert len(seen) == 10_001
    numbers = [event.seq for event in seen[1:]]
    assert numbers == list(range(numbers[0], numbers[0] + 10_000))


async def test_an_answer_that_begins_anew_says_that_its_deltas_do_not_count() -> None:
    async with start_session({"text": "Half and half.", "retrying": "The stream broke."}) as session:
        events = await streamed(session.root, "Hi")
    notice = next(event.data for event in events if event.type == "background_event")
    assert notice.message == "The stream broke."
    assert notice.discard_deltas is True
    whole = next(event.data for event in events if event.type == "agent_message")
    after = events[[event.type for event in events].index("background_event") :]
    assert "".join(event.data.text for event in after if event.type == "agent_message_delta") == whole.text


async def test_the_events_of_one_conversation_are_only_its_own() -> None:
    async with start_session("1", "2", "3") as session:
        conversation = await session.open()
        stream = session.events(after=0, conversation=conversation.id)
        await session.root.message("To the root")
        reply = await conversation.message("To the other")
        seen = []
        async with asyncio.timeout(HANG_S):
            async for event in stream:
                seen.append(event)
                if event.type == "task_complete":
                    break
    assert {event.conversation_id for event in seen} == {conversation.id}
    assert seen[0].type == "conversation_opened"
    assert seen[-1].task_id == reply.task_id


async def test_events_of_a_conversation_that_never_was_are_refused() -> None:
    async with start_session() as session:
        with pytest.raises(errors.NotFoundError):
            await soon(anext(aiter(session.events(conversation="nobody"))))


async def test_a_stream_left_early_does_not_stop_its_neighbour() -> None:
    """A reader that walks away holds up nobody, and the conversation still answers."""
    async with start_session("One two three four.", "Next.") as session:
        async for event in session.root.stream("Go"):
            if event.type == "agent_message_delta":
                break
        assert (await soon(session.root.message("Again"))).status == "completed"


async def test_a_stream_shows_only_its_own_task() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([say("First.", gate=gate), "Second."])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        first = asyncio.create_task(session.root.message("One"))
        await becomes(lambda: len(model.requests) == 1)
        second = asyncio.create_task(streamed(session.root, "Two"))
        await asyncio.sleep(0)
        gate.set()
        reply = await soon(first)
        events = await soon(second)
    assert reply.task_id not in {event.task_id for event in events}
    assert next(event.data.text for event in events if event.type == "agent_message") == "Second."


async def test_all_events_of_a_task_are_there_when_its_message_answers() -> None:
    async with start_session("Hello.") as session:
        stream = session.events(after=0)
        reply = await session.root.message("Hi")
        ends: list[Any] = []
        async with asyncio.timeout(HANG_S):
            async for event in stream:
                ends.append(event)
                if event.type == "task_complete":
                    break
        assert ends[-1].task_id == reply.task_id
