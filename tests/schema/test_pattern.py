"""Patterns: what they mean, judged by Python's own engine, and that none of them can take long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.schema.check import MAX_STEPS
from tertulia.schema.pattern import MAX_NESTING, MAX_SOURCE, Pattern
from tests.tables import Large, each_row
from tests.thorough import examples
from tests.tools.calling import at_most_100_ms


def free(steps: int) -> None:
    """A payer who never refuses."""


def occurs(source: str, text: str) -> bool:
    return Pattern(source).occurs_in(text, free)


# ---- meaning

ATOMS = st.sampled_from(
    ["a", "b", ".", r"\d", r"\w", r"\s", r"\W", "[ab]", "[^a]", "[a-c_]", r"[\d-]", "^", r"\b", r"\B", "é", r"\.", "0"]
)
QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("|".join).map("({})".format),
        st.tuples(inner, QUANTIFIERS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map("(?={})".format),
        inner.map("(?!{})".format),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(2000))
@given(PATTERNS, st.text("ab0_ -é.\n", min_size=1, max_size=8))
def test_a_pattern_means_what_it_means_to_pythons_engine(source: str, text: str) -> None:
    assert occurs(source, text) == bool(re.search(source, text, re.ASCII))


@each_row(
    ("source", "inside", "outside"),
    [
        (r"^[a-z]+$", "abc", "abc\n"),  # `$` is the end, not the place before a last line end
        (r"(?<=a)b", "ab", "cb"),
        (r"(?<!a)b", "cb", "ab"),
        (r"^(?<year>\d{4})-(?P<month>\d\d)$", "2024-05", "24-05"),
        (r"^\u0041\x42\u{43}$", "ABC", "abc"),
        (r"^\p{Lu}\P{L}$", "Ä1", "äb"),
        (r"^[\p{Nd}\b]$", "\b", "x"),
        (r"\Aab\Z", "ab", "xab"),
        (r"^\t\n\r\f\v\0$", "\t\n\r\f\v\0", "tnrfv0"),
    ],
)
def test_the_dialect_of_json_schema_is_understood(source: str, inside: str, outside: str) -> None:
    assert occurs(source, inside)
    assert not occurs(source, outside)


def test_an_empty_class_matches_nothing_and_its_opposite_everything() -> None:
    assert not occurs("[]", "a")
    assert occurs("^[^]$", "\n")


def test_digits_words_and_spaces_are_those_of_the_dialect() -> None:
    assert not occurs(r"\d", "٣")
    assert not occurs(r"\w", "é")
    assert occurs(r"^\s{3}$", "\ufeff\u2003\u2028")
    assert not occurs(".", "\u2028")


def test_a_brace_that_counts_nothing_is_a_brace() -> None:
    assert occurs("^a{b}$", "a{b}")
    assert occurs("^a{,2}$", "a{,2}")


MAIL = (
    r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"  # as zod has it
)


@each_row(
    ("text", "is_address"),
    [("jo.e+x@mail.example.org", True), ("jo..e@example.org", False), (".jo@example.org", False), ("jo@org", False)],
)
def test_the_mail_pattern_of_a_schema_library_works(text: str, is_address: bool) -> None:
    assert occurs(MAIL, text) is is_address


# ---- refusals


@each_row(
    "source",
    [
        "(", ")", "a)", "(a", "[a", "[", "\\", "*", "a**", "a++", "(?", "(?i)a", "(?>a)", "(?#x)", "(?P<n>a)(?P=n)",
        r"(a)\1", r"\k<n>", r"\p{Emoji}", r"\u{110000}", r"\e", "[b-a]", r"[\d-z]", "a{3,2}", "[a-\\",
        "(" * (MAX_NESTING + 1) + ")" * (MAX_NESTING + 1), "a" * (MAX_SOURCE + 1),
    ],
)  # fmt: skip
def test_what_cannot_be_read_or_matched_is_refused(source: str) -> None:
    with pytest.raises(InvalidParamsError, match="pattern"):
        Pattern(source)


@settings(max_examples=examples(1000))
@given(st.text(r"ab\(){}[]^$.*+?|<>=!:-,dpuxk01", max_size=30))
def test_any_text_is_a_pattern_or_refused_and_nothing_else(source: str) -> None:
    try:
        pattern = Pattern(source)
    except InvalidParamsError:
        return
    assert pattern.occurs_in("ab01", free) in {True, False}


# ---- cost

BOMBS = [
    (r"^(a+)+$", "a" * 5_000 + "!"),
    (r"^(a|a)*$", "a" * 2_000 + "!"),
    (r"^(a|aa)+$", "a" * 5_000 + "!"),
    (r"(x+x+)+y", "x" * 20_000),
    (r"(.*)(.*)(.*)(.*)[^a]", "a" * 20_000),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 5_000),
    (r"^(a?){500}a{500}$", "a" * 499),
    (r"(?=(?=(?=.*b).*b).*b)", "a" * 20_000),
    ("^" + "(" * 30 + "a*" + ")*" * 30 + "$", "a" * 3_000 + "b"),
    (r"^(.|\s)*$(?<!a)x", "a" * 3_000),
    (r"^((ab)*)*((ba)*)*c", "ab" * 1_000),
    (r"(a{1,999999999}){1,999999999}b", "a" * 2_000),
]


class Empty(Exception):
    """Nothing is left to pay with."""


class Purse:
    """Pays up to what a schema may cost."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def __call__(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Empty


@each_row(("source", "text"), BOMBS)
def test_a_pattern_that_explodes_elsewhere_is_answered_at_once(source: str, text: str) -> None:
    """C14: regex bomb."""
    pattern = Pattern(source)
    with at_most_100_ms():
        assert not pattern.occurs_in(text, Purse())


@each_row(
    ("source", "text"),
    [
        ("^.*$", Large(lambda: "x" * 50_000_000)),
        ("^([a-z]|[A-Z]|[0-9])(.|x)*$", Large(lambda: "".join(map(chr, range(0x20, 0xD000))) * 40)),
        (r"^(.|\s)*$(?<!a)x", "a" * 50_000),
        ("^(((a|b)*c?)*d?)*$", "ab" * 20_000 + "!"),
        ("|".join(f"[{chr(97 + i)}-z{'0-9' * 100}]" for i in range(12)), "".join(map(chr, range(0x4E00, 0x9FFF)))),
    ],
)
def test_what_costs_too_much_is_given_up_in_time(source: str, text: str) -> None:
    """C14: huge."""
    pattern = Pattern(source)
    with at_most_100_ms(), pytest.raises(Empty):
        pattern.occurs_in(text, Purse())
