"""What a task may do to the world, until it is over; and a history that is whole after every ending."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError, StorageError
from tertulia.history.sanitiser import prove
from tertulia.protocol.events import ForeignEvent, TurnAborted, WarningEvent
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import AssistantMessage, Reasoning, TextPart, ToolCall, ToolOutput, Usage, UserMessage
from tertulia.tools.tool import Result
from tests.conversation.task_stage import SCOPE, TaskStage
from tests.events.scripted import ScriptedJournal
from tests.tables import each_row


def asked(call_id: str, name: str = "note") -> ToolCall:
    return ToolCall(ItemId(f"i-{call_id}"), CallId(call_id), name, "{}")


def answer(text: str) -> AssistantMessage:
    return AssistantMessage(ItemId(text or "empty"), (TextPart(text),) if text else ())


def outputs(on: TaskStage) -> list[tuple[str, str, bool]]:
    return [(i.call_id, i.text, i.success) for i in on.conversation.history.snapshot() if isinstance(i, ToolOutput)]


async def test_everything_is_told_under_the_ids_of_the_task() -> None:
    """S000-46, S002-42"""
    on = TaskStage()
    on.scope.publish(WarningEvent("careful"))
    (event,) = on.told()
    assert (event.sub_id, event.task_id, event.trace_id, event.span_id) == (
        SCOPE.sub_id,
        SCOPE.task_id,
        SCOPE.trace_id,
        SCOPE.span_id,
    )


async def test_a_tool_may_tell_what_can_be_written_down_and_no_end() -> None:
    """A task has one end, and it is not for a tool to tell it."""
    on = TaskStage()
    on.scope.pass_on(WarningEvent("careful"))
    for bad in (
        TurnAborted("interrupted"),
        WarningEvent("\ud800"),
        ForeignEvent("x", object()),
        ForeignEvent("x", functools.reduce(lambda inner, _: [inner], range(100_000), 0)),
    ):
        with pytest.raises(InvalidParamsError):
            on.scope.pass_on(bad)
    assert on.types() == ["warning"]


async def test_what_is_said_is_in_the_history() -> None:
    on = TaskStage()
    on.scope.say([answer("hello")])
    on.conversation.queue_input(UserMessage(ItemId("u"), (TextPart("wait"),)))
    assert on.scope.take_pending() is True
    assert on.scope.take_pending() is False
    assert [item.id for item in on.conversation.history.snapshot()] == ["hello", "u"]


async def test_costs_are_counted_for_the_task_and_for_the_chain() -> None:
    on = TaskStage()
    on.tally.usage = Usage(1, 0, 1, 0, 2)
    on.scope.charge(Usage(10, 0, 5, 0, 15))
    on.scope.charge(Usage(10, 0, 5, 0, 15))
    assert (on.scope.spent.total_tokens, on.tally.usage.total_tokens) == (30, 32)


async def test_pieces_of_an_answer_know_where_they_belong() -> None:
    on = TaskStage()
    one, other = ItemId("one"), ItemId("other")
    assert [on.scope.hear(one, "abc"), on.scope.hear(one, "de"), on.scope.hear(one, "")] == [0, 3, 5]
    assert on.scope.hear(other, "x") == 0


async def test_a_whole_answer_is_announced_and_is_the_last_text() -> None:
    on = TaskStage()
    for item in (
        Reasoning(ItemId("r"), "hm"),
        Reasoning(ItemId("sealed"), "", opaque="xyz"),
        answer("first"),
        answer("second"),
        asked("c1"),
    ):
        on.scope.announce(item)
    assert on.types() == ["agent_reasoning", "agent_message", "agent_message"]
    assert on.scope.last_text == "second"


@each_row(
    "messages, text",
    [
        ([("on my way", "commentary")], "on my way"),
        ([("on my way", "commentary"), ("there", "final_answer")], "there"),
        ([("there", "final_answer"), ("by the way", "commentary")], "there"),
        ([("there", None), ("", None)], "there"),
        ([("", None)], None),
        ([("one", "commentary"), ("two", "commentary")], "two"),
    ],
)
def test_a_remark_on_the_way_takes_the_place_of_no_answer(messages, text) -> None:
    """Issue 25 (1): `commentary` is told and kept, and is the answer only where there is no other."""
    on = TaskStage()
    for number, (words, phase) in enumerate(messages):
        parts = (TextPart(words),) if words else ()
        on.scope.announce(AssistantMessage(ItemId(f"m{number}"), parts, opaque=phase))
    assert on.scope.last_text == text
    assert [(event.data.text, event.data.phase) for event in on.told()] == messages


async def test_a_call_begins_and_ends_once_and_takes_its_time() -> None:
    on = TaskStage()
    call = asked("c1")
    on.scope.say([call])
    on.scope.begin(call)
    on.clock.seconds += 1.5
    on.scope.end(call, Result("done"), truncated=True)
    begin, end = on.told()
    assert (begin.data.call_id, begin.data.name, begin.data.arguments) == ("c1", "note", {})
    assert (end.data.output, end.data.success, end.data.truncated, end.data.duration_ms) == ("done", True, True, 1500)
    assert on.tally.tool_calls == 1
    assert outputs(on) == []
    on.scope.settle_calls()
    assert outputs(on) == [("c1", "done", True)]


async def test_what_the_journal_took_back_of_a_call_is_told_again_and_nothing_twice() -> None:
    """F5: on a full disk too a call has one beginning and one end, as soon as there is room."""
    journal = ScriptedJournal(asyncio.get_running_loop())
    on = TaskStage(journal=journal)
    first, second = asked("c1"), asked("c2")
    on.scope.say([first, second])
    on.scope.begin(first)
    journal.commit()
    on.scope.end(first, Result("done"))
    on.scope.begin(second)
    waiting = asyncio.ensure_future(on.scope.commit())
    await asyncio.sleep(0)
    journal.fail(StorageError("full"))
    with pytest.raises(StorageError):
        await waiting
    on.scope.tidy("failed: full")
    journal.commit()
    await on.scope.commit()
    rows = [(event.type, event.data.call_id, event.seq) for event in on.told() if event.seq is not None]
    assert rows == [
        *(("tool_call_begin", "c1", 1), ("tool_call_end", "c1", 2)),
        *(("tool_call_begin", "c2", 3), ("tool_call_end", "c2", 4)),
    ]
    assert outputs(on) == [("c1", "done", True), ("c2", "failed: full", False)]


async def test_outputs_are_written_in_the_order_of_the_calls() -> None:
    on = TaskStage()
    one, two, three = asked("c1"), asked("c2"), asked("c3")
    on.scope.say([one, two, three])
    for call in (one, two, three):
        on.scope.begin(call)
    on.scope.end(three, Result("3"))
    on.scope.end(one, Result("1"))
    on.scope.settle_calls()
    assert outputs(on) == [("c1", "1", True), ("c3", "3", True)]
    on.scope.end(two, Result("2"))
    on.scope.settle_calls()
    on.scope.settle_calls()
    assert outputs(on)[-1] == ("c2", "2", True)


async def test_a_call_that_is_handed_over_is_ended_by_somebody_else() -> None:
    on = TaskStage()
    call = asked("c1")
    on.scope.say([call])
    on.scope.begin(call)
    assert on.scope.leave(call) == 10.0
    on.scope.settle_calls()
    assert on.conversation.history.open_calls == ("c1",)
    assert on.types() == ["tool_call_begin"]


async def test_tidying_up_gives_every_call_its_begin_its_end_and_its_output() -> None:
    """S004-18: ended but not written, begun but not ended, not even begun: one output each."""
    on = TaskStage()
    done, begun, never = asked("done"), asked("begun"), asked("never")
    on.scope.say([done, begun, never])
    on.scope.begin(done)
    on.scope.begin(begun)
    on.scope.end(done, Result("result"))
    on.told()
    on.scope.tidy("stopped")
    assert outputs(on) == [("done", "result", True), ("begun", "stopped", False), ("never", "stopped", False)]
    assert [(e.type, e.data.call_id) for e in on.told()] == [
        ("tool_call_end", "begun"),
        ("tool_call_begin", "never"),
        ("tool_call_end", "never"),
    ]
    assert prove(on.conversation.history.snapshot()) == ((), ())
    on.scope.tidy("again")
    assert on.told() == []


async def test_tidying_up_keeps_what_was_half_said() -> None:
    on = TaskStage()
    on.scope.hear(ItemId("a"), "half an ")
    on.scope.hear(ItemId("a"), "answer")
    on.scope.tidy("stopped")
    on.scope.tidy("stopped")
    assert [item.text for item in on.conversation.history.snapshot()] == ["half an answer"]
    assert on.scope.last_text == "half an answer"
    assert on.types() == ["agent_message"]


@each_row("empty", [True, False])
async def test_nothing_is_kept_of_an_answer_that_was_withdrawn_or_never_began(empty: bool) -> None:
    on = TaskStage()
    on.scope.hear(ItemId("a"), "" if empty else "not this")
    if not empty:
        on.scope.partial = None
    on.scope.tidy("stopped")
    assert on.conversation.history.totals.item_count == 0
    assert on.scope.last_text is None


USES: list[Callable[[Any], Any]] = [
    lambda scope: scope.publish(WarningEvent("late")),
    lambda scope: scope.pass_on(WarningEvent("late")),
    lambda scope: scope.say([answer("late")]),
    lambda scope: scope.take_pending(),
    lambda scope: scope.hear(ItemId("a"), "late"),
    lambda scope: scope.announce(answer("late")),
    lambda scope: scope.begin(asked("c9")),
]


@each_row("use", USES)
async def test_nothing_of_a_task_comes_after_its_end(use: Callable[[Any], Any]) -> None:
    """H3: what was abandoned may go on, but not speak."""
    on = TaskStage()
    on.scope.revoke()
    with pytest.raises(asyncio.CancelledError):
        use(on.scope)
    assert on.told() == []
    assert on.conversation.history.totals.item_count == 0
    assert on.tally.tool_calls == 0


async def test_a_commit_after_the_end_stops_whoever_waits_for_it() -> None:
    on = TaskStage()
    await on.scope.commit()
    on.scope.revoke()
    with pytest.raises(asyncio.CancelledError):
        await on.scope.commit()


async def test_a_commit_stops_a_task_whose_cancellation_was_swallowed() -> None:
    """H1: whoever caught it, the task does not go on."""
    on, passed = TaskStage(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            passed.append("swallowed")
        await on.scope.commit()
        passed.append("went on")

    job = asyncio.create_task(work())
    await asyncio.sleep(0)
    job.cancel()
    await asyncio.wait((job,))
    assert job.cancelled()
    assert passed == ["swallowed"]
