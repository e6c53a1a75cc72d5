"""Approval policies: four names, eight policies, one meet."""

from __future__ import annotations

from itertools import product

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.policy.approval_policy import (
    APPROVAL_ORDER,
    NEVER,
    ON_FAILURE,
    ON_REQUEST,
    PRESETS,
    UNTRUSTED,
    ApprovalPolicy,
    approval_from_wire,
    approval_to_wire,
)
from tests.tables import each_row

ALL = [ApprovalPolicy(*fields) for fields in product(("trusted", "sandboxed"), (False, True), (False, True))]
NOBODY_ASKED = ApprovalPolicy("trusted", may_ask=False, retry_outside_on_failure=False)


def test_the_presets_are_what_their_names_promise() -> None:
    """S000-18: the four names as products."""
    assert ApprovalPolicy("trusted", True, False) == UNTRUSTED
    assert ApprovalPolicy("sandboxed", True, False) == ON_REQUEST
    assert ApprovalPolicy("sandboxed", True, True) == ON_FAILURE
    assert ApprovalPolicy("sandboxed", False, False) == NEVER


@each_row("policy", ALL)
def test_whoever_can_ask_nobody_can_hold_to_two_of_the_names(policy) -> None:
    """DESIGN: an executor that cannot ask is refused under a policy that needs asking; on_request does not count."""
    assert policy.needs_asking == (policy.auto_run == "trusted" or policy.retry_outside_on_failure)
    assert [name for name, preset in PRESETS.items() if preset.needs_asking] == ["untrusted", "on-failure"]


@each_row(
    ("a", "b", "met"),
    [
        (UNTRUSTED, ON_REQUEST, UNTRUSTED),
        (UNTRUSTED, ON_FAILURE, UNTRUSTED),
        (UNTRUSTED, NEVER, NOBODY_ASKED),
        (ON_REQUEST, ON_FAILURE, ON_REQUEST),
        (ON_REQUEST, NEVER, NEVER),
        (ON_FAILURE, NEVER, NEVER),
    ],
)
def test_presets_met_pairwise(a, b, met) -> None:
    """S000-18: "never" is strict for asking and loose for running: with untrusted only safe reads run."""
    assert APPROVAL_ORDER.meet(a, b) == met == APPROVAL_ORDER.meet(b, a)


@each_row("policy", ALL)
def test_every_policy_survives_the_wire(policy) -> None:
    assert approval_from_wire(approval_to_wire(policy)) == policy
    assert approval_from_wire(policy) is policy


def test_a_policy_with_a_name_is_spelled_by_it_and_another_by_its_fields() -> None:
    assert [approval_to_wire(policy) for policy in PRESETS.values()] == [
        "untrusted",
        "on-request",
        "on-failure",
        "never",
    ]
    assert approval_to_wire(NOBODY_ASKED) == {
        "auto_run": "trusted",
        "may_ask": False,
        "retry_outside_on_failure": False,
    }


def test_underscores_are_accepted() -> None:
    assert approval_from_wire("on_request") is ON_REQUEST
    assert approval_from_wire("on-failure") is ON_FAILURE


@each_row(
    "value",
    [
        None,
        True,
        "",
        "always",
        "Never",
        ["never"],
        {},
        {"auto_run": "trusted"},
        {"auto_run": "all", "may_ask": True, "retry_outside_on_failure": True},
        {"auto_run": "trusted", "may_ask": 1, "retry_outside_on_failure": True},
        {"auto_run": "trusted", "may_ask": True, "retry_outside_on_failure": True, "more": 1},
    ],
)
def test_anything_else_is_refused_with_the_list_of_what_is_accepted(value) -> None:
    with pytest.raises(InvalidParamsError) as refusal:
        approval_from_wire(value)
    for word in ("approval_policy", "untrusted", "on-request", "on-failure", "never", "auto_run", "may_ask"):
        assert word in refusal.value.message
