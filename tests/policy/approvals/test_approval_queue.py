"""The approval stage."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import (
    ApprovalDeniedError,
    BusyError,
    ClosedError,
    InvalidParamsError,
    NoApproverError,
    NotFoundError,
)
from tertulia.policy.approval_policy import APPROVAL_ORDER, NEVER, ON_REQUEST, UNTRUSTED, ApprovalPolicy
from tertulia.policy.approvals.approval_queue import ApprovalQueue, Permission
from tertulia.policy.approvals.approval_request import ApprovalParts, with_label
from tertulia.policy.display_text import sha256
from tertulia.protocol.ids import CallId
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, Decider
from tests.loop_steps import MOST_S, loop_steps
from tests.policy.approval_stage import ROOT, A, ApprovalStage, B, HandClock, request, subject
from tests.tables import each_row

# ── asking and answering ─────────────────────────────────────────────────────────────────────────────────────


def ask_at(stage: ApprovalStage, policy: ApprovalPolicy, **more: Any) -> Any:
    return stage.queue.ask(request(), policy, stage.events.append, **more)


async def test_what_the_policy_lets_run_is_not_asked() -> None:
    """A1: and it is known which policy let it."""
    free = await ask_at(stage := ApprovalStage(), ON_REQUEST)
    assert (free, free.by_policy) == (Permission(Decider("policy", "on-request")), True)
    assert await ask_at(stage, UNTRUSTED, known_safe=True) == Permission(Decider("policy", "untrusted"))
    assert stage.events == []


async def test_what_waits_is_refused_when_the_last_approver_that_could_answer_has_gone() -> None:
    """Issue 23: with the sentence that it would have got without one; an approver that is still there keeps it open."""
    heard = [True]
    queue = ApprovalQueue(HandClock(), is_seen=lambda *_: heard[0], unattended=True)
    events: list[Any] = []
    asking = asyncio.ensure_future(queue.ask(request(), UNTRUSTED, events.append))
    await asyncio.sleep(0)
    queue.refuse_unheard()
    assert len(queue.pending()) == 1
    heard[0] = False
    queue.refuse_unheard()
    with pytest.raises(NoApproverError, match="no approver attends to this run"):
        await asking
    assert queue.pending() == []
    assert (events[-1].decision, events[-1].reason) == ("deny", "unattended")


async def test_a_request_waits_for_its_answer_and_both_are_told() -> None:
    stage = ApprovalStage()
    asking = stage.start(request(A, chain=(ROOT,)))
    [approval_request] = await stage.asked()
    assert not asking.done()
    ada = Decider("client", "ada")
    assert stage.queue.resolve(approval_request.approval_id, "allow", by=ada)
    granted = await asking
    assert (granted, granted.by_policy) == (Permission(ada, "once"), False)
    approval_resolved = ApprovalResolved(
        approval_request.approval_id, "allow", scope="once", reason="user", chain=(ROOT,), by=ada
    )
    assert stage.events == [approval_request, approval_resolved]
    assert stage.queue.pending() == []


async def test_a_yes_that_comes_after_the_interrupt_allows_nothing() -> None:
    """B6: the asker was cancelled and has not noticed yet. Nothing is granted, and nobody is told of a yes."""
    stage = ApprovalStage()
    gone, stays = stage.start(), stage.start(request(B))
    first, second = await stage.asked(2)
    gone.cancel()
    assert stage.queue.pending() == [second]
    assert not stage.queue.resolve(first.approval_id, "allow", scope="session")
    assert stage.queue.grants() == []
    assert stage.queue.resolve(second.approval_id, "allow", scope="session")
    assert (await stays).scope == "session"
    with pytest.raises(asyncio.CancelledError):
        await gone
    decisions = {event.approval_id: (event.decision, event.reason) for event in stage.resolved()}
    assert decisions == {first.approval_id: ("deny", "interrupted"), second.approval_id: ("allow", "user")}
    assert len(stage.resolved()) == 2


async def test_allowed_once_means_once() -> None:
    stage = ApprovalStage()
    for _ in range(2):
        asking = stage.start()
        [request] = await stage.asked()
        stage.queue.resolve(request.approval_id, "allow", scope="once")
        await asking
    assert len(stage.requested()) == 2
    assert stage.queue.grants() == []


@each_row(("message", "expected"), [(None, "the user said no"), ("use rg", "the user said no: use rg")])
async def test_a_denial_is_an_error_with_what_the_user_said(message: str | None, expected: str) -> None:
    stage = ApprovalStage()
    asking = stage.start()
    [request] = await stage.asked()
    stage.queue.resolve(request.approval_id, "deny", message=message)
    with pytest.raises(ApprovalDeniedError) as denied:
        await asking
    assert denied.value.message == expected
    assert not isinstance(denied.value, NoApproverError)
    assert [event.decision for event in stage.resolved()] == ["deny"]


async def test_an_answer_may_come_while_the_request_is_being_published() -> None:
    stage = ApprovalStage()

    def answer(event: object) -> None:
        stage.events.append(event)  # type: ignore[arg-type]
        if isinstance(event, ApprovalRequest):
            stage.queue.resolve(event.approval_id, "allow")

    assert await stage.queue.ask(request(), UNTRUSTED, answer) == Permission(Decider("client"), "once")


# ── nobody there ─────────────────────────────────────────────────────────────────────────────────────────────


@each_row("policy", [NEVER, APPROVAL_ORDER.meet(NEVER, UNTRUSTED)])
async def test_where_nobody_may_be_asked_it_is_denied_at_once(policy: Any) -> None:
    """S000-18, B7: a grant of earlier days does not count either, where the policy lets nobody be asked."""
    stage = ApprovalStage()
    escalation = request(kind="escalation")
    asking = stage.start(escalation)
    [approval_request] = await stage.asked()
    stage.queue.resolve(approval_request.approval_id, "allow", scope="session")
    await asking
    events = list(stage.events)
    with pytest.raises(NoApproverError, match="does not allow asking for one"):
        await stage.queue.ask(escalation, policy, stage.events.append)
    assert stage.events == events


async def test_where_nobody_is_connected_it_is_denied_at_once() -> None:
    """Never a hang."""
    stage = ApprovalStage()
    stage.leave()
    with pytest.raises(NoApproverError, match="no client attends"):
        await stage.queue.ask(request(), UNTRUSTED, stage.events.append)
    assert stage.events == []
    with stage.queue.attended():
        asking = stage.start()
        [approval_request] = await stage.asked()
        stage.queue.resolve(approval_request.approval_id, "allow")
        await asking


async def test_an_approver_who_disconnects_leaves_a_request_that_times_out_as_denied() -> None:
    """B9."""
    stage = ApprovalStage(timeout_s=0.01)
    asking = stage.start()
    [request] = await stage.asked()
    stage.leave()
    with pytest.raises(ApprovalDeniedError, match=r"no approver answered within 0\.01 s"):
        await asking
    assert [(event.decision, event.reason) for event in stage.resolved()] == [("deny", "timeout")]
    assert stage.queue.pending() == []
    assert not stage.queue.resolve(request.approval_id, "allow", scope="session")
    assert stage.queue.grants() == []


# ── second answers, strange answers ──────────────────────────────────────────────────────────────────────────


async def test_the_first_answer_wins_and_later_ones_change_nothing() -> None:
    """B6: twice and late."""
    stage = ApprovalStage()
    asking = stage.start()
    [request] = await stage.asked()
    assert stage.queue.resolve(request.approval_id, "deny")
    assert not stage.queue.resolve(request.approval_id, "allow", scope="session")
    with pytest.raises(ApprovalDeniedError):
        await asking
    assert not stage.queue.resolve(request.approval_id, "allow", scope="session")
    assert len(stage.resolved()) == 1
    assert stage.queue.grants() == []


async def test_an_unknown_id_is_not_found() -> None:
    """B6."""
    stage = ApprovalStage()
    for unknown in ("", "x", "a-1", "x" * 100_000):
        with pytest.raises(NotFoundError) as refused:
            stage.queue.resolve(unknown, "allow")
        assert len(refused.value.message) < 200
    assert stage.events == []


async def test_a_foreign_conversation_cannot_answer_and_a_caller_can() -> None:
    """B6, B3: the request of a child shows at those that wait for it, and nowhere else."""
    stage = ApprovalStage()
    asking = stage.start(request(A, chain=(ROOT,)))
    [approval_request] = await stage.asked()
    assert stage.queue.pending(B) == []
    with pytest.raises(NotFoundError):
        stage.queue.resolve(approval_request.approval_id, "allow", conversation=B)
    assert stage.queue.pending() == stage.queue.pending(A) == stage.queue.pending(ROOT) == [approval_request]
    assert stage.queue.resolve(approval_request.approval_id, "allow", conversation=ROOT)
    await asking


@each_row(
    ("answer", "word"),
    [
        ({"decision": "allow", "ttl_s": 5.0}, "ttl_s needs the scope"),
        ({"decision": "allow", "scope": "session", "ttl_s": 0.0}, "ttl_s must be a positive number"),
        ({"decision": "allow", "scope": "session", "ttl_s": -1.0}, "ttl_s must be a positive number"),
        ({"decision": "allow", "scope": "session", "ttl_s": float("nan")}, "ttl_s must be a positive number"),
        ({"decision": "allow", "scope": "session", "ttl_s": float("inf")}, "ttl_s must be a positive number"),
    ],
)
async def test_an_answer_that_cannot_be_meant_is_refused_and_the_request_still_waits(
    answer: dict[str, Any], word: str
) -> None:
    stage = ApprovalStage()
    asking = stage.start(request(scopes=("once", "session")))
    waiting = await stage.asked()
    with pytest.raises(InvalidParamsError, match=word):
        stage.queue.resolve(waiting[0].approval_id, **answer)
    assert stage.queue.pending() == waiting
    assert stage.queue.grants() == []
    stage.queue.resolve(waiting[0].approval_id, "allow")
    await asking


async def test_a_no_is_taken_whatever_is_said_with_it_and_holds_once() -> None:
    """Refusing a no would leave the request to somebody else's yes."""
    stage = ApprovalStage()
    asking = stage.start(request())
    [waiting] = await stage.asked()
    assert stage.queue.resolve(waiting.approval_id, "deny", scope="session", ttl_s=60)
    with pytest.raises(ApprovalDeniedError):
        await asking
    assert stage.queue.grants() == []
    again = stage.start(request())
    [waiting] = await stage.asked()
    stage.queue.resolve(waiting.approval_id, "allow")
    await again


# ── grants ───────────────────────────────────────────────────────────────────────────────────────────────────


async def allow(stage: ApprovalStage, request: Any, **answer: Any) -> Permission:
    asking = stage.start(request)
    [waiting] = await stage.asked()
    stage.queue.resolve(waiting.approval_id, "allow", **answer)
    return await asking


async def test_a_grant_for_a_conversation_is_used_there_and_asked_for_elsewhere() -> None:
    """B3, S002-12, S002-13."""
    stage = ApprovalStage()
    first = await allow(stage, request(A), scope="conversation")
    [grant] = stage.queue.grants()
    assert first == Permission(Decider("client", grant_id=grant.grant_id), "conversation")
    assert await stage.start(request(A)) == Permission(Decider("grant", grant_id=grant.grant_id), "conversation")
    other = stage.start(request(B))
    [approval_request] = await stage.asked()
    assert approval_request.conversation_id == B
    stage.queue.interrupt(B)
    with pytest.raises(ApprovalDeniedError):
        await other


async def test_a_grant_for_the_session_is_used_everywhere() -> None:
    """S002-13."""
    stage = ApprovalStage()
    await allow(stage, request(A), scope="session")
    stage.leave()
    assert (await stage.start(request(B))).decider.kind == "grant"


@each_row(
    "change",
    [
        {"subject": subject("make", "install")},
        {"subject": subject(cwd="/x")},
        {"subject": subject(environment="all")},
        {"subject": subject(sandbox="read-only")},
        {"kind": "escalation"},
    ],
)
async def test_whatever_differs_is_asked_anew(change: dict[str, Any]) -> None:
    """B5."""
    stage = ApprovalStage()
    await allow(stage, request(A), scope="session")
    asking = stage.start(request(A, **change))
    assert await stage.asked()
    stage.queue.close()
    with pytest.raises(ApprovalDeniedError):
        await asking


async def test_without_a_ttl_a_grant_lasts_and_with_one_it_ends_on_the_monotonic_clock() -> None:
    """X-29, B4: in the library nothing ends by itself unless asked."""
    stage = ApprovalStage()
    await allow(stage, request(A), scope="session")
    await allow(stage, request(A, subject=subject("ls")), scope="session", ttl_s=5.0)
    assert [grant.expires_in_s for grant in stage.queue.grants()] == [None, 5.0]
    stage.clock.wall = 0.0
    stage.clock.seconds = 5.0
    assert [grant.expires_in_s for grant in stage.queue.grants()] == [None]
    assert (await stage.start(request(A))).decider.kind == "grant"
    asking = stage.start(request(A, subject=subject("ls")))
    assert await stage.asked()
    stage.queue.close()
    with pytest.raises(ApprovalDeniedError):
        await asking


async def test_a_session_may_have_a_ttl_for_all_its_grants() -> None:
    """X-29: half an hour, as in the sample configuration."""
    stage = ApprovalStage(default_ttl_s=1_800.0)
    await allow(stage, request(A), scope="conversation")
    await allow(stage, request(A, subject=subject("ls")), scope="session", ttl_s=5.0)
    assert [grant.expires_in_s for grant in stage.queue.grants()] == [1_800.0, 5.0]
    assert [grant.expires_in_s for grant in stage.queue.grants(B)] == [5.0]


async def test_a_revoked_grant_is_asked_for_again() -> None:
    stage = ApprovalStage()
    await allow(stage, request(A), scope="session")
    [grant] = stage.queue.grants()
    assert stage.queue.revoke(grant.grant_id)
    assert stage.queue.grants() == []
    await allow(stage, request(A))
    assert len(stage.requested()) == 2


async def test_nobody_is_asked_twice_for_what_was_just_allowed_for_longer() -> None:
    stage = ApprovalStage()
    same, foreign = [stage.start(request(A)) for _ in range(3)], stage.start(request(B))
    first, *_ = await stage.asked(4)
    stage.queue.resolve(first.approval_id, "allow", scope="conversation")
    [grant] = stage.queue.grants()
    assert await asyncio.gather(*same) == [
        Permission(Decider("client", grant_id=grant.grant_id), "conversation"),
        Permission(Decider("grant", grant_id=grant.grant_id), "conversation"),
        Permission(Decider("grant", grant_id=grant.grant_id), "conversation"),
    ]
    assert [request.conversation_id for request in stage.queue.pending()] == [B]
    stage.queue.close()
    with pytest.raises(ApprovalDeniedError):
        await foreign


async def test_expired_grants_are_cleaned_away_periodically() -> None:
    """S002-12."""
    stage = ApprovalStage()
    await allow(stage, request(A), scope="session", ttl_s=1.0)
    held = stage.queue._grants
    cleaning = asyncio.get_running_loop().create_task(stage.queue.keep_clean(0))
    await asyncio.sleep(0)
    assert len(held) == 1
    stage.clock.seconds = 2.0
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(held) == 0
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning


# ── endings ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_interrupting_a_conversation_answers_its_own_requests_only() -> None:
    """CODEX defect 9; also not those of a child that it waits for."""
    stage = ApprovalStage()
    own, child, other = stage.start(request(A)), stage.start(request(B, chain=(A,))), stage.start(request(ROOT))
    await stage.asked(3)
    assert stage.queue.interrupt(A) == 1
    with pytest.raises(ApprovalDeniedError, match="interrupted"):
        await own
    assert [request.conversation_id for request in stage.queue.pending()] == [B, ROOT]
    assert stage.queue.interrupt(A) == 0
    for approval_request in stage.queue.pending():
        stage.queue.resolve(approval_request.approval_id, "allow")
    await asyncio.gather(child, other)


async def test_a_cancelled_caller_withdraws_its_request() -> None:
    stage = ApprovalStage()
    asking = stage.start()
    [request] = await stage.asked()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert stage.queue.pending() == []
    assert [(event.decision, event.reason) for event in stage.resolved()] == [("deny", "interrupted")]
    assert not stage.queue.resolve(request.approval_id, "allow", scope="session")
    assert stage.queue.grants() == []


async def test_a_closed_conversation_takes_its_requests_and_grants_with_it() -> None:
    stage = ApprovalStage()
    await allow(stage, request(A), scope="conversation")
    asking = stage.start(request(A, subject=subject("ls")))
    await stage.asked()
    stage.queue.forget(A)
    with pytest.raises(ApprovalDeniedError):
        await asking
    assert stage.queue.grants() == []


async def test_closing_the_queue_denies_what_waits_and_whatever_comes() -> None:
    stage = ApprovalStage()
    asking = stage.start()
    await stage.asked()
    stage.queue.close()
    with pytest.raises(ApprovalDeniedError, match="shutdown"):
        await asking
    with pytest.raises(ClosedError):
        await stage.start()
    assert [event.reason for event in stage.resolved()] == ["shutdown"]


async def test_a_request_that_cannot_be_published_does_not_wait() -> None:
    stage = ApprovalStage()

    def fail(event: object) -> None:
        raise ClosedError("the bus is closed")

    with pytest.raises(ClosedError):
        await stage.queue.ask(request(), UNTRUSTED, fail)
    assert stage.queue.pending() == []


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_thousand_requests_at_once_are_asked_in_order_and_each_gets_its_answer() -> None:
    """B12: bounded queue, FIFO, none lost."""
    stage = ApprovalStage()
    asking = [stage.start(request(A, subject=subject(str(number)))) for number in range(1_000)]
    waiting = await stage.asked(1_000)
    assert [approval.matches[0] for approval in waiting] == [f"exec: {number}" for number in range(1_000)]
    assert stage.requested() == waiting
    for number, approval in enumerate(waiting):
        stage.queue.resolve(approval.approval_id, "allow" if number % 2 else "deny")
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(answer, Permission) for answer in answers] == [number % 2 == 1 for number in range(1_000)]
    assert [event.approval_id for event in stage.resolved()] == [approval.approval_id for approval in waiting]


async def test_above_the_bound_a_request_is_refused_and_the_others_wait_on() -> None:
    """B12."""
    stage = ApprovalStage(max_pending=2)
    asking = [stage.start(request(A, subject=subject(str(number)))) for number in range(2)]
    waiting = await stage.asked(2)
    with pytest.raises(BusyError) as refused:
        await stage.start(request(A, subject=subject("2")))
    assert refused.value.detail["retry_after_s"] == 1
    assert stage.queue.pending() == waiting
    stage.queue.close()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(answer, ApprovalDeniedError) for answer in answers)


# ── after a crash ────────────────────────────────────────────────────────────────────────────────────────────

CRASHING = """
import asyncio, sys
from tests.policy.approval_stage import ApprovalStage, request

async def main():
    stage = ApprovalStage()
    asking = stage.start()
    [asked] = await stage.asked()
    print(asked.approval_id, flush=True)
    await asking
    open(sys.argv[1], "w").close()

asyncio.run(main())
"""


async def test_a_crash_while_waiting_grants_nothing(tmp_path: Path) -> None:
    """B8: killed with -9; what was asked is unknown afterwards, and what it was for was not done."""
    done = tmp_path / "done"
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", CRASHING, done], cwd=root, stdout=subprocess.PIPE, text=True
    ) as asking:
        assert asking.stdout is not None
        approval_id = asking.stdout.readline().strip()
        asking.send_signal(signal.SIGKILL)
    assert approval_id
    assert not done.exists()
    resumed = ApprovalQueue(HandClock())
    with pytest.raises(NotFoundError):
        resumed.resolve(approval_id, "allow", scope="session")
    assert resumed.pending() == []
    assert resumed.grants() == []
    with pytest.raises(NoApproverError):
        await resumed.ask(request(), UNTRUSTED, lambda event: None)


async def test_who_sees_a_request_without_having_said_so_can_answer_it_too() -> None:
    """B9: and whoever does not see it counts for nothing."""
    stage = ApprovalStage(is_seen=lambda request, elicitation: request.conversation_id == A)
    stage.leave()
    waiting = stage.start()
    (approval_request,) = await stage.asked()
    stage.queue.resolve(approval_request.approval_id, "allow")
    assert (await waiting).decider.kind == "client"
    with pytest.raises(NoApproverError):
        await stage.start(request(B))
    assert len(stage.requested()) == 1


async def test_whoever_attends_one_conversation_answers_for_it_and_those_it_waits_for() -> None:
    """B9: nobody else's request is kept waiting for somebody who does not see it."""
    stage = ApprovalStage()
    stage.leave()
    with stage.queue.attended(ROOT), stage.queue.attended(ROOT):
        with pytest.raises(NoApproverError):
            await stage.start(request(A))
        with stage.queue.attended(B):
            pass
        with pytest.raises(NoApproverError):
            await stage.start(request(B))
        for seen in (request(ROOT), request(A, chain=(ROOT,)), request(A, chain=(ROOT, B))):
            asking = stage.start(seen)
            (waiting,) = await stage.asked()
            stage.queue.resolve(waiting.approval_id, "allow")
            assert (await asking).decider.kind == "client"
    with pytest.raises(NoApproverError):
        await stage.start(request(ROOT))
    assert len(stage.requested()) == 3


async def test_a_grant_is_not_lent_to_a_chain_that_is_allowed_less() -> None:
    """B11: asked again, and the answer to that is the one that counts there."""
    stage = ApprovalStage()
    asking = stage.start(request(A, kind="escalation"), ON_REQUEST)
    (waiting,) = await stage.asked()
    stage.queue.resolve(waiting.approval_id, "allow", scope="session")
    assert (await asking).scope == "session"
    assert (await stage.start(request(B, kind="escalation"), ON_REQUEST)).decider.kind == "grant"
    asking = stage.start(request(A, kind="escalation", chain=(ROOT,)), UNTRUSTED)
    (waiting,) = await stage.asked()
    stage.queue.resolve(waiting.approval_id, "deny")
    with pytest.raises(ApprovalDeniedError):
        await asking


async def test_a_new_grant_does_not_settle_what_waits_in_a_stricter_chain() -> None:
    """B11"""
    stage = ApprovalStage()
    strict = stage.start(request(A, kind="escalation", chain=(ROOT,)), UNTRUSTED)
    (waiting,) = await stage.asked()
    wide = stage.start(request(A, kind="escalation"), ON_REQUEST)
    (_, other) = await stage.asked(2)
    stage.queue.resolve(other.approval_id, "allow", scope="session")
    assert (await wide).decider.kind == "client"
    assert stage.queue.pending() == [waiting]
    stage.queue.resolve(waiting.approval_id, "deny")
    with pytest.raises(ApprovalDeniedError):
        await strict


# ── what a request says, and who answered it ─────────────────────────────────────────────────────────────────


async def test_a_request_says_when_it_was_asked_and_when_it_ends() -> None:
    """A1: by the wall clock, for people; what ends it is the other one."""
    stage = ApprovalStage(timeout_s=90)
    asking = stage.start(request(call_id=CallId("call-1")))
    [approval_request] = await stage.asked()
    assert (approval_request.call_id, approval_request.asked_at, approval_request.expires_at) == (
        "call-1",
        "1970-01-12T13:46:40.000Z",
        "1970-01-12T13:48:10.000Z",
    )
    stage.queue.resolve(approval_request.approval_id, "allow")
    await asking


async def test_every_ending_says_who_or_what_it_was() -> None:
    """A1: a client, a grant, the clock, an interruption, the end."""
    stage = ApprovalStage(timeout_s=0.01)
    with pytest.raises(ApprovalDeniedError):
        await stage.start()
    approval_stage = ApprovalStage()
    lasting, same = approval_stage.start(request(A)), approval_stage.start(request(A))
    interrupted, left = approval_stage.start(request(B)), approval_stage.start(request(ROOT))
    first, *_ = await approval_stage.asked(4)
    approval_stage.queue.resolve(first.approval_id, "allow", scope="conversation", by=Decider("client", "zed 1"))
    approval_stage.queue.interrupt(B)
    approval_stage.queue.close()
    await asyncio.gather(lasting, same, interrupted, left, return_exceptions=True)
    [grant] = approval_stage.queue.grants()
    assert [event.by for event in (*stage.resolved(), *approval_stage.resolved())] == [
        Decider("clock"),
        Decider("client", "zed 1", grant.grant_id),
        Decider("grant", grant_id=grant.grant_id),
        Decider("interrupt"),
        Decider("shutdown"),
    ]


async def test_a_yes_for_longer_than_was_offered_holds_once_and_says_so() -> None:
    """A3: nothing is granted beyond what was offered, and nobody has to answer again."""
    stage = ApprovalStage()
    for scope in ("conversation", "session"):
        asking = stage.start(request(scopes=("once",)))
        [approval_request] = await stage.asked()
        became = stage.queue.resolve(approval_request.approval_id, "allow", scope=scope, ttl_s=60)
        assert (became.resolved, became.scope) == (True, "once")
        assert became.narrowed == f"{scope} was not offered for this request, so the yes holds once"
        assert (await asking).scope == "once"
        assert stage.resolved()[-1].scope == "once"
    assert stage.queue.grants() == []


async def test_every_text_of_a_request_is_there_whole_until_it_is_answered() -> None:
    """A1, B10: a megabyte."""
    stage = ApprovalStage()
    patch = "".join(f"+line {number}\u202e\n" for number in range(80_000))
    asking = stage.start(request(detail=with_label("The patch", patch)))
    [approval_request] = await stage.asked()
    assert len(approval_request.detail) < 20_000
    assert approval_request.scopes == ["once"]
    prepared = stage.queue.prepared(approval_request.approval_id)
    assert prepared.event == approval_request
    texts = prepared.texts
    assert prepared.digests == {name: sha256(text) for name, text in texts.items()}
    assert texts["detail"].count("⟨U+202E⟩") == 80_000
    assert (len(texts["detail"]), sha256(texts["detail"])) == (approval_request.size, approval_request.digest)
    assert approval_request.hidden > 1_000_000
    stage.queue.resolve(approval_request.approval_id, "allow")
    await asking
    with pytest.raises(NotFoundError, match="waits for an answer"):
        stage.queue.prepared(approval_request.approval_id)


async def test_no_length_of_a_request_holds_the_loop() -> None:
    """A1, L1: neither when it is asked nor with each page that is read; 160,000 signs took 400 ms every time."""
    for length in (4_000, 80_000):
        stage = ApprovalStage()
        signs = "\u202e\u200b" * (length // 2)
        async with loop_steps() as steps:
            asking = stage.start(
                request(detail=signs, subject=subject("bash", signs), parts=ApprovalParts(command=("bash", signs)))
            )
            [approval_request] = await stage.asked()
            for _ in range(10):
                assert (
                    stage.queue.prepared(approval_request.approval_id).texts["command"].count("U+202E") == length // 2
                )
                await asyncio.sleep(0)
            stage.queue.resolve(approval_request.approval_id, "allow")
            await asking
        assert steps.longest_s < MOST_S


async def test_a_queue_that_closes_while_a_long_request_is_made_ready_asks_nobody() -> None:
    stage = ApprovalStage()
    asking = stage.start(request(detail="x" * 100_000))
    await asyncio.sleep(0)
    stage.queue.close()
    with pytest.raises(ClosedError):
        await asking
    assert stage.events == []
