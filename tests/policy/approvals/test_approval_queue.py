"""The approval desk."""

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
from tertulia.policy.approvals.approval_request import with_label
from tertulia.policy.display_text import sha256
from tertulia.protocol.ids import CallId
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, Decider
from tests.policy.asking import ROOT, A, B, Desk, HandClock, request, subject
from tests.tables import each_row

# ── asking and answering ─────────────────────────────────────────────────────────────────────────────────────


def desk_of(desk: Desk, policy: ApprovalPolicy, **more: Any) -> Any:
    return desk.desk.ask(request(), policy, desk.events.append, **more)


async def test_what_the_policy_lets_run_is_not_asked() -> None:
    """A1: and it is known which policy let it."""
    free = await desk_of(desk := Desk(), ON_REQUEST)
    assert (free, free.by_policy) == (Permission(Decider("policy", "on-request")), True)
    assert await desk_of(desk, UNTRUSTED, known_safe=True) == Permission(Decider("policy", "untrusted"))
    assert desk.events == []


async def test_a_request_waits_for_its_answer_and_both_are_told() -> None:
    desk = Desk()
    asking = desk.start(request(A, chain=(ROOT,)))
    [asked] = await desk.asked()
    assert not asking.done()
    ada = Decider("client", "ada")
    assert desk.desk.resolve(asked.approval_id, "allow", by=ada)
    granted = await asking
    assert (granted, granted.by_policy) == (Permission(ada, "once"), False)
    told = ApprovalResolved(asked.approval_id, "allow", scope="once", reason="user", chain=(ROOT,), by=ada)
    assert desk.events == [asked, told]
    assert desk.desk.pending() == []


async def test_a_yes_that_comes_after_the_interrupt_allows_nothing() -> None:
    """B6: the asker was cancelled and has not noticed yet. Nothing is granted, and nobody is told of a yes."""
    desk = Desk()
    gone, stays = desk.start(), desk.start(request(B))
    first, second = await desk.asked(2)
    gone.cancel()
    assert desk.desk.pending() == [second]
    assert not desk.desk.resolve(first.approval_id, "allow", scope="session")
    assert desk.desk.grants() == []
    assert desk.desk.resolve(second.approval_id, "allow", scope="session")
    assert (await stays).scope == "session"
    with pytest.raises(asyncio.CancelledError):
        await gone
    told = {event.approval_id: (event.decision, event.reason) for event in desk.resolved()}
    assert told == {first.approval_id: ("deny", "interrupted"), second.approval_id: ("allow", "user")}
    assert len(desk.resolved()) == 2


async def test_allowed_once_means_once() -> None:
    desk = Desk()
    for _ in range(2):
        asking = desk.start()
        [asked] = await desk.asked()
        desk.desk.resolve(asked.approval_id, "allow", scope="once")
        await asking
    assert len(desk.requested()) == 2
    assert desk.desk.grants() == []


@pytest.mark.parametrize(("message", "said"), [(None, "the user said no"), ("use rg", "the user said no: use rg")])
async def test_a_denial_is_an_error_with_what_the_user_said(message: str | None, said: str) -> None:
    desk = Desk()
    asking = desk.start()
    [asked] = await desk.asked()
    desk.desk.resolve(asked.approval_id, "deny", message=message)
    with pytest.raises(ApprovalDeniedError) as denied:
        await asking
    assert denied.value.message == said
    assert not isinstance(denied.value, NoApproverError)
    assert [event.decision for event in desk.resolved()] == ["deny"]


async def test_an_answer_may_come_while_the_request_is_being_published() -> None:
    desk = Desk()

    def answer(event: object) -> None:
        desk.events.append(event)  # type: ignore[arg-type]
        if isinstance(event, ApprovalRequest):
            desk.desk.resolve(event.approval_id, "allow")

    assert await desk.desk.ask(request(), UNTRUSTED, answer) == Permission(Decider("client"), "once")


# ── nobody there ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", [NEVER, APPROVAL_ORDER.meet(NEVER, UNTRUSTED)])
async def test_where_nobody_may_be_asked_it_is_denied_at_once(policy: Any) -> None:
    """S000-18, B7: a grant of earlier days does not count either, where the policy lets nobody be asked."""
    desk = Desk()
    escalation = request(kind="escalation")
    asking = desk.start(escalation)
    [asked] = await desk.asked()
    desk.desk.resolve(asked.approval_id, "allow", scope="session")
    await asking
    told = list(desk.events)
    with pytest.raises(NoApproverError, match="lets no approver be asked"):
        await desk.desk.ask(escalation, policy, desk.events.append)
    assert desk.events == told


async def test_where_nobody_is_connected_it_is_denied_at_once() -> None:
    """Never a hang."""
    desk = Desk()
    desk.leave()
    with pytest.raises(NoApproverError, match="no client attends"):
        await desk.desk.ask(request(), UNTRUSTED, desk.events.append)
    assert desk.events == []
    with desk.desk.attended():
        asking = desk.start()
        [asked] = await desk.asked()
        desk.desk.resolve(asked.approval_id, "allow")
        await asking


async def test_an_approver_who_disconnects_leaves_a_request_that_times_out_as_denied() -> None:
    """B9."""
    desk = Desk(timeout_s=0.01)
    asking = desk.start()
    [asked] = await desk.asked()
    desk.leave()
    with pytest.raises(ApprovalDeniedError, match=r"no approver answered within 0\.01 s"):
        await asking
    assert [(event.decision, event.reason) for event in desk.resolved()] == [("deny", "timeout")]
    assert desk.desk.pending() == []
    assert not desk.desk.resolve(asked.approval_id, "allow", scope="session")
    assert desk.desk.grants() == []


# ── second answers, strange answers ──────────────────────────────────────────────────────────────────────────


async def test_the_first_answer_wins_and_later_ones_change_nothing() -> None:
    """B6: twice and late."""
    desk = Desk()
    asking = desk.start()
    [asked] = await desk.asked()
    assert desk.desk.resolve(asked.approval_id, "deny")
    assert not desk.desk.resolve(asked.approval_id, "allow", scope="session")
    with pytest.raises(ApprovalDeniedError):
        await asking
    assert not desk.desk.resolve(asked.approval_id, "allow", scope="session")
    assert len(desk.resolved()) == 1
    assert desk.desk.grants() == []


async def test_an_unknown_id_is_not_found() -> None:
    """B6."""
    desk = Desk()
    for unknown in ("", "x", "a-1", "x" * 100_000):
        with pytest.raises(NotFoundError) as refused:
            desk.desk.resolve(unknown, "allow")
        assert len(refused.value.message) < 200
    assert desk.events == []


async def test_a_foreign_conversation_cannot_answer_and_a_caller_can() -> None:
    """B6, B3: the request of a child shows at those that wait for it, and nowhere else."""
    desk = Desk()
    asking = desk.start(request(A, chain=(ROOT,)))
    [asked] = await desk.asked()
    assert desk.desk.pending(B) == []
    with pytest.raises(NotFoundError):
        desk.desk.resolve(asked.approval_id, "allow", conversation=B)
    assert desk.desk.pending() == desk.desk.pending(A) == desk.desk.pending(ROOT) == [asked]
    assert desk.desk.resolve(asked.approval_id, "allow", conversation=ROOT)
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
    desk = Desk()
    asking = desk.start(request(scopes=("once", "session")))
    waiting = await desk.asked()
    with pytest.raises(InvalidParamsError, match=word):
        desk.desk.resolve(waiting[0].approval_id, **answer)
    assert desk.desk.pending() == waiting
    assert desk.desk.grants() == []
    desk.desk.resolve(waiting[0].approval_id, "allow")
    await asking


async def test_a_no_is_taken_whatever_is_said_with_it_and_holds_once() -> None:
    """Refusing a no would leave the request to somebody else's yes."""
    desk = Desk()
    asking = desk.start(request())
    [waiting] = await desk.asked()
    assert desk.desk.resolve(waiting.approval_id, "deny", scope="session", ttl_s=60)
    with pytest.raises(ApprovalDeniedError):
        await asking
    assert desk.desk.grants() == []
    again = desk.start(request())
    [waiting] = await desk.asked()
    desk.desk.resolve(waiting.approval_id, "allow")
    await again


# ── grants ───────────────────────────────────────────────────────────────────────────────────────────────────


async def allow(desk: Desk, asked: Any, **answer: Any) -> Permission:
    asking = desk.start(asked)
    [waiting] = await desk.asked()
    desk.desk.resolve(waiting.approval_id, "allow", **answer)
    return await asking


async def test_a_grant_for_a_conversation_is_used_there_and_asked_for_elsewhere() -> None:
    """B3, S002-12, S002-13."""
    desk = Desk()
    first = await allow(desk, request(A), scope="conversation")
    [grant] = desk.desk.grants()
    assert first == Permission(Decider("client", grant_id=grant.grant_id), "conversation")
    assert await desk.start(request(A)) == Permission(Decider("grant", grant_id=grant.grant_id), "conversation")
    other = desk.start(request(B))
    [asked] = await desk.asked()
    assert asked.conversation_id == B
    desk.desk.interrupt(B)
    with pytest.raises(ApprovalDeniedError):
        await other


async def test_a_grant_for_the_session_is_used_everywhere() -> None:
    """S002-13."""
    desk = Desk()
    await allow(desk, request(A), scope="session")
    desk.leave()
    assert (await desk.start(request(B))).decider.kind == "grant"


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
    desk = Desk()
    await allow(desk, request(A), scope="session")
    asking = desk.start(request(A, **change))
    assert await desk.asked()
    desk.desk.close()
    with pytest.raises(ApprovalDeniedError):
        await asking


async def test_without_a_ttl_a_grant_lasts_and_with_one_it_ends_on_the_monotonic_clock() -> None:
    """X-29, B4: in the library nothing ends by itself unless asked."""
    desk = Desk()
    await allow(desk, request(A), scope="session")
    await allow(desk, request(A, subject=subject("ls")), scope="session", ttl_s=5.0)
    assert [grant.expires_in_s for grant in desk.desk.grants()] == [None, 5.0]
    desk.clock.wall = 0.0
    desk.clock.seconds = 5.0
    assert [grant.expires_in_s for grant in desk.desk.grants()] == [None]
    assert (await desk.start(request(A))).decider.kind == "grant"
    asking = desk.start(request(A, subject=subject("ls")))
    assert await desk.asked()
    desk.desk.close()
    with pytest.raises(ApprovalDeniedError):
        await asking


async def test_a_session_may_have_a_ttl_for_all_its_grants() -> None:
    """X-29: half an hour, as in the sample configuration."""
    desk = Desk(default_ttl_s=1_800.0)
    await allow(desk, request(A), scope="conversation")
    await allow(desk, request(A, subject=subject("ls")), scope="session", ttl_s=5.0)
    assert [grant.expires_in_s for grant in desk.desk.grants()] == [1_800.0, 5.0]
    assert [grant.expires_in_s for grant in desk.desk.grants(B)] == [5.0]


async def test_a_revoked_grant_is_asked_for_again() -> None:
    desk = Desk()
    await allow(desk, request(A), scope="session")
    [grant] = desk.desk.grants()
    assert desk.desk.revoke(grant.grant_id)
    assert desk.desk.grants() == []
    await allow(desk, request(A))
    assert len(desk.requested()) == 2


async def test_nobody_is_asked_twice_for_what_was_just_allowed_for_longer() -> None:
    desk = Desk()
    same, foreign = [desk.start(request(A)) for _ in range(3)], desk.start(request(B))
    first, *_ = await desk.asked(4)
    desk.desk.resolve(first.approval_id, "allow", scope="conversation")
    [grant] = desk.desk.grants()
    assert await asyncio.gather(*same) == [
        Permission(Decider("client", grant_id=grant.grant_id), "conversation"),
        Permission(Decider("grant", grant_id=grant.grant_id), "conversation"),
        Permission(Decider("grant", grant_id=grant.grant_id), "conversation"),
    ]
    assert [asked.conversation_id for asked in desk.desk.pending()] == [B]
    desk.desk.close()
    with pytest.raises(ApprovalDeniedError):
        await foreign


async def test_expired_grants_are_cleaned_away_periodically() -> None:
    """S002-12."""
    desk = Desk()
    await allow(desk, request(A), scope="session", ttl_s=1.0)
    held = desk.desk._grants
    cleaning = asyncio.get_running_loop().create_task(desk.desk.keep_clean(0))
    await asyncio.sleep(0)
    assert len(held) == 1
    desk.clock.seconds = 2.0
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(held) == 0
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning


# ── endings ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_interrupting_a_conversation_answers_its_own_requests_only() -> None:
    """CODEX defect 9; also not those of a child that it waits for."""
    desk = Desk()
    own, child, other = desk.start(request(A)), desk.start(request(B, chain=(A,))), desk.start(request(ROOT))
    await desk.asked(3)
    assert desk.desk.interrupt(A) == 1
    with pytest.raises(ApprovalDeniedError, match="interrupted"):
        await own
    assert [asked.conversation_id for asked in desk.desk.pending()] == [B, ROOT]
    assert desk.desk.interrupt(A) == 0
    for asked in desk.desk.pending():
        desk.desk.resolve(asked.approval_id, "allow")
    await asyncio.gather(child, other)


async def test_a_cancelled_caller_withdraws_its_request() -> None:
    desk = Desk()
    asking = desk.start()
    [asked] = await desk.asked()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert desk.desk.pending() == []
    assert [(event.decision, event.reason) for event in desk.resolved()] == [("deny", "interrupted")]
    assert not desk.desk.resolve(asked.approval_id, "allow", scope="session")
    assert desk.desk.grants() == []


async def test_a_closed_conversation_takes_its_requests_and_grants_with_it() -> None:
    desk = Desk()
    await allow(desk, request(A), scope="conversation")
    asking = desk.start(request(A, subject=subject("ls")))
    await desk.asked()
    desk.desk.forget(A)
    with pytest.raises(ApprovalDeniedError):
        await asking
    assert desk.desk.grants() == []


async def test_closing_the_desk_denies_what_waits_and_whatever_comes() -> None:
    desk = Desk()
    asking = desk.start()
    await desk.asked()
    desk.desk.close()
    with pytest.raises(ApprovalDeniedError, match="shutdown"):
        await asking
    with pytest.raises(ClosedError):
        await desk.start()
    assert [event.reason for event in desk.resolved()] == ["shutdown"]


async def test_a_request_that_cannot_be_published_does_not_wait() -> None:
    desk = Desk()

    def fail(event: object) -> None:
        raise ClosedError("the bus is closed")

    with pytest.raises(ClosedError):
        await desk.desk.ask(request(), UNTRUSTED, fail)
    assert desk.desk.pending() == []


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_thousand_requests_at_once_are_asked_in_order_and_each_gets_its_answer() -> None:
    """B12: bounded queue, FIFO, none lost."""
    desk = Desk()
    asking = [desk.start(request(A, subject=subject(str(number)))) for number in range(1_000)]
    waiting = await desk.asked(1_000)
    assert [asked.matches[0] for asked in waiting] == [f"exec: {number}" for number in range(1_000)]
    assert desk.requested() == waiting
    for number, asked in enumerate(waiting):
        desk.desk.resolve(asked.approval_id, "allow" if number % 2 else "deny")
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(answer, Permission) for answer in answers] == [number % 2 == 1 for number in range(1_000)]
    assert [event.approval_id for event in desk.resolved()] == [asked.approval_id for asked in waiting]


async def test_above_the_bound_a_request_is_refused_and_the_others_wait_on() -> None:
    """B12."""
    desk = Desk(max_pending=2)
    asking = [desk.start(request(A, subject=subject(str(number)))) for number in range(2)]
    waiting = await desk.asked(2)
    with pytest.raises(BusyError) as refused:
        await desk.start(request(A, subject=subject("2")))
    assert refused.value.detail["retry_after_s"] == 1
    assert desk.desk.pending() == waiting
    desk.desk.close()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(answer, ApprovalDeniedError) for answer in answers)


# ── after a crash ────────────────────────────────────────────────────────────────────────────────────────────

CRASHING = """
import asyncio, sys
from tests.policy.asking import Desk, request

async def main():
    desk = Desk()
    asking = desk.start()
    [asked] = await desk.asked()
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
    desk = Desk(is_seen=lambda asked, elicitation: asked.conversation_id == A)
    desk.leave()
    waiting = desk.start()
    (asked,) = await desk.asked()
    desk.desk.resolve(asked.approval_id, "allow")
    assert (await waiting).decider.kind == "client"
    with pytest.raises(NoApproverError):
        await desk.start(request(B))
    assert len(desk.requested()) == 1


async def test_whoever_attends_one_conversation_answers_for_it_and_those_it_waits_for() -> None:
    """B9: nobody else's request is kept waiting for somebody who does not see it."""
    desk = Desk()
    desk.leave()
    with desk.desk.attended(ROOT), desk.desk.attended(ROOT):
        with pytest.raises(NoApproverError):
            await desk.start(request(A))
        with desk.desk.attended(B):
            pass
        with pytest.raises(NoApproverError):
            await desk.start(request(B))
        for seen in (request(ROOT), request(A, chain=(ROOT,)), request(A, chain=(ROOT, B))):
            asking = desk.start(seen)
            (waiting,) = await desk.asked()
            desk.desk.resolve(waiting.approval_id, "allow")
            assert (await asking).decider.kind == "client"
    with pytest.raises(NoApproverError):
        await desk.start(request(ROOT))
    assert len(desk.requested()) == 3


async def test_a_grant_is_not_lent_to_a_chain_that_is_allowed_less() -> None:
    """B11: asked again, and the answer to that is the one that counts there."""
    desk = Desk()
    asking = desk.start(request(A, kind="escalation"), ON_REQUEST)
    (waiting,) = await desk.asked()
    desk.desk.resolve(waiting.approval_id, "allow", scope="session")
    assert (await asking).scope == "session"
    assert (await desk.start(request(B, kind="escalation"), ON_REQUEST)).decider.kind == "grant"
    asking = desk.start(request(A, kind="escalation", chain=(ROOT,)), UNTRUSTED)
    (waiting,) = await desk.asked()
    desk.desk.resolve(waiting.approval_id, "deny")
    with pytest.raises(ApprovalDeniedError):
        await asking


async def test_a_new_grant_does_not_settle_what_waits_in_a_stricter_chain() -> None:
    """B11"""
    desk = Desk()
    strict = desk.start(request(A, kind="escalation", chain=(ROOT,)), UNTRUSTED)
    (waiting,) = await desk.asked()
    wide = desk.start(request(A, kind="escalation"), ON_REQUEST)
    (_, other) = await desk.asked(2)
    desk.desk.resolve(other.approval_id, "allow", scope="session")
    assert (await wide).decider.kind == "client"
    assert desk.desk.pending() == [waiting]
    desk.desk.resolve(waiting.approval_id, "deny")
    with pytest.raises(ApprovalDeniedError):
        await strict


# ── what a request says, and who answered it ─────────────────────────────────────────────────────────────────


async def test_a_request_says_when_it_was_asked_and_when_it_ends() -> None:
    """A1: by the wall clock, for people; what ends it is the other one."""
    desk = Desk(timeout_s=90)
    asking = desk.start(request(call_id=CallId("call-1")))
    [asked] = await desk.asked()
    assert (asked.call_id, asked.asked_at, asked.expires_at) == (
        "call-1",
        "1970-01-12T13:46:40.000Z",
        "1970-01-12T13:48:10.000Z",
    )
    desk.desk.resolve(asked.approval_id, "allow")
    await asking


async def test_every_ending_says_who_or_what_it_was() -> None:
    """A1: a client, a grant, the clock, an interruption, the end."""
    desk = Desk(timeout_s=0.01)
    with pytest.raises(ApprovalDeniedError):
        await desk.start()
    kept = Desk()
    lasting, same = kept.start(request(A)), kept.start(request(A))
    interrupted, left = kept.start(request(B)), kept.start(request(ROOT))
    first, *_ = await kept.asked(4)
    kept.desk.resolve(first.approval_id, "allow", scope="conversation", by=Decider("client", "zed 1"))
    kept.desk.interrupt(B)
    kept.desk.close()
    await asyncio.gather(lasting, same, interrupted, left, return_exceptions=True)
    [grant] = kept.desk.grants()
    assert [event.by for event in (*desk.resolved(), *kept.resolved())] == [
        Decider("clock"),
        Decider("client", "zed 1", grant.grant_id),
        Decider("grant", grant_id=grant.grant_id),
        Decider("interrupt"),
        Decider("shutdown"),
    ]


async def test_a_yes_for_longer_than_was_offered_holds_once_and_says_so() -> None:
    """A3: nothing is granted beyond what was offered, and nobody has to answer again."""
    desk = Desk()
    for scope in ("conversation", "session"):
        asking = desk.start(request(scopes=("once",)))
        [asked] = await desk.asked()
        became = desk.desk.resolve(asked.approval_id, "allow", scope=scope, ttl_s=60)
        assert (became.resolved, became.scope) == (True, "once")
        assert became.narrowed == f"{scope} was not offered for this request, so the yes holds once"
        assert (await asking).scope == "once"
        assert desk.resolved()[-1].scope == "once"
    assert desk.desk.grants() == []


async def test_every_text_of_a_request_is_there_whole_until_it_is_answered() -> None:
    """A1, B10: a megabyte."""
    desk = Desk()
    patch = "".join(f"+line {number}\u202e\n" for number in range(80_000))
    asking = desk.start(request(detail=with_label("The patch", patch)))
    [asked] = await desk.asked()
    assert len(asked.detail) < 20_000
    assert asked.scopes == ["once"]
    event, texts = desk.desk.texts(asked.approval_id)
    assert event == asked
    assert texts["detail"].count("⟨U+202E⟩") == 80_000
    assert (len(texts["detail"]), sha256(texts["detail"])) == (asked.size, asked.digest)
    assert asked.hidden > 1_000_000
    desk.desk.resolve(asked.approval_id, "allow")
    await asking
    with pytest.raises(NotFoundError, match="waits for an answer"):
        desk.desk.texts(asked.approval_id)


async def test_a_desk_that_closes_while_a_long_request_is_made_ready_asks_nobody() -> None:
    desk = Desk()
    asking = desk.start(request(detail="x" * 100_000))
    await asyncio.sleep(0)
    desk.desk.close()
    with pytest.raises(ClosedError):
        await asking
    assert desk.events == []
