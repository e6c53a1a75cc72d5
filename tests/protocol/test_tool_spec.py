"""Definitions of tools: canonical, sealed, and equal exactly when a model would see the same."""

from __future__ import annotations

import hashlib
import math
from types import MappingProxyType

import msgspec
import pytest

from tertulia.errors import InvalidParamsError
from tertulia.protocol.tool_spec import ToolSpec
from tests.tables import each_row

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}, "required": ["b"]}
DEFINITION = {"name": "read", "description": "Reads.", "parameters": SCHEMA}


def test_a_definition_holds_what_was_given() -> None:
    spec = ToolSpec.define("fs__read", "Reads.", SCHEMA, source="mcp", server="fs")
    assert (spec.name, spec.description, spec.source, spec.server) == ("fs__read", "Reads.", "mcp", "fs")
    assert (spec.kind, spec.grammar) == ("function", None)
    assert msgspec.json.decode(spec.schema) == SCHEMA


def test_the_order_of_keys_does_not_matter_and_the_order_of_lists_does() -> None:
    """S002-31, C18: the same definition gives the same bytes, every run."""
    turned = {"required": ["b"], "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "type": "object"}
    assert ToolSpec.define(**DEFINITION | {"parameters": turned}) == ToolSpec.define(**DEFINITION)
    one, other = ({"enum": enum} for enum in (["x", "y"], ["y", "x"]))
    assert ToolSpec.define("t", "", one).digest != ToolSpec.define("t", "", other).digest


def test_a_digest_is_the_same_on_every_machine() -> None:
    """C1: views pin it, so it must not depend on the process."""
    sealed = (
        b'["read","Reads.","function",null,{"properties":{"a":{"type":"integer"},"b":{"type":"string"}},'
        b'"required":["b"],"type":"object"}]'
    )
    assert ToolSpec.define(**DEFINITION).digest == hashlib.sha256(sealed).hexdigest()


@each_row(
    "change",
    [
        {"name": "write"},
        {"description": "Reads!"},
        {"parameters": {"type": "object"}},
        {"kind": "custom"},
        {"grammar": "start: /x/"},
    ],
)
def test_whatever_the_model_sees_is_in_the_digest(change) -> None:
    """C1"""
    assert ToolSpec.define(**DEFINITION | change).digest != ToolSpec.define(**DEFINITION).digest


def test_where_a_tool_comes_from_is_not_in_the_digest() -> None:
    mine, theirs = ToolSpec.define(**DEFINITION), ToolSpec.define(**DEFINITION, source="mcp", server="fs")
    assert mine.digest == theirs.digest


def test_two_definitions_are_the_same_tool_when_their_calls_look_the_same() -> None:
    """S002-30: a description may differ, a schema may not."""
    described = ToolSpec.define(**DEFINITION | {"description": "Reads a file."})
    assert described.signature == ToolSpec.define(**DEFINITION).signature
    changed = ToolSpec.define(**DEFINITION | {"parameters": {"type": "object"}})
    assert changed.signature != ToolSpec.define(**DEFINITION).signature
    custom = ToolSpec.define(**DEFINITION, kind="custom")
    assert custom.signature != ToolSpec.define(**DEFINITION).signature
    assert custom.signature != ToolSpec.define(**DEFINITION, kind="custom", grammar="g").signature


def test_no_parameters_means_an_empty_object() -> None:
    assert msgspec.json.decode(ToolSpec.define("t", "").schema) == {"type": "object", "properties": {}}
    assert ToolSpec.define("t", "", {}).schema == "{}"


def test_any_mapping_will_do() -> None:
    assert ToolSpec.define(**DEFINITION | {"parameters": MappingProxyType(SCHEMA)}) == ToolSpec.define(**DEFINITION)


@each_row("name", ["", "a b", "conv.create", "x" * 65, "é"])
def test_a_name_that_no_model_may_see_is_refused(name) -> None:
    """S000-25"""
    with pytest.raises(InvalidParamsError, match="must match"):
        ToolSpec.define(name, "")


def deep(levels: int) -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@each_row(
    ("description", "parameters"),
    [
        ("\ud800", None),
        ("", {"title": "\udfff"}),
        ("", {"default": object()}),
        ("", {1: 2}),
        ("", deep(100_000)),
    ],
    ids=["surrogate", "surrogate in schema", "object", "number as key", "depth"],
)
def test_a_definition_that_is_not_json_is_refused_by_name(description, parameters) -> None:
    with pytest.raises(InvalidParamsError, match="definition of tool 'wrong' cannot be written as JSON"):
        ToolSpec.define("wrong", description, parameters)


def test_a_number_that_json_lacks_becomes_null() -> None:
    assert ToolSpec.define("t", "", {"default": math.nan}).schema == '{"default":null}'


def test_what_is_only_accepted_is_no_part_of_what_a_model_sees() -> None:
    """Nobody has to approve a tool again because it takes more than it says."""
    plain = ToolSpec.define(**DEFINITION)
    lenient = ToolSpec.define(**DEFINITION, accepts={"type": "object"})
    assert (lenient.accepts, plain.accepts) == ('{"type":"object"}', None)
    assert (lenient.digest, lenient.signature, lenient.schema) == (plain.digest, plain.signature, plain.schema)
