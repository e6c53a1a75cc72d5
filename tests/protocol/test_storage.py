"""Storage policies: a chain of four, and how they are spelled."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.protocol.storage import (
    Full,
    HeadersOnly,
    NoStorage,
    Ttl,
    binding_policy,
    storage_from_wire,
    storage_to_wire,
    strictest,
    strictness,
)
from tests.tables import each_row

STRICTEST_FIRST = [NoStorage(), HeadersOnly(), Ttl(0.5), Ttl(60), Ttl(1e9), Full()]
policies = st.sampled_from([Full(), HeadersOnly(), NoStorage()]) | st.builds(
    Ttl, st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)
)


def test_none_is_stricter_than_headers_than_a_short_life_than_a_long_one_than_full() -> None:
    """S000-18, S002-15..18"""
    assert all(strictness(a) < strictness(b) for a, b in pairwise(STRICTEST_FIRST))


def test_of_several_sources_the_strictest_holds_in_any_order() -> None:
    for some in permutations(STRICTEST_FIRST, 3):
        assert strictest(*some) == min(some, key=STRICTEST_FIRST.index)
    assert strictest(Full()) == Full()


def test_a_looser_policy_does_not_free_what_was_said_before_it() -> None:
    """S002-19."""
    assert binding_policy(None, Full(), HeadersOnly()) is None
    assert binding_policy(None, HeadersOnly(), Full()) == HeadersOnly()
    assert binding_policy(HeadersOnly(), Ttl(60), Full()) == HeadersOnly()
    assert binding_policy(HeadersOnly(), Full(), Full()) == HeadersOnly()


@given(policies)
def test_every_policy_survives_the_wire(policy) -> None:
    assert storage_from_wire(storage_to_wire(policy)) == policy
    assert storage_from_wire(policy) is policy


@each_row(
    ("spelled", "policy"),
    [
        ("full", Full()),
        ("headers_only", HeadersOnly()),
        ("headers-only", HeadersOnly()),
        ("Headers-Only", HeadersOnly()),
        ("none", NoStorage()),
        ("ttl:60", Ttl(60)),
        ("ttl:0.5", Ttl(0.5)),
        ("ttl:1e-3", Ttl(0.001)),
        ({"ttl": 60}, Ttl(60)),
        ({"ttl": 0.5}, Ttl(0.5)),
    ],
)
def test_people_and_command_lines_may_spell_them_so(spelled, policy) -> None:
    assert storage_from_wire(spelled) == policy


@each_row(
    "value",
    [
        *(None, True, 5, [], {}, "", "all", "ttl", "ttl:", "ttl:x", "ttl:1:2", "full:1", ":"),
        *({"ttl": "60"}, {"ttl": None}, {"ttl": True}, {"ttl": 60, "more": 1}, {"seconds": 60}),
        *({"ttl": 10**400}, "ttl:1e999", "ttl:nan", "ttl:-1", "ttl:0", {"ttl": 0}, {"ttl": -1}),
        *({"ttl": math.inf}, {"ttl": math.nan}),
    ],
)
def test_anything_else_is_refused_by_name(value) -> None:
    with pytest.raises(InvalidParamsError, match="storage_policy"):
        storage_from_wire(value)


@each_row("seconds", [0, -1, math.nan, math.inf, -math.inf])
def test_a_life_is_a_positive_number_of_seconds(seconds) -> None:
    with pytest.raises(InvalidParamsError, match="positive number of seconds"):
        Ttl(seconds)
