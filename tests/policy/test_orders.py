"""The orders by themselves. What they promise together is proved in test_narrowing.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import msgspec
import pytest

from tertulia.policy.orders import Conjunction, Covering, Minimum, Order, Product, TotalOrder
from tests.tables import each_row


def prefixes(word: str) -> Iterator[str]:
    return (word[:end] for end in range(len(word), -1, -1))


class Pair(msgspec.Struct, frozen=True):
    left: bool
    right: int | None


WORDS: Covering[frozenset[str]] = Covering(prefixes, frozenset)
PAIRS = Product(Pair, {"left": Conjunction(), "right": Minimum()})

# Each order with all values of a small world, so that its laws are proved and not sampled.
WORLDS: list[tuple[Order, list]] = [
    (TotalOrder(("low", "middle", "high").index), ["low", "middle", "high"]),
    (Conjunction(), [False, True]),
    (Minimum(), [None, 1, 2.5, 3]),
    (
        WORDS,
        [None, *map(frozenset, [(), ("",), ("a",), ("ab",), ("b",), ("a", "b"), ("ab", "b"), ("ab", "ac")])],
    ),
    (PAIRS, [Pair(left, right) for left in (False, True) for right in (None, 1, 2)]),
]


@each_row(("order", "world"), WORLDS, ids=lambda value: type(value).__name__)
def test_every_order_is_a_semilattice_that_gives_one_of_its_arguments_back_where_it_can(order, world) -> None:
    for a, b, c in product(world, repeat=3):
        met = order.meet(a, b)
        assert met == order.meet(b, a)
        assert order.meet(met, c) == order.meet(a, order.meet(b, c))
        assert order.meet(met, a) == met == order.meet(met, b)
        assert met is a or met != a
        assert order.meet(a, a) is a


def test_a_chain_takes_the_stricter() -> None:
    assert TotalOrder(("low", "high").index).meet("high", "low") == "low"


def test_a_switch_is_on_only_when_both_have_it_on() -> None:
    table = {(a, b): Conjunction().meet(a, b) for a, b in product([False, True], repeat=2)}
    assert table == {(False, False): False, (False, True): False, (True, False): False, (True, True): True}


def test_no_limit_gives_way_to_any_limit() -> None:
    assert Minimum().meet(None, 7) == Minimum().meet(7, None) == 7
    assert Minimum().meet(7, 8) == 7
    assert Minimum().meet(None, None) is None


def test_of_two_sets_only_what_the_other_side_covers_is_left() -> None:
    a, b = frozenset(["ab", "c"]), frozenset(["a", "cd", "e"])
    assert WORDS.meet(a, b) == frozenset(["ab", "cd"])


def test_a_normal_form_says_nothing_twice() -> None:
    assert WORDS.normal(["a", "ab", "abc", "b"]) == frozenset(["a", "b"])


def test_an_empty_set_admits_nothing_and_none_everything() -> None:
    assert not WORDS.admits(frozenset(), "a")
    assert WORDS.admits(None, "a")
    assert WORDS.admits(frozenset(["a"]), "abc")
    assert not WORDS.admits(frozenset(["abc"]), "a")


def test_a_product_meets_field_by_field_and_shares_what_it_can() -> None:
    a, b = Pair(left=False, right=3), Pair(left=True, right=2)
    assert PAIRS.meet(a, b) == Pair(left=False, right=2)
    below = Pair(left=False, right=1)
    assert PAIRS.meet(a, below) is below
    assert PAIRS.meet(below, a) is below


@pytest.mark.parametrize("orders", [{"left": Conjunction()}, {"right": Minimum(), "left": Conjunction()}])
def test_a_product_that_forgets_or_swaps_a_field_cannot_be_made(orders) -> None:
    with pytest.raises(TypeError, match="each field of Pair needs its order"):
        Product(Pair, orders)
