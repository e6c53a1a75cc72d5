"""Budgets, problems and the words for values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.schema.check import (
    MAX_DEPTH,
    MAX_STEPS,
    Budget,
    Problem,
    canonical_value,
    json_type,
    list_values,
    shorten_value,
)
from tests.tables import each_row

SCALARS = [None, False, True, -1, 0, 1, 0.0, -0.0, 1.0, 1.5, 1e300, "", "1", "a'", '"']
VALUES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("a'\":,", max_size=3), inner, max_size=2),
    max_leaves=5,
)


def equal(one: Any, other: Any) -> bool:
    """As JSON Schema has it: numbers by value, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return one == other


@given(VALUES, VALUES)
def test_equal_values_and_only_these_share_a_text(one: Any, other: Any) -> None:
    assert (canonical_value(one, Budget()) == canonical_value(other, Budget())) == equal(one, other)
    assert canonical_value(one, Budget()) == canonical_value(msgspec.json.decode(msgspec.json.encode(one)), Budget())


def test_a_budget_is_used_up_to_the_last_step() -> None:
    budget = Budget()
    budget.spend(MAX_STEPS)
    with pytest.raises(InvalidParamsError, match="too large"):
        budget.spend(1)


def test_a_budget_has_a_bottom() -> None:
    budget = Budget()
    for _ in range(MAX_DEPTH):
        budget.descend()
    with pytest.raises(InvalidParamsError, match="too deep"):
        budget.descend()


def test_depth_is_given_back() -> None:
    budget = Budget()
    canonical_value([[1], {"a": []}], budget)
    assert budget.depth == MAX_DEPTH
    assert budget.steps < MAX_STEPS


def test_a_problem_tells_its_way_from_the_top() -> None:
    problem = Problem("string", "null").below("name").below(3).below("two words").below("x" * 100)
    assert str(problem) == f'$."{"x" * 64}…."two words"[3].name: expected string, got null'


@each_row(
    ("value", "name"),
    [({}, "object"), ([], "array"), ("", "string"), (1, "integer"), (1.0, "number"), (True, "boolean"), (None, "null")],
)
def test_every_value_has_its_kind(value: Any, name: str) -> None:
    assert json_type(value) == name


def test_what_is_not_json_has_none() -> None:
    assert json_type({1}) == "something that is not JSON"


def test_lists_in_messages_are_short() -> None:
    assert list_values([]) == "nothing"
    assert list_values(["a", 1, None, [1]]) == '"a", 1, None, array'
    assert len(list_values("x" * 100 for _ in range(1_000_000))) < 400
    assert len(shorten_value(10**4000)) < 70
