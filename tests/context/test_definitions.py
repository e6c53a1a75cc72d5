"""Servers and tools as providers describe them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.context.definitions import (
    McpServerHttp,
    McpServerStdio,
    ToolDefinition,
    full_schema,
    may_use,
    to_mcp_server,
    to_tool_definition,
    usage_line,
)
from tertulia.errors import InvalidParamsError
from tertulia.schema.schema import Schema
from tests.tables import each_row

TOOL = {"name": "ring", "description": "Rings.", "parameters": None, "rpc_method": "bell.ring", "scope": "all"}


@each_row(
    ("archetype", "all_", "service", "employee"),
    [("repo", True, False, False), ("service", True, True, False), ("employee", True, True, True)],
)
def test_the_nine_combinations_of_archetype_and_scope(
    archetype: str, all_: bool, service: bool, employee: bool
) -> None:
    """S001-14."""
    assert [may_use(archetype, "all"), may_use(archetype, "service"), may_use(archetype, "employee")] == [
        all_,
        service,
        employee,
    ]


def test_an_unknown_archetype_is_the_least() -> None:
    """X-47."""
    assert may_use("wizard", "all")
    assert not may_use("wizard", "service")


def test_a_tool_keeps_a_full_schema_and_can_be_shown_to_a_model() -> None:
    """S001-03, X-46."""
    tool = ToolDefinition(**{**TOOL, "parameters": {"tone": "string"}, "context": "Softly."})  # type: ignore[arg-type]
    assert tool.parameters == {"type": "object", "properties": {"tone": {"type": "string"}}}
    assert (tool.rpc_method, tool.scope, tool.context) == ("bell.ring", "all", "Softly.")
    assert (tool.spec.name, tool.spec.source) == ("ring", "injector")


def test_a_tool_may_come_as_a_mapping_in_either_spelling() -> None:
    """S001-03: null parameters are taken."""
    camel = {"name": "ring", "description": "Rings.", "rpcMethod": "bell.ring", "scope": "all"}
    assert to_tool_definition(camel) == to_tool_definition(TOOL) == ToolDefinition(**TOOL)  # type: ignore[arg-type]
    assert to_tool_definition(to_tool_definition(TOOL)) is not None


@each_row(
    ("changes", "expected"),
    [
        ({"scope": "root"}, "scope 'root'"),
        ({"scope": ""}, "scope"),
        ({"scope": None}, "scope"),
        ({"scope": ["all"]}, "scope"),
        ({"name": "a b"}, "must match"),
        ({"name": ""}, "name of a tool"),
        ({"name": None}, "name of a tool"),
        ({"name": "x" * 65}, "must match"),
        ({"description": None}, "description"),
        ({"description": "x" * 100_000}, "description"),
        ({"description": "\ud800"}, "description"),
        ({"rpc_method": ""}, "rpc_method"),
        ({"rpc_method": "../x"}, "rpc_method"),
        ({"rpc_method": None}, "rpc_method"),
        ({"context": 5}, "context"),
        ({"parameters": 5}, "parameters"),
        ({"parameters": {"type": "object", "x": object()}}, "cannot be written as JSON"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_tool_that_cannot_be_used_is_refused_when_it_is_made(changes: dict[str, Any], expected: str) -> None:
    """X-47: an unknown scope is refused; HARDENING, bad definitions."""
    with pytest.raises(InvalidParamsError, match=expected):
        to_tool_definition({**TOOL, **changes})


def test_a_server_keeps_its_variables_as_a_list_and_takes_a_dict() -> None:
    """S001-02, X-51."""
    listed = McpServerStdio("fs", "run", ["--x"], [{"name": "A", "value": "1"}])
    assert listed == McpServerStdio(name="fs", command="run", args=("--x",), env={"A": "1"})
    assert listed.env == [{"name": "A", "value": "1"}]
    assert listed.args == ["--x"]
    assert listed.variables == {"A": "1"}
    assert McpServerStdio("fs", "run").env is None
    assert McpServerStdio("fs", "run").variables == {}


def test_a_server_may_be_an_address() -> None:
    """X-51: http and sse kinds."""
    assert to_mcp_server({"name": "web", "url": "https://x.example/mcp"}) == McpServerHttp(
        "web", "https://x.example/mcp"
    )
    assert McpServerHttp("web", "http://x", kind="sse", headers={"A": "b"}).headers == {"A": "b"}
    assert to_mcp_server({"name": "fs", "command": "run", "args": []}) == McpServerStdio("fs", "run")
    assert to_mcp_server(McpServerStdio("fs", "run")) == McpServerStdio("fs", "run")


@each_row(
    "value",
    [
        None,
        {"name": "fs"},
        {"name": "", "command": "run"},
        {"name": "a\nb", "command": "run"},
        {"name": "fs", "command": ""},
        {"name": "fs", "command": "run", "args": "--x"},
        {"name": "fs", "command": "run", "args": [5]},
        {"name": "fs", "command": "run", "env": ["A=1"]},
        {"name": "fs", "command": "run", "shell": True},
        {"name": "web", "url": "file:///etc/passwd"},
        {"name": "web", "url": "http://a b"},
        {"name": "web", "url": "http://x", "kind": "ftp"},
        {"name": "web", "url": "http://x", "headers": {"A": 5}},
    ],
    ids=str,
)
def test_a_server_that_cannot_be_reached_is_refused(value: Any) -> None:
    """S001-02."""
    with pytest.raises(InvalidParamsError):
        to_mcp_server(value)


def test_printing_a_server_shows_no_value_of_a_variable() -> None:
    """S001-45: a token may be among them."""
    shown = repr(
        [McpServerStdio("fs", "run", env={"KEY": "s3cret"}), McpServerHttp("w", "http://x", {"KEY": "s3cret"})]
    )
    assert "KEY" in shown
    assert "s3cret" not in shown


# ---- a tool's parameters: two ways to write them, one way to keep them


EMPTY = {"type": "object", "properties": {}}


@each_row(
    ("value", "expected"),
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
def test_a_schema_and_a_map_of_parameters_are_both_taken(value: Any, expected: dict[str, Any]) -> None:
    """S001-03, X-46: accept both, store the full schema."""
    assert full_schema(value) == expected
    assert full_schema(expected) == expected


@each_row("value", [5, "string", ["a"], True])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParamsError, match="parameters must be"):
        full_schema(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["string", "integer", "boolean"])


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_whatever_stands_in_a_map_can_be_listed_and_encoded(value: dict[str, Any]) -> None:
    """S001-35: tolerates values that are no objects."""
    schema = full_schema(value)
    assert schema["type"] == "object"
    assert usage_line(schema).startswith("{")
    assert msgspec.json.encode(schema)


@given(st.dictionaries(st.text(min_size=1, max_size=6).filter(lambda name: name not in ("type", "properties")), TYPES))
def test_a_map_of_types_becomes_a_schema_that_can_be_used(value: dict[str, str]) -> None:
    names = {name for name in value if not name.startswith("$") and name not in ("allOf", "anyOf", "oneOf")}
    schema = Schema.compile(msgspec.json.encode(full_schema({name: value[name] for name in names})).decode())
    schema.validate({})


def test_a_usage_line_marks_what_may_be_left_out() -> None:
    """S001-35."""
    schema = {"properties": {"html": {"type": "string"}, "title": {"type": "string"}, "x": True}, "required": ["html"]}
    assert usage_line(schema) == '{"html": string, "title"?: string, "x"?: any}'
    assert usage_line({"required": "html", "properties": {"html": {"type": ["string", "null"]}}}) == '{"html"?: any}'
    assert usage_line({"properties": 5}) == usage_line({}) == "{}"
