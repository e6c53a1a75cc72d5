"""A tool's parameters: two ways to write them, one way to keep them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.context.parameters import full_schema, usage_line
from tertulia.errors import InvalidParamsError
from tertulia.schema.schema import Schema

EMPTY = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, EMPTY),
        ({}, EMPTY),
        ({"type": "object"}, EMPTY),
        ({"properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"a": {"type": "string"}}}),
        ({"a": {"type": "string"}}, {"type": "object", "properties": {"a": {"type": "string"}}}),
        (
            {"a": "string", "b": "What it is."},
            {**EMPTY, "properties": {"a": {"type": "string"}, "b": {"description": "What it is."}}},
        ),
        (
            {"a": {"type": "string", "required": True}},
            {**EMPTY, "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
        ({"a": None, "b": 3, "c": [1]}, {**EMPTY, "properties": {"a": {}, "b": {}, "c": {}}}),
        ({"type": {"type": "string"}}, {**EMPTY, "properties": {"type": {"type": "string"}}}),
        ({"properties": {"type": "array"}}, {**EMPTY, "properties": {"properties": {"type": "array"}}}),
        ({"type": "object", "properties": None}, EMPTY),
        (
            {"type": "object", "properties": {"a": "string", "b": True}},
            {**EMPTY, "properties": {"a": {"type": "string"}, "b": True}},
        ),
        ({"anyOf": [{}]}, {**EMPTY, "anyOf": [{}]}),
    ],
    ids=str,
)
def test_a_schema_and_a_map_of_parameters_are_both_taken(given: Any, expected: dict[str, Any]) -> None:
    """S001-03, X-46: accept both, store the full schema."""
    assert full_schema(given) == expected
    assert full_schema(expected) == expected


@pytest.mark.parametrize("given", [5, "string", ["a"], True])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(InvalidParamsError, match="parameters must be"):
        full_schema(given)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["string", "integer", "boolean"])


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_whatever_stands_in_a_map_can_be_listed_and_encoded(given: dict[str, Any]) -> None:
    """S001-35: tolerates values that are no objects."""
    schema = full_schema(given)
    assert schema["type"] == "object"
    assert usage_line(schema).startswith("{")
    assert msgspec.json.encode(schema)


@given(st.dictionaries(st.text(min_size=1, max_size=6).filter(lambda name: name not in ("type", "properties")), TYPES))
def test_a_map_of_types_becomes_a_schema_that_can_be_used(given: dict[str, str]) -> None:
    names = {name for name in given if not name.startswith("$") and name not in ("allOf", "anyOf", "oneOf")}
    schema = Schema.compile(msgspec.json.encode(full_schema({name: given[name] for name in names})).decode())
    schema.validate({})


def test_a_usage_line_marks_what_may_be_left_out() -> None:
    """S001-35."""
    schema = {"properties": {"html": {"type": "string"}, "title": {"type": "string"}, "x": True}, "required": ["html"]}
    assert usage_line(schema) == '{"html": string, "title"?: string, "x"?: any}'
    assert usage_line({"required": "html", "properties": {"html": {"type": ["string", "null"]}}}) == '{"html"?: any}'
    assert usage_line({"properties": 5}) == usage_line({}) == "{}"
