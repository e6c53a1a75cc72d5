"""The orders by themselves. What they promise together is proved in test_rights.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import PurePosixPath

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.policy.orders import (
    ROOTS,
    TOOL_NAMES,
    Conjunction,
    Covering,
    Minimum,
    Order,
    Product,
    TotalOrder,
    normal_roots,
)
from tertulia.protocol.tool_spec import fqn
from tests.policy.strategies import LONG, SERVERS, TOOLS, paths, tool_patterns, unclean_paths
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


@each_row("orders", [{"left": Conjunction()}, {"left": Conjunction(), "right": Minimum(), "up": Minimum()}])
def test_a_product_that_forgets_or_invents_a_field_cannot_be_made(orders) -> None:
    with pytest.raises(TypeError, match="each field of Pair needs its order"):
        Product(Pair, orders)


def test_a_product_takes_the_order_of_a_field_by_its_name() -> None:
    swapped = Product(Pair, {"right": Minimum(), "left": Conjunction()})
    assert swapped.meet(Pair(left=False, right=3), Pair(left=True, right=2)) == Pair(left=False, right=2)


allowlists = st.none() | st.frozensets(tool_patterns, max_size=5).map(TOOL_NAMES.normal)
PLAIN = ["a", "b", "c"]
_plain = st.builds("{}__{}".format, st.sampled_from(PLAIN), st.sampled_from([*PLAIN, "*"]))
plain_lists = st.none() | st.frozensets(_plain, max_size=6).map(TOOL_NAMES.normal)
roots = st.none() | st.lists(paths, max_size=4).map(normal_roots)


def names(*entries: str) -> frozenset[str]:
    return frozenset(entries)


def admitted(allowlist: frozenset[str] | None, world: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """What a list means to one who knows the server of every tool."""
    if allowlist is None:
        return set(world)
    return {(s, t) for s, t in world if fqn(s, t) in allowlist or f"{s}__*" in allowlist}


@given(allowlists, allowlists)
def test_a_meet_admits_no_tool_that_one_side_does_not(a, b) -> None:
    """S000-18, X-25: allowlists intersect, also where a name does not tell its server."""
    world = list(product(SERVERS, TOOLS))
    assert admitted(TOOL_NAMES.meet(a, b), world) <= admitted(a, world) & admitted(b, world)


@given(plain_lists, plain_lists)
def test_a_meet_admits_every_tool_that_both_sides_admit_where_names_tell_their_server(a, b) -> None:
    """S000-18: nothing is lost but what is in doubt."""
    world = list(product(PLAIN, PLAIN))
    assert admitted(TOOL_NAMES.meet(a, b), world) == admitted(a, world) & admitted(b, world)


@given(st.frozensets(tool_patterns, max_size=6))
def test_a_normal_form_admits_the_same_tools(patterns) -> None:
    world = list(product(SERVERS, TOOLS))
    assert admitted(TOOL_NAMES.normal(patterns), world) == admitted(patterns, world)


@given(roots, roots, paths)
def test_a_directory_is_admitted_by_a_meet_exactly_when_both_sides_admit_it(a, b, path) -> None:
    """S000-18: writable roots intersect."""
    assert ROOTS.admits(ROOTS.meet(a, b), path) == (ROOTS.admits(a, path) and ROOTS.admits(b, path))


@given(st.lists(paths, max_size=5), paths)
def test_a_root_stands_for_itself_and_all_below_it(entries, path) -> None:
    expected = any(PurePosixPath(path).is_relative_to(entry) for entry in entries)
    assert ROOTS.admits(normal_roots(entries), path) == expected


@given(st.lists(unclean_paths, max_size=5))
def test_roots_in_normal_form_are_clean_sorted_and_none_lies_in_another(entries) -> None:
    normal = normal_roots(entries)
    assert list(normal) == sorted(set(normal))
    assert not any(set(PurePosixPath(root).parts) & {"..", "."} or "//" in root for root in normal)
    assert not any(a != b and PurePosixPath(a).is_relative_to(b) for a in normal for b in normal)
    assert normal_roots(normal) == normal


@each_row(
    ("a", "b", "met"),
    [
        (names("fs__*"), names("fs__read"), names("fs__read")),
        (names("fs__read"), names("fs__write"), names()),
        (names("fs__*", "git__log"), names("git__*", "fs__read"), names("fs__read", "git__log")),
        (names("fs__*"), names("fs2__read"), names()),
        (names("a__*"), names("a__b__*"), names()),
        (names("a__*"), names("a__b__c"), names()),
        (names("a__*"), names("a___b"), names()),
        (names(f"{LONG}__*"), names(fqn(LONG, "t" * 40)), names()),
        (names("a__*"), names(fqn(LONG, "t" * 40)), names()),
        (None, names("fs__read"), names("fs__read")),
        (names(), None, names()),
    ],
)
def test_allowlists_met(a, b, met) -> None:
    assert TOOL_NAMES.meet(a, b) == met == TOOL_NAMES.meet(b, a)


@each_row(
    ("a", "b", "met"),
    [
        (("/a",), ("/a/b",), ("/a/b",)),
        (("/",), ("/a", "/b"), ("/a", "/b")),
        (("/a",), ("/ab",), ()),
        (("/a", "/b/c"), ("/a/x", "/b"), ("/a/x", "/b/c")),
        (None, ("/a",), ("/a",)),
    ],
)
def test_roots_met(a, b, met) -> None:
    assert ROOTS.meet(a, b) == met == ROOTS.meet(b, a)


@each_row(
    ("path", "clean"),
    [("/a/../etc", "/etc"), ("//a", "/a"), ("/a//b/.", "/a/b"), ("/", "/"), ("//", "/"), ("/../..", "/")],
)
def test_a_root_cannot_hide_where_it_leads(path, clean) -> None:
    """A8"""
    assert normal_roots([path]) == (clean,)


@each_row("path", ["", "a/b", "~/x", "../a", "/a\0/b"])
def test_a_root_that_is_not_absolute_is_refused(path) -> None:
    with pytest.raises(InvalidParamsError, match="writable_roots must be absolute"):
        normal_roots(["/a", path])
