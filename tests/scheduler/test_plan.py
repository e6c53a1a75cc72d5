"""Chains and branches as data: which conversations wait, and for which."""

from __future__ import annotations

import asyncio
from typing import get_args

from tertulia.events.bus import EventScope
from tertulia.protocol.events import AbortReason
from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.items import NO_USAGE, ToolCall
from tertulia.scheduler.branch_queue import WaitingChains
from tertulia.scheduler.handoffs import Occupancy
from tertulia.scheduler.plan import ABORT_TEXTS, Branch, CallClosure, Chain, TaskEnd, TaskPlan
from tertulia.scheduler.reply import Reply
from tertulia.tools.tool import Result, TargetResult
from tests.conversation.conversations import make_conversation

A, B, C, D = (ConversationId(name) for name in "abcd")


def closure(call_id: str) -> CallClosure:
    made = ToolCall(ItemId(call_id), CallId(call_id), "ask", "{}")
    return CallClosure(made, lambda result: Result(result.text or ""), EventScope("s"), 0.0)


def hand_over(branch: Branch, *targets: ConversationId) -> list[Branch]:
    """Let a branch wait for these conversations."""
    calls = tuple(closure(f"{branch.conversation_id}-{target}") for target in targets)
    branch.wait_for(TaskPlan(branch.conversation_id, "continuation"), calls, make_conversation())
    branch.targets = [*targets]
    made = [Branch(branch.chain, TaskPlan(target, "target"), branch, index) for index, target in enumerate(targets)]
    branch.chain.branches += made
    return made


def begin(branch: Branch) -> None:
    branch.state = "running"


def result(conversation: ConversationId, text: str) -> TargetResult:
    return TargetResult(conversation, "completed", text)


async def test_a_chain_begins_with_one_branch_and_knows_its_first_task() -> None:
    plan = TaskPlan(A, "user")
    chain = Chain(plan, 1.5, "m1")
    assert [branch.plan for branch in chain.branches] == [plan]
    assert (chain.task_id, chain.tasks) == (plan.task_id, {plan.task_id: chain.root})
    assert (chain.conversation_id, chain.message, chain.started) == (A, "m1", 1.5)
    assert (chain.root.stopped, chain.root.handle, chain.root.handing, chain.waiters) == (None, None, False, 0)


def test_every_plan_is_a_task_of_its_own() -> None:
    """S002-05: tasks have UUIDs."""
    one, other = TaskPlan(A, "user"), TaskPlan(A, "user")
    assert one.task_id != other.task_id
    assert len(one.task_id) == 36


async def test_the_members_are_those_that_wait_and_those_that_run() -> None:
    """Targets that have not begun are no members: closing or interrupting them does not touch the chain."""
    chain = Chain(TaskPlan(A, "user"), 0.0)
    assert chain.members == (A,)
    begin(chain.root)
    assert chain.members == (A,)
    inner, other = hand_over(chain.root, B, C)
    begin(inner)
    assert chain.members == (A, B)
    (innermost,) = hand_over(inner, D)
    begin(innermost)
    assert (chain.members, innermost.view().depth) == ((A, B, D), 2)
    begin(other)
    assert chain.members == (A, B, C, D)


async def test_a_result_goes_to_the_call_that_asked_for_it() -> None:
    chain = Chain(TaskPlan(A, "user"), 0.0)
    first, second = hand_over(chain.root, B, C)
    assert not chain.root.has_all_results
    second.report(result(C, "two"))
    assert chain.root.results == [None, result(C, "two")]
    first.report(result(B, "one"))
    assert [known.text if known else None for known in chain.root.results] == ["one", "two"]
    assert chain.root.has_all_results


async def test_the_first_branch_of_a_chain_reports_to_no_other() -> None:
    chain = Chain(TaskPlan(A, "user"), 0.0)
    chain.root.report(result(A, "unheard"))
    assert (chain.root.results, chain.root.calls) == ([], ())


async def test_a_chain_is_answered_once() -> None:
    chain = Chain(TaskPlan(A, "user"), 0.0)

    def reply(text: str) -> Reply:
        return Reply(text, "completed", NO_USAGE, 0, 0.0, chain.task_id, chain.trace_id)

    chain.finish(reply("first"))
    chain.finish(reply("second"))
    assert chain.answer.result().text == "first"


async def test_a_caller_that_gives_up_takes_the_answer_from_no_other() -> None:
    """H1: not before the answer, nor in the same pass of the loop."""
    chain = Chain(TaskPlan(A, "user"), 0.0)
    early, late, patient = (asyncio.ensure_future(chain.wait()) for _ in range(3))
    await asyncio.sleep(0)
    early.cancel()
    await asyncio.sleep(0)
    late.cancel()
    reply = Reply("text", "completed", NO_USAGE, 0, 0.0, chain.task_id, chain.trace_id)
    chain.finish(reply)
    assert await patient is reply
    assert await chain.wait() is reply
    assert early.cancelled()
    assert late.cancelled()


async def test_a_call_sees_which_conversations_wait_for_it_and_no_siblings() -> None:
    chain = Chain(TaskPlan(A, "user"), 0.0)
    assert chain.root.view().callers == ()
    inner, other = hand_over(chain.root, B, C)
    (innermost,) = hand_over(inner, D)
    assert (innermost.view().callers, other.view().callers) == ((A, B), (A,))


async def test_the_outermost_stop_counts() -> None:
    chain = Chain(TaskPlan(A, "user"), 0.0)
    inner, other = hand_over(chain.root, B, C)
    (innermost,) = hand_over(inner, D)
    inner.stopped = "interrupted"
    assert (innermost.stopping, inner.stopping, other.stopping, chain.root.stopping) == (inner, inner, None, None)
    chain.root.stopped = "shutdown"
    assert {branch.stopping for branch in chain.branches} == {chain.root}


async def test_a_wait_that_closes_a_cycle_is_seen_also_through_promises_and_other_chains() -> None:
    """Issue 20: a wait cycle is refused when it is asked for, not found when it hangs."""
    occupancy = Occupancy()
    one, other = Chain(TaskPlan(A, "user"), 0.0), Chain(TaskPlan(C, "user"), 0.0)
    (target,) = hand_over(one.root, B)
    for branch in (one.root, target, other.root):
        occupancy.take(branch)
    assert occupancy.would_never_end(B, A)
    assert occupancy.would_never_end(B, B)
    assert not occupancy.would_never_end(C, A)
    assert not occupancy.would_never_end(B, C)
    # Two tasks that run and have each been promised the other: the second one is refused.
    other.root.promised.append(A)
    assert occupancy.would_never_end(B, C)
    target.report(result(B, "done"))
    assert not occupancy.would_never_end(D, A)


async def test_a_conversation_is_free_again_when_its_branch_has_ended() -> None:
    occupancy = Occupancy()
    one, other = Chain(TaskPlan(A, "user"), 0.0), Chain(TaskPlan(A, "user"), 0.0)
    occupancy.take(one.root)
    assert occupancy.is_free_for(one.root)
    assert not occupancy.is_free_for(other.root)
    assert not occupancy.release(other.root)
    assert occupancy.release(one.root)
    assert (len(occupancy), occupancy.is_free_for(other.root)) == (0, True)


async def test_a_conversation_that_two_others_wait_for_is_followed_once() -> None:
    occupancy, chain = Occupancy(), Chain(TaskPlan(A, "user"), 0.0)
    inner, other = hand_over(chain.root, B, C)
    for branch, target in ((inner, D), (other, D)):
        occupancy.take(branch)
        hand_over(branch, target)
    occupancy.take(chain.root)
    assert not occupancy.would_never_end(ConversationId("e"), A)
    assert occupancy.would_never_end(D, A)


async def test_a_chain_that_was_set_aside_and_taken_out_is_passed_over() -> None:
    occupancy = Occupancy()
    waiting, holder = WaitingChains(occupancy), Chain(TaskPlan(A, "user"), 0.0)
    occupancy.take(holder.root)
    chains = [Chain(TaskPlan(A, "user"), 0.0) for _ in range(3)]
    for chain in chains:
        waiting.add(chain)
    assert waiting.first() is None
    waiting.remove(chains[0])
    assert occupancy.release(holder.root)
    waiting.freed(A)
    assert waiting.first() is chains[1]
    waiting.remove(chains[1])
    assert waiting.first() is chains[2]
    assert list(waiting) == [chains[2]]


async def test_a_caller_learns_why_its_target_was_stopped() -> None:
    target, _ = hand_over(Chain(TaskPlan(A, "user"), 0.0).root, B, C)
    reasons: tuple[AbortReason, ...] = get_args(AbortReason)
    learned = {reason: TaskEnd("aborted", reason=reason).for_caller(target) for reason in reasons}
    assert {reason: result.reason for reason, result in learned.items()} == ABORT_TEXTS
    assert {(result.status, result.code, result.conversation_id) for result in learned.values()} == {
        ("cancelled", "cancelled", B)
    }
    assert TaskEnd("aborted").for_caller(target).reason == ABORT_TEXTS["interrupted"]
