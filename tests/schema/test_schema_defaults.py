"""Defaults of required properties: filled where left out, and nowhere else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.schema.schema import Schema, has_defaults
from tests.tables import each_row

LIMIT = {"type": "object", "properties": {"n": {"type": "integer", "default": 5}}, "required": ["n"]}


def compiled(document: Any) -> Schema:
    return Schema.compile(msgspec.json.encode(document).decode())


@each_row(
    ("document", "value", "whole"),
    [
        (LIMIT, {}, {"n": 5}),
        (LIMIT, {"n": 7, "x": 1}, {"n": 7, "x": 1}),
        # What was given is never changed: the check says what is wrong with it.
        (LIMIT, {"n": None}, {"n": None}),
        (LIMIT, [], []),
        # Left out and not required: the server's own business.
        ({"properties": {"n": {"default": 5}}}, {}, {}),
        ({"properties": {"n": {}}, "required": ["n", "m"]}, {}, {}),
        ({"properties": {"n": {"default": None}}, "required": ["n"]}, {}, {"n": None}),
        ({"properties": {"a": LIMIT}}, {"a": {}}, {"a": {"n": 5}}),
        ({"properties": {"a": LIMIT}}, {}, {}),
        ({"properties": {"a": {"items": LIMIT}}}, {"a": [{}, {"n": 1}, 3]}, {"a": [{"n": 5}, {"n": 1}, 3]}),
        ({"$ref": "#/$defs/limit", "$defs": {"limit": LIMIT}}, {}, {"n": 5}),
        ({"allOf": [LIMIT, {"properties": {"m": {"default": 1}}, "required": ["m"]}]}, {}, {"n": 5, "m": 1}),
        # A schema that is used twice is written once.
        (
            {"properties": {"a": {"default": 1}, "b": {"$ref": "#/properties/a"}}, "required": ["a", "b"]},
            {},
            {"a": 1, "b": 1},
        ),
        (
            {
                "properties": {"a": {"allOf": [{"$ref": "#/$defs/x"}]}},
                "required": ["a"],
                "$defs": {"x": {"default": 2}},
            },
            {},
            {"a": 2},
        ),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/x", "default": 3}},
                "required": ["a"],
                "$defs": {"x": {"default": 2}},
            },
            {},
            {"a": 3},
        ),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"], "$defs": {"x": {"type": "string"}}}, {}, {}),
        # Which alternative is meant is not known yet.
        ({"anyOf": [LIMIT, {"type": "null"}]}, {}, {}),
        ({"properties": {"a": {"default": {}, **LIMIT}}, "required": ["a"]}, {}, {"a": {}}),
        ({"properties": {"a": True}, "required": ["a"]}, {}, {}),
        ({"properties": {"a": {"items": [LIMIT]}, "b": LIMIT}}, {"a": [{}]}, {"a": [{}]}),
    ],
)
def test_only_what_is_required_has_a_default_and_was_left_out_is_filled(document: Any, value: Any, whole: Any) -> None:
    """Issue 17, item 11."""
    before = msgspec.json.encode(value)
    filled = compiled(document).filled(value)
    assert filled == whole
    assert msgspec.json.encode(value) == before
    assert (filled is value) == (whole == value)


def test_each_value_has_a_default_of_its_own() -> None:
    schema = compiled({"properties": {"a": {"default": []}}, "required": ["a"]})
    schema.filled({})["a"].append(1)
    assert schema.filled({}) == {"a": []}


def test_a_schema_without_such_defaults_costs_nothing() -> None:
    assert not has_defaults({"properties": {"a": {"default": 1}}, "required": "a"})
    assert not has_defaults(True)
    fields = {"a": [{}] * 100_000}
    assert compiled({"properties": {"a": {"items": {}}}}).filled(fields) is fields


def test_a_schema_that_contains_itself_ends() -> None:
    tree = {"properties": {"next": {"$ref": "#", "default": {}}}, "required": ["next"]}
    assert compiled(tree).filled({}) == {"next": {}}
    deep: Any = {}
    for _ in range(300):
        deep = {"next": deep}
    with pytest.raises(InvalidParamsError, match="too deep"):
        compiled(tree).filled(deep)


def test_what_a_default_adds_is_bounded_however_often_it_is_asked_for() -> None:
    """The server's words, times the model's: 200 KB in each of 50,000 items would be 10 GB."""
    big = {"properties": {"a": {"default": "x" * 200_000}}, "required": ["a"]}
    with pytest.raises(InvalidParamsError, match="too large"):
        compiled({"items": big}).filled([{}] * 40_000)
