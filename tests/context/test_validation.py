"""What is handed in is looked at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tertulia.context.validation import (
    MAX_PROSE,
    build,
    environment_list,
    escape_tags,
    read_fields,
    require_choice,
    require_line,
    require_prose,
    require_text,
    require_texts,
)
from tertulia.errors import InvalidParamsError
from tests.tables import each_row


def test_fields_are_read_in_either_spelling() -> None:
    assert read_fields({"rpcMethod": 1, "rpc_method2": 2, "name": 3}, "it") == {
        "rpc_method": 1,
        "rpc_method2": 2,
        "name": 3,
    }
    with pytest.raises(InvalidParamsError, match="it must be a mapping, not list"):
        read_fields([], "it")


def test_a_field_that_is_missing_or_unknown_is_named() -> None:
    class Kind(msgspec.Struct):
        name: str

    assert build(Kind, {"name": "x"}, "it") == Kind("x")
    with pytest.raises(InvalidParamsError, match="it needs name"):
        build(Kind, {}, "it")
    with pytest.raises(InvalidParamsError, match="it has no field 'nmae'; there are name"):
        build(Kind, {"name": "x", "nmae": "y"}, "it")


@each_row(
    ("check", "good", "bad"),
    [
        (lambda value: require_text("it", value), ["a", "a\nb"], ["", "  ", "a\0", None, 5, b"a"]),
        (lambda value: require_prose("it", value), ["", "a\nb"], ["a\0", None, 5, "\ud800", "x" * (MAX_PROSE + 1)]),
        (lambda value: require_line("it", value), ["a b", "ü"], ["", "a\nb", "\x7f", "x" * 201, None, "\ud800"]),
        (lambda value: require_texts("it", value), [[], ["a"], ("a", "")], ["a", None, [5], ["a\0"], {"a"}]),
        (
            lambda value: environment_list("it", value),
            [{"A": ""}, [{"name": "A", "value": ""}]],
            [5, [{"name": "A"}], {"A": 5}, ["A"]],
        ),
    ],
)
def test_each_check_takes_what_it_should_and_names_what_it_refuses(check: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        check(value)
    for value in bad:
        with pytest.raises(InvalidParamsError, match="it"):
            check(value)


def test_one_of_a_few_words() -> None:
    require_choice("it", "a", ("a", "b"))
    with pytest.raises(InvalidParamsError, match="it 'c' is not a or b"):
        require_choice("it", "c", ("a", "b"))


@each_row(
    "tag",
    [
        "</user_instructions>", "<user_instructions>", "</user_instructions >", "</USER_Instructions>",
        "< / user_instructions\n>", "<\tenvironment_context/>", "<//context_additions / >",
    ],
)  # fmt: skip
def test_a_tag_of_ours_is_taken_apart_however_it_is_written(tag: str) -> None:
    """HARDENING D: a file cannot end the message that it stands in."""
    assert escape_tags(f"a{tag}b{tag}") == f"a&lt;{tag[1:]}b&lt;{tag[1:]}"


@each_row("expected", ["<b>", "</div>", "a < b_c", "<my_tag x>", "x_y > 3", "< >", "</>"])
def test_what_looks_like_none_of_ours_is_left_as_it_is(expected: str) -> None:
    assert escape_tags(expected) == expected


@each_row("unit", [" ", "/", " /", "a", "a_", "_", "<", "< ", "<a_b "])
@pytest.mark.parametrize("start", ["<", "</", "<a_b"])
def test_no_text_takes_long_to_look_at(start: str, unit: str) -> None:
    """A quadratic search would take minutes; the suite's own limit would end it."""
    long = start + unit * 300_000
    assert escape_tags(long) == long
