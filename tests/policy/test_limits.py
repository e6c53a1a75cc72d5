"""Limits: numbers of which the smaller holds."""

from __future__ import annotations

import math

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.policy.limits import LIMITS_ORDER, NO_LIMITS, Limits, limits_from_wire
from tests.tables import each_row

DEFAULTS = Limits()


def test_the_defaults_that_the_design_names() -> None:
    """X-16: depth 8; G5: 64 conversations a chain, 64 interrupts a task; G1: 10,000 conversations."""
    assert DEFAULTS.max_interrupt_chain_depth == 8
    assert DEFAULTS.max_chain_conversations == DEFAULTS.max_task_interrupts == 64
    assert DEFAULTS.max_conversations == 10_000
    assert DEFAULTS.task_timeout_s is DEFAULTS.target_timeout_s is None


def test_the_smaller_limit_holds_one_by_one() -> None:
    """S000-18"""
    a = msgspec.structs.replace(NO_LIMITS, mcp_concurrency=4, mcp_wait_s=1.5)
    b = msgspec.structs.replace(NO_LIMITS, mcp_concurrency=2, task_timeout_s=9)
    assert LIMITS_ORDER.meet(a, b) == msgspec.structs.replace(
        NO_LIMITS, mcp_concurrency=2, mcp_wait_s=1.5, task_timeout_s=9
    )


def test_no_limits_bound_nothing() -> None:
    assert set(msgspec.structs.astuple(NO_LIMITS)) == {None}
    assert LIMITS_ORDER.meet(NO_LIMITS, DEFAULTS) is DEFAULTS


def test_named_limits_replace_those_of_the_base_and_null_takes_one_away() -> None:
    limits = limits_from_wire({"max_history_tokens": 500, "mcp_rate_per_s": 0.5, "mcp_wait_s": None}, DEFAULTS)
    assert limits == msgspec.structs.replace(DEFAULTS, max_history_tokens=500, mcp_rate_per_s=0.5, mcp_wait_s=None)
    assert limits_from_wire({}, DEFAULTS) == DEFAULTS


def test_a_whole_number_that_came_as_a_float_is_a_whole_number() -> None:
    tokens = limits_from_wire({"max_history_tokens": 500.0}, DEFAULTS).max_history_tokens
    assert tokens == 500
    assert isinstance(tokens, int)


def test_a_number_too_large_for_a_float_is_just_a_large_limit() -> None:
    assert limits_from_wire({"max_output_bytes": 10**400}, DEFAULTS).max_output_bytes == 10**400


@each_row("name", Limits.__struct_fields__)
@each_row("value", [0, -1, -0.5, 0.0, math.nan, math.inf, True, False, "5", [5], {}])
def test_what_is_not_a_positive_number_is_refused_by_name(name, value) -> None:
    with pytest.raises(
        InvalidParamsError, match=rf"limits\.{name} must be a positive (whole )?number(, at most 1,)? or `none`"
    ):
        limits_from_wire({name: value}, DEFAULTS)


def test_half_a_conversation_is_refused_and_half_a_second_is_not() -> None:
    with pytest.raises(InvalidParamsError, match="max_conversations must be a positive whole number"):
        limits_from_wire({"max_conversations": 1.5}, DEFAULTS)
    assert limits_from_wire({"task_timeout_s": 0.5}, DEFAULTS).task_timeout_s == 0.5


def test_an_unknown_limit_is_refused_by_name_with_the_nearest_one() -> None:
    with pytest.raises(InvalidParamsError, match=r"limits has no 'mcp_concurency'; did you mean mcp_concurrency\?"):
        limits_from_wire({"mcp_concurency": 1}, DEFAULTS)


def test_a_limit_like_no_other_is_refused_with_the_whole_list() -> None:
    with pytest.raises(InvalidParamsError, match=r"limits has no 'zzz'; there are mcp_concurrency, .*target_timeout_s"):
        limits_from_wire({"zzz": 1}, DEFAULTS)
