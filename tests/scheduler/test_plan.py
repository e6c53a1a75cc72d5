"""Chains and frames as data: who is on the stack, who waits for whom."""

from __future__ import annotations

from tertulia.events.bus import EventScope
from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.items import NO_USAGE, ToolCall
from tertulia.scheduler.plan import CallClosure, Chain, Frame, TaskPlan
from tertulia.scheduler.reply import Reply
from tertulia.tools.tool import Result, TargetResult
from tests.conversation.conversations import make_conversation

A, B, C = ConversationId("a"), ConversationId("b"), ConversationId("c")


def closure(call_id: str) -> CallClosure:
    made = ToolCall(ItemId(call_id), CallId(call_id), "ask", "{}")
    return CallClosure(made, lambda result: Result(result.text or ""), EventScope("s"), 0.0)


def waiting(conversation: ConversationId, *calls: str, reports_to: tuple[Frame, int] | None = None) -> Frame:
    frame = Frame(TaskPlan(conversation, "continuation"), reports_to=reports_to)
    frame.wait_for(tuple(map(closure, calls)), make_conversation())
    return frame


def result(conversation: ConversationId, text: str) -> TargetResult:
    return TargetResult(conversation, "completed", text)


async def test_a_chain_begins_with_one_frame_and_knows_its_first_task() -> None:
    plan = TaskPlan(A, "user")
    chain = Chain(plan, 1.5, "m1")
    assert [frame.plan for frame in chain.frames] == [plan]
    assert (chain.task_id, chain.task_ids) == (plan.task_id, {plan.task_id})
    assert (chain.conversation_id, chain.message, chain.started) == (A, "m1", 1.5)
    assert (chain.stopped, chain.running, chain.handle, chain.handing, chain.waiters) == (None, None, None, False, 0)


def test_every_plan_is_a_task_of_its_own() -> None:
    """S002-05: tasks have UUIDs."""
    one, other = TaskPlan(A, "user"), TaskPlan(A, "user")
    assert one.task_id != other.task_id
    assert len(one.task_id) == 36


async def test_the_members_are_those_who_wait_and_the_one_who_runs() -> None:
    """Targets that have not begun are no members: closing or interrupting them does not touch the chain."""
    chain = Chain(TaskPlan(A, "user"), 0.0)
    assert chain.members == (A,)
    chain.running = chain.frames.pop()
    assert chain.members == (A,)
    outer = waiting(A, "c1", "c2")
    chain.frames = [outer, Frame(TaskPlan(C, "target"), reports_to=(outer, 1))]
    chain.running = Frame(TaskPlan(B, "target"), reports_to=(outer, 0))
    assert chain.members == (A, B)
    assert chain.depth == 1
    chain.frames.append(waiting(B, "c3"))
    chain.running = Frame(TaskPlan(C, "target"))
    assert (chain.members, chain.depth) == ((A, B, C), 2)


async def test_a_result_goes_to_the_call_that_asked_for_it() -> None:
    outer = waiting(A, "c1", "c2")
    assert outer.results == [None, None]
    second, first = (
        Frame(TaskPlan(C, "target"), reports_to=(outer, 1)),
        Frame(TaskPlan(B, "target"), reports_to=(outer, 0)),
    )
    second.report(result(C, "two"))
    assert outer.results == [None, result(C, "two")]
    first.report(result(B, "one"))
    assert [known.text if known else None for known in outer.results] == ["one", "two"]


async def test_a_frame_that_nobody_waits_for_reports_to_nobody() -> None:
    frame = Frame(TaskPlan(A, "user"))
    frame.report(result(A, "unheard"))
    assert (frame.results, frame.closures) == ([], ())


async def test_a_chain_is_answered_once() -> None:
    chain = Chain(TaskPlan(A, "user"), 0.0)

    def reply(text: str) -> Reply:
        return Reply(text, "completed", NO_USAGE, 0, 0.0, chain.task_id, chain.trace_id)

    chain.finish(reply("first"))
    chain.finish(reply("second"))
    assert chain.answer.result().text == "first"


async def test_a_call_sees_who_waits_for_it() -> None:
    chain = Chain(TaskPlan(A, "user"), 0.0)
    assert chain.view().callers == ()
    chain.frames = [waiting(A, "1"), waiting(B, "2"), Frame(TaskPlan(C, "target"))]
    chain.running = chain.frames.pop()
    assert chain.view().callers == (A, B)
