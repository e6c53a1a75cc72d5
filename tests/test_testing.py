"""What `tertulia.testing` gives to people who test their agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tertulia
from tertulia.protocol.events import (
    AgentMessage,
    AgentMessageDelta,
    Event,
    EventData,
    TaskComplete,
    TaskStarted,
    TurnAborted,
)
from tertulia.protocol.ids import CallId, ConversationId, ItemId, SessionId, TaskId
from tertulia.protocol.items import NO_USAGE
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.testing import FakeClock, RecordedEvents, ScriptedModel, assert_order, check_invariants, say
from tests.tables import each_row

DONE = TaskComplete("completed", None, NO_USAGE)


def numbered_events(*news: tuple[EventData, str] | EventData, first: int = 1) -> list[Event]:
    """Events with numbers in order; the text is the task."""
    events: list[Event] = []
    seq = first
    for event in news:
        data, task = event if isinstance(event, tuple) else (event, "t1")
        numbered = seq if data.durable else None
        seq += data.durable
        events.append(
            Event(
                0,
                numbered,
                "",
                data.type,
                SessionId("s"),
                "sub",
                ConversationId("c"),
                TaskId(task),
                None,
                None,
                data,
            )
        )
    return events


def begin(call_id: str = "c1") -> ToolCallBegin:
    return ToolCallBegin(CallId(call_id), "note", "{}")


def end(call_id: str = "c1") -> ToolCallEnd:
    return ToolCallEnd(CallId(call_id), "note", True, "", False, 0)


# ---- the clock


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(now=100.0)
    assert (clock.now(), clock.monotonic()) == (100.0, 0.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (102.5, 2.5)
    clock.set_wall(0.0)
    assert (clock.now(), clock.monotonic()) == (0.0, 2.5)


# ---- recording


def session(*replies: Any) -> tertulia.Session:
    return tertulia.Session.start(tertulia.Settings(model=ScriptedModel(replies)))


async def test_events_are_recorded_and_waited_for() -> None:
    async with session("hello there") as running, RecordedEvents(running) as events:
        waiting = asyncio.create_task(running.root.message("hi"))
        started = await events.until("task_started")
        assert started.data.input_preview == "hi"
        assert (await events.until("task_complete")).data.last_assistant_message == "hello there"
        await waiting
        assert events.types() == ["task_started", "user_message", "token_count", "agent_message", "task_complete"]
        assert events.types(deltas=True).count("agent_message_delta") == 2


async def test_each_event_is_waited_for_once() -> None:
    async with session(say("ok", repeat=True)) as running, RecordedEvents(running) as events:
        await running.root.message("one")
        await running.root.message("two")
        first, second = await events.until("task_complete"), await events.until("task_complete")
        assert first.task_id != second.task_id


async def test_what_does_not_come_is_said_with_what_came_instead() -> None:
    async with session("ok") as running, RecordedEvents(running) as events:
        await running.root.message("hi")
        with pytest.raises(TimeoutError, match=r"no tool_call_begin within 0\.01 s.*task_complete"):
            await events.until("tool_call_begin", timeout=0.01)


async def test_a_recorder_can_listen_to_one_conversation() -> None:
    async with session(say("ok", repeat=True)) as running:
        other = await running.open()
        async with RecordedEvents(running, conversation=other.id) as events:
            await running.root.message("not this")
            await other.message("this")
        assert {event.conversation_id for event in events.seen} == {other.id}


async def test_what_came_until_the_end_is_there_after_leaving() -> None:
    async with session("ok") as running:
        async with RecordedEvents(running) as events:
            await running.root.message("hi")
        await running.root.set_context(title="not heard")
        assert events.seen[-1].type == "task_complete"
        assert events.drain() == events.seen


# ---- order


def test_types_must_occur_in_the_order_given_whatever_stands_between() -> None:
    events = numbered_events(TaskStarted("user"), AgentMessage("x", ItemId("i")), DONE)
    assert_order(events, [])
    assert_order(events, ["task_started", "task_complete"])
    for wrong in (["task_complete", "task_started"], ["task_started", "task_started"], ["nonsense"]):
        with pytest.raises(AssertionError, match="does not follow"):
            assert_order(events, wrong)


# ---- promises


@each_row(
    "events",
    [
        [],
        numbered_events(TaskStarted("user"), DONE),
        numbered_events(TaskStarted("user"), begin(), end(), DONE, first=7),
        numbered_events(TaskStarted("user"), TurnAborted("interrupted")),
        numbered_events((TurnAborted("interrupted"), "never started")),
        numbered_events(TaskStarted("user"), begin(), end(), begin(), end(), DONE),
        numbered_events(
            TaskStarted("user"),
            begin(),
            TurnAborted("replaced"),
            (TaskStarted("continuation"), "t2"),
            (end(), "t2"),
            (DONE, "t2"),
        ),
        numbered_events(TaskStarted("user"), begin(), TurnAborted("replaced"), end()),
        numbered_events(TaskStarted("user"), AgentMessageDelta("x", ItemId("i"), 0), DONE),
    ],
)
def test_events_that_keep_the_promises_pass(events: list[Event]) -> None:
    check_invariants(events)


@each_row(
    ("events", "says"),
    [
        (numbered_events(TaskStarted("user"))[:1] + numbered_events(DONE, first=3), "follows"),
        (numbered_events(TaskStarted("user")), "never ended"),
        (numbered_events(TaskStarted("user"), (TaskStarted("user"), "t2")), "while"),
        (numbered_events(TaskStarted("user"), DONE, DONE), "ended twice"),
        (numbered_events(TaskStarted("user"), DONE, TurnAborted("interrupted")), "ended twice"),
        (numbered_events(TaskStarted("user"), begin(), DONE), "without an end"),
        (numbered_events(TaskStarted("user"), end(), DONE), "without a beginning"),
        (numbered_events(TaskStarted("user"), begin(), begin(), end(), DONE), "began twice"),
        (numbered_events(TaskStarted("user"), begin(), end(), end(), DONE), "without a beginning"),
        (numbered_events(TaskStarted("user"), DONE, AgentMessage("x", ItemId("i"))), "after its end"),
        (numbered_events(TaskStarted("user"), DONE, begin(), end()), "after its end"),
    ],
)
def test_events_that_break_a_promise_fail(events: list[Event], says: str) -> None:
    """S002-35, S004-18: one running task, gap-free numbers, one terminal event a task, calls paired."""
    with pytest.raises(AssertionError, match=says):
        check_invariants(events)
