"""What was submitted lately: found again, and forgotten in the end."""

from __future__ import annotations

from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import NO_USAGE
from tertulia.scheduler.ledger import SubmissionLedger
from tertulia.scheduler.plan import Chain, TaskPlan
from tertulia.scheduler.reply import Reply
from tests.events.scripted import ticks

A, B = ConversationId("a"), ConversationId("b")


def submission(conversation: ConversationId = A, message_id: str | None = None) -> Chain:
    return Chain(TaskPlan(conversation, "user"), 0.0, message_id)


async def answer(chain: Chain) -> None:
    chain.finish(Reply("done", "completed", NO_USAGE, 0, 0.0, chain.task_id, chain.trace_id))
    await ticks()


async def test_a_submission_is_found_by_its_task_and_by_its_message() -> None:
    """X-37: the same message id again is the same submission."""
    ledger = SubmissionLedger()
    named, nameless = submission(message_id="m"), submission()
    ledger.note(named)
    ledger.note(nameless)
    assert ledger.by_message(A, "m") is named
    assert ledger.by_task(named.task_id) is named
    assert ledger.by_task(nameless.task_id) is nameless
    assert len(ledger) == 2


async def test_message_ids_are_a_conversations_own() -> None:
    """S002-03"""
    ledger, one, other = SubmissionLedger(), submission(A, "m"), submission(B, "m")
    ledger.note(one)
    ledger.note(other)
    assert ledger.by_message(A, "m") is one
    assert ledger.by_message(B, "m") is other


async def test_what_was_never_submitted_is_not_found() -> None:
    ledger = SubmissionLedger()
    assert ledger.by_message(A, "m") is None
    assert ledger.by_task(TaskId("t")) is None


async def test_an_answered_submission_is_still_found() -> None:
    ledger, chain = SubmissionLedger(), submission(message_id="m")
    ledger.note(chain)
    await answer(chain)
    assert ledger.by_message(A, "m") is chain
    assert ledger.by_task(chain.task_id) is chain


async def test_only_the_newest_answered_ones_are_kept() -> None:
    """G1: the oldest answered go first, whether they had a message id or not."""
    ledger = SubmissionLedger(capacity=2)
    chains = [submission(message_id="m0"), submission(), submission(message_id="m2"), submission(message_id="m3")]
    for chain in chains:
        ledger.note(chain)
        await answer(chain)
    assert [ledger.by_task(chain.task_id) is chain for chain in chains] == [False, False, True, True]
    assert [ledger.by_message(A, f"m{n}") is chains[n] for n in (0, 2, 3)] == [False, True, True]
    assert len(ledger) == 2


async def test_one_that_made_way_is_known_to_have_ended_and_never_runs_again() -> None:
    """R3, G1: its text is not kept, how it ended is."""
    ledger = SubmissionLedger(capacity=1)
    chains = [submission(message_id=f"m{number}") for number in range(4)]
    for chain in chains[:3]:
        ledger.note(chain)
    await answer(chains[0])
    chains[1].answer.cancel()
    await ticks()
    silent = Reply(None, "interrupted", NO_USAGE, 0, 0.0, chains[2].task_id, chains[2].trace_id)
    chains[2].finish(silent)
    ledger.note(chains[3])
    await answer(chains[3])
    assert len(ledger) == 1
    known = ledger.by_message(A, "m0")
    assert known is not None
    reply = known.answer.result()
    assert (reply.text, reply.status, reply.task_id) == (None, "completed", chains[0].task_id)
    assert reply.error is not None
    assert reply.error.code == "not_stored"
    assert (known.task_id, known.trace_id, known.branches) == (chains[0].task_id, chains[0].trace_id, [])
    assert ledger.by_message(A, "m1") is None, "it never got an answer"
    other = ledger.by_message(A, "m2")
    assert other is not None
    assert other.answer.result() is silent


async def test_one_that_waits_is_never_forgotten_and_holds_nobody_back() -> None:
    """G1: a long task at the head of the queue, and thousands that are cancelled behind it."""
    ledger, waiting = SubmissionLedger(capacity=3), submission(message_id="long")
    ledger.note(waiting)
    for number in range(50):
        chain = submission(message_id=f"m{number}")
        ledger.note(chain)
        await answer(chain)
    assert len(ledger) == 4
    assert ledger.by_message(A, "long") is waiting
    await answer(waiting)
    assert len(ledger) == 3
    assert ledger.by_message(A, "long") is waiting


async def test_an_answer_nobody_waited_for_is_forgotten_like_any_other() -> None:
    ledger, chain = SubmissionLedger(capacity=0), submission(message_id="m")
    ledger.note(chain)
    chain.answer.cancel()
    await ticks()
    assert len(ledger) == 0
    assert ledger.by_message(A, "m") is None
