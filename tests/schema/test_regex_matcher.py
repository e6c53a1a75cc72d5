"""Sets of positions: each part maps beginnings to ends and ends to beginnings, and pays for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.schema.regex_matcher import (
    Chars,
    PatternPart,
    SubjectText,
    category,
    choice,
    edge,
    look,
    none_of,
    one_of,
    repeat,
    sequence,
)
from tests.thorough import examples

A, B = Chars(one_of("a")), Chars(one_of("b"))
NOT_A = Chars(none_of(one_of("a")))
EMPTY = sequence([])

PARTS: st.SearchStrategy[PatternPart] = st.recursive(
    st.sampled_from([A, B, NOT_A, EMPTY, edge(lambda _: 1)]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(sequence),
        st.lists(inner, min_size=1, max_size=3).map(choice),
        st.builds(repeat, inner, st.integers(0, 2), st.none() | st.integers(2, 4)),
        st.builds(lambda part, forward, negated: look(part, forward=forward, negated=negated), inner,
                  st.booleans(), st.booleans()),
    ),
    max_leaves=6,
)  # fmt: skip


def subject(text: str) -> SubjectText:
    return SubjectText(text, lambda steps: None)


@settings(max_examples=examples(500))
@given(PARTS, st.text("ab", max_size=6))
def test_the_way_back_is_the_way_there(part: PatternPart, text: str) -> None:
    """The two directions are one relation: b is reached from a exactly when a is reached back from b."""
    places = subject(text)
    for begin in range(len(text) + 1):
        for end in range(len(text) + 1):
            there = bool(part(1 << begin, places, True) >> end & 1)
            back = bool(part(1 << end, places, False) >> begin & 1)
            assert there == back


@settings(max_examples=examples(500))
@given(PARTS, st.text("ab", max_size=6), st.integers(0, 127), st.integers(0, 127))
def test_a_set_moves_as_its_members_do(part: PatternPart, text: str, one: int, other: int) -> None:
    places = subject(text)
    one, other = one & places.everywhere, other & places.everywhere
    together = part(one | other, places, True)
    assert together == part(one, places, True) | part(other, places, True)
    assert together & ~places.everywhere == 0


@given(st.text("ab", max_size=40), st.integers(0, 2**41 - 1))
def test_a_run_of_characters_is_taken_at_once_as_if_one_by_one(text: str, at: int) -> None:
    places = subject(text)
    at &= places.everywhere
    one_by_one = repeat(sequence([A, EMPTY]), 0, None)
    assert repeat(A, 0, None)(at, places, True) == one_by_one(at, places, True)
    assert repeat(A, 0, None)(at, places, False) == one_by_one(at, places, False)


def test_a_character_stands_where_it_stands() -> None:
    assert subject("abba").before(A) == 0b1001
    assert subject("").before(A) == 0
    assert subject("é1").before(Chars(category("L"))) == 0b01


def test_numbers_of_a_pattern_do_not_make_it_slow() -> None:
    paid: list[int] = []
    places = SubjectText("a" * 10, paid.append)
    assert repeat(A, 10**9, None)(1, places, True) == 0
    assert repeat(EMPTY, 10**9, 10**9)(1, places, True) == 1
    assert repeat(choice([A, EMPTY]), 10**9, 10**9)(1, places, True) == places.everywhere
    assert sum(paid) < 200


class Broke(Exception):
    pass


def test_every_move_is_paid_for_and_the_payer_may_refuse() -> None:
    left = 3

    def spend(steps: int) -> None:
        nonlocal left
        left -= steps
        if left < 0:
            raise Broke

    places = SubjectText("aaaa", spend)
    with pytest.raises(Broke):
        sequence([A, A, A, A])(1, places, True)


def test_a_long_text_costs_more_than_a_short_one() -> None:
    def cost(text: str) -> int:
        paid: list[int] = []
        A(1, SubjectText(text, paid.append), True)
        return sum(paid)

    assert cost("a" * 1_000_000) > 100 * cost("a")
    assert cost("é" * 1_000_000) > 2 * cost("a" * 1_000_000)
