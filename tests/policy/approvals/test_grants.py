"""Grants: found, ended, listed, taken back."""

from __future__ import annotations

import pytest

from tertulia.errors import NotFoundError
from tertulia.policy.approval_policy import ON_FAILURE, ON_REQUEST, UNTRUSTED, ApprovalPolicy
from tertulia.policy.approvals.grants import Grants, IdSequence
from tertulia.policy.commands.named_files import NamedFile, NamedFiles
from tests.policy.approval_stage import A, B, HandClock, request, subject
from tests.tables import each_row


def test_a_grant_of_one_conversation_does_not_count_in_another() -> None:
    """S002-13, B3."""
    grants = Grants(HandClock())
    grant = grants.add(request(A), UNTRUSTED, A, None)
    assert grants.use(request(A), UNTRUSTED) == grant
    assert grants.use(request(B), UNTRUSTED) is None


def test_a_grant_of_the_session_counts_in_all() -> None:
    """S002-13."""
    grants = Grants(HandClock())
    grant = grants.add(request(A), UNTRUSTED, None, None)
    assert grants.use(request(A), UNTRUSTED) == grants.use(request(B), UNTRUSTED) == grant


def test_the_conversation_is_looked_up_before_the_session() -> None:
    """X-30."""
    grants = Grants(HandClock())
    grants.add(request(A), UNTRUSTED, None, None)
    own = grants.add(request(A), UNTRUSTED, A, 5)
    assert grants.use(request(A), UNTRUSTED) == own


def test_an_expired_grant_stops_counting_without_any_cleaning() -> None:
    """S002-12, S002-13: also checked at lookup."""
    clock = HandClock()
    grants = Grants(clock)
    session = grants.add(request(A), UNTRUSTED, None, 20)
    grants.add(request(A), UNTRUSTED, A, 10)
    clock.seconds = 9.99
    assert grants.use(request(A), UNTRUSTED) != session
    clock.seconds = 10
    assert grants.use(request(A), UNTRUSTED) == session
    assert len(grants) == 1
    clock.seconds = 20
    assert grants.use(request(A), UNTRUSTED) is None
    assert len(grants) == 0


@each_row("wall", [0.0, 2_000_000_000.0])
def test_setting_the_date_neither_prolongs_nor_ends_a_grant(wall: float) -> None:
    """B4: monotonic clock."""
    clock = HandClock()
    grants = Grants(clock)
    grants.add(request(A), UNTRUSTED, A, 10)
    clock.wall = wall
    assert grants.use(request(A), UNTRUSTED) is not None
    clock.seconds = 11
    assert grants.use(request(A), UNTRUSTED) is None


def test_cleaning_removes_what_is_over_and_nothing_else() -> None:
    """S002-12."""
    clock = HandClock()
    grants = Grants(clock)
    for ttl_s in (1, 2, None):
        grants.add(request(A, subject=subject(str(ttl_s))), UNTRUSTED, A, ttl_s)
    clock.seconds = 1.5
    assert (grants.sweep(), len(grants)) == (1, 2)
    clock.seconds = 3
    assert (grants.sweep(), len(grants)) == (1, 1)
    assert grants.sweep() == 0


def test_the_same_key_is_kept_once_with_the_newer_end() -> None:
    """X-30: a map from key to expiry."""
    clock = HandClock()
    grants = Grants(clock)
    old = grants.add(request(A), UNTRUSTED, A, 5)
    new = grants.add(request(A), UNTRUSTED, A, 50)
    assert len(grants) == 1
    clock.seconds = 20
    assert grants.use(request(A), UNTRUSTED) == new
    assert not grants.revoke(old.grant_id)
    assert grants.use(request(A), UNTRUSTED) == new


def test_grants_are_listed_with_what_they_match_and_how_long_they_hold() -> None:
    clock = HandClock()
    grants = Grants(clock)
    grants.add(request(A), UNTRUSTED, A, 10)
    grants.add(request(B), UNTRUSTED, B, None)
    grants.add(request(A, subject=subject("ls")), UNTRUSTED, None, None)
    grants.add(request(A, subject=subject("gone")), UNTRUSTED, None, 1)
    clock.seconds = 4
    listed = grants.list()
    assert [(grant.scope, grant.conversation_id, grant.expires_in_s) for grant in listed] == [
        ("conversation", A, 6),
        ("conversation", B, None),
        ("session", None, None),
    ]
    assert listed[2].matches[0] == "exec: ls"
    assert grants.list(B) == listed[1:]


def test_a_revoked_grant_is_gone_at_once_and_may_be_revoked_again() -> None:
    grants = Grants(HandClock())
    grant = grants.add(request(A), UNTRUSTED, A, None)
    assert grants.revoke(grant.grant_id)
    assert grants.use(request(A), UNTRUSTED) is None
    assert not grants.revoke(grant.grant_id)


def test_revoking_what_is_over_says_so_and_what_never_was_is_not_found() -> None:
    clock = HandClock()
    grants = Grants(clock)
    grant = grants.add(request(A), UNTRUSTED, A, 1)
    clock.seconds = 2
    assert not grants.revoke(grant.grant_id)
    with pytest.raises(NotFoundError):
        grants.revoke(Grants(clock).add(request(A), UNTRUSTED, A, 1).grant_id)


def test_a_closed_conversation_leaves_no_grant() -> None:
    grants = Grants(HandClock())
    grants.add(request(A), UNTRUSTED, A, None)
    remaining = [grants.add(request(B), UNTRUSTED, B, None), grants.add(request(A), UNTRUSTED, None, None)]
    grants.forget(A)
    assert grants.list() == remaining


def test_above_the_bound_the_oldest_is_asked_for_again() -> None:
    grants = Grants(HandClock(), max_grants=2)
    approval_requests = [request(A, subject=subject(str(number))) for number in range(3)]
    for approval_request in approval_requests:
        grants.add(approval_request, UNTRUSTED, A, None)
    assert len(grants) == 2
    assert [grants.use(approval_request, UNTRUSTED) is not None for approval_request in approval_requests] == [
        False,
        True,
        True,
    ]


@each_row("change", ["{0}x", "x{0}", "{1}-0", "{1}-01", "{1}-2", "{1}-", "{1}", "{1}-٣", "{1}--1", ""])
def test_only_what_was_given_out_is_known(change: str) -> None:
    """B6: unknown ids, however they are made up."""
    numbers = IdSequence()
    number = numbers.next()
    assert numbers.gave(number)
    assert not numbers.gave(change.format(number, number.partition("-")[0]))
    assert not numbers.gave(number + "0" * 10_000)
    assert not IdSequence().gave(number)


@each_row(
    ("policy", "now", "holds"),
    [
        (ON_REQUEST, ON_REQUEST, True),
        (ON_REQUEST, ON_FAILURE, True),
        (UNTRUSTED, ON_REQUEST, True),
        (ON_REQUEST, UNTRUSTED, False),
        (ON_FAILURE, ON_REQUEST, False),
        (UNTRUSTED, ApprovalPolicy("trusted", may_ask=False, retry_outside_on_failure=False), False),
    ],
)
def test_a_grant_does_not_hold_where_less_is_allowed(policy: ApprovalPolicy, now: ApprovalPolicy, holds: bool) -> None:
    """B11: what was allowed to a conversation is not lent to a stricter one that asks it."""
    grants = Grants(HandClock())
    grant = grants.add(request(A), policy, A, None)
    assert grants.use(request(A), policy) == grant
    assert (grants.use(request(A), now) is not None) == holds
    assert grants.use(request(A), policy) == grant
    # Said again where less is allowed, it holds in both.
    again = grants.add(request(A), now, A, None)
    assert grants.use(request(A), now) == again


def test_a_grant_is_bound_to_the_files_that_were_named() -> None:
    """A3: other content, another file and one that nobody knows are asked about, and what changed is told."""
    grants = Grants(HandClock())
    before = NamedFiles((NamedFile("/w/run.sh", "1"),))
    grant = grants.add(request(A, named=before), UNTRUSTED, None, None)
    assert grants.use(request(A, named=before), UNTRUSTED) == grant
    assert grants.changed(request(A, named=before)) == ()
    other = request(A, named=NamedFiles((NamedFile("/w/run.sh", "2"),)))
    assert (grants.use(other, UNTRUSTED), grants.changed(other)) == (None, ("/w/run.sh",))
    unknown = request(A, named=NamedFiles(before.files, known=False))
    assert (grants.use(unknown, UNTRUSTED), grants.changed(unknown)) == (None, ())
    assert grants.changed(request(A, subject=subject("other"))) == ()


def test_a_grant_counts_how_often_it_allowed_something() -> None:
    """Issue 22 (4): what is listed says how often it was used, and a refusal is no use."""
    grants = Grants(HandClock())
    grants.add(request(A), UNTRUSTED, A, None)
    assert [grant.uses for grant in grants.list()] == [0]
    grants.use(request(A), UNTRUSTED)
    grants.use(request(B), UNTRUSTED)
    grants.use(request(A), UNTRUSTED)
    assert [grant.uses for grant in grants.list()] == [2]
    grants.add(request(A), UNTRUSTED, A, None)
    assert [grant.uses for grant in grants.list()] == [0], "a newer one has not been used yet"
