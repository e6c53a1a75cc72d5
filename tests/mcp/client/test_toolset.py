"""What is taken of a server's list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.mcp.client.tool_listing import (
    MAX_DESCRIPTION_BYTES,
    MAX_NAME,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_TITLE,
    MAX_TOOLS,
    MAX_WARNINGS,
    Toolset,
)
from tertulia.mcp.server_connection import RemoteTool, ToolHints
from tests.tables import each_row

OBJECT = {"type": "object"}


def tool(name: str, description: str = "", schema: dict[str, Any] | None = None, **more: Any) -> RemoteTool:
    return RemoteTool(name, description, OBJECT if schema is None else schema, **more)


def names(toolset: Toolset) -> list[str]:
    return [tool.name for tool in toolset.tools]


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for level in range(depth - 1):
        schema = {"items": schema} if level % 2 else {"not": schema}
    return schema


def test_tools_stand_by_name_in_the_order_of_code_points() -> None:
    assert names(Toolset.of([tool("b"), tool("Z"), tool("ä"), tool("a")])) == ["Z", "a", "b", "ä"]


@given(st.permutations([tool("a"), tool("b", "x"), tool("c", schema={"type": "object", "properties": {}})]))
def test_the_order_in_which_a_server_lists_changes_nothing(listed: list[RemoteTool]) -> None:
    """C18: byte-identical."""
    assert Toolset.of(listed).digest == Toolset.of(reversed(listed)).digest


def test_the_order_of_keys_in_a_schema_changes_nothing() -> None:
    """C18."""
    one, other = {"type": "object", "title": "x"}, {"title": "x", "type": "object"}
    assert Toolset.of([tool("a", schema=one)]).digest == Toolset.of([tool("a", schema=other)]).digest


@each_row(
    "other",
    [
        tool("b", "does it"),
        tool("a", "does that"),
        tool("a", "does it", {"type": "object", "properties": {"x": {}}}),
        tool("a", "does it", title="A"),
        tool("a", "does it", hints=ToolHints(read_only=True)),
    ],
)
def test_whatever_is_different_shows_in_the_digest(other: RemoteTool) -> None:
    """C1: nothing of a definition can change unseen."""
    assert Toolset.of([tool("a", "does it")]).digest != Toolset.of([other]).digest


def test_of_two_tools_of_one_name_the_first_counts() -> None:
    toolset = Toolset.of([tool("a", "first"), tool("b"), tool("a", "second")])
    assert [(tool.name, tool.description) for tool in toolset.tools] == [("a", "first"), ("b", "")]
    assert toolset.warnings == ("tool 'a' is left out: another one has that name already",)


def test_a_thousand_tools_are_taken_and_no_more() -> None:
    full = Toolset.of([tool(f"t{number:04}") for number in range(MAX_TOOLS)])
    assert (len(full.tools), full.warnings) == (MAX_TOOLS, ())
    over = Toolset.of([tool(f"t{number:04}") for number in reversed(range(MAX_TOOLS + 500))])
    assert over.tools == full.tools
    assert over.warnings == ("it lists 1,500 tools; those after 1,000 are left out",)


def test_a_long_description_is_cut_and_marked() -> None:
    whole = Toolset.of([tool("a", "x" * MAX_DESCRIPTION_BYTES)])
    assert (len(whole.tools[0].description), whole.warnings) == (MAX_DESCRIPTION_BYTES, ())
    toolset = Toolset.of([tool("a", "ü" * MAX_DESCRIPTION_BYTES)])
    description = toolset.tools[0].description
    assert MAX_DESCRIPTION_BYTES - 2 <= len(description.encode()) <= MAX_DESCRIPTION_BYTES
    assert description.endswith("ü\n[… cut: the description is longer than 16 KiB …]")
    assert toolset.warnings == ("the description of tool 'a' is cut: it has 32,768 bytes",)


def test_a_long_title_is_cut() -> None:
    assert Toolset.of([tool("a", title="x" * MAX_TITLE)]).tools[0].title == "x" * MAX_TITLE
    assert Toolset.of([tool("a", title="x" * 1_000)]).tools[0].title == "x" * (MAX_TITLE - 1) + "…"


def test_a_schema_that_is_too_large_leaves_its_tool_out() -> None:
    fits = {"x": "y" * (MAX_SCHEMA_BYTES - len('{"x":""}'))}
    toolset = Toolset.of([tool("fits", schema=fits), tool("over", schema={"x": fits["x"] + "y"})])
    assert names(toolset) == ["fits"]
    assert toolset.warnings == ("tool 'over' is left out: its schema has 262,145 bytes, and 262,144 are allowed",)


def test_a_schema_that_is_too_deep_leaves_its_tool_out() -> None:
    """C14: also one that is too deep to be walked by recursion."""
    listed = [tool("at", schema=nested(MAX_SCHEMA_DEPTH)), tool("over", schema=nested(MAX_SCHEMA_DEPTH + 1))]
    toolset = Toolset.of([*listed, tool("deepest", schema=nested(100_000))])
    assert names(toolset) == ["at"]
    assert toolset.warnings == (
        "tool 'deepest' is left out: its schema is nested deeper than 64",
        "tool 'over' is left out: its schema is nested deeper than 64",
    )


def test_the_depth_of_lists_counts_too() -> None:
    schema: dict[str, Any] = {"allOf": []}
    inner = schema["allOf"]
    for _ in range(MAX_SCHEMA_DEPTH):
        inner.append([])
        inner = inner[0]
    assert names(Toolset.of([tool("a", schema=schema)])) == []


@each_row(
    "schema",
    [
        {"type": "strin"},
        {"type": "object", "properties": []},
        {"type": "object", "required": "a"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
)
def test_a_schema_that_is_none_leaves_its_tool_out_and_no_other(schema: dict[str, Any]) -> None:
    """HARDENING C14: no call of it could be checked, and a model's provider may refuse all tools for one of them."""
    toolset = Toolset.of([tool("bad", schema=schema), tool("good")])
    assert names(toolset) == ["good"]
    assert toolset.warnings[0].startswith("tool 'bad' is left out: ")


def test_what_was_taken_before_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Toolset.of([tool("a"), tool("b")])
    looked: list[str] = []
    monkeypatch.setattr("tertulia.mcp.client.tool_listing._problem", lambda tool: looked.append(tool.name))
    after = Toolset.of([tool("a"), tool("b", "another"), tool("c")], checked=before)
    assert (names(after), looked) == (["a", "b", "c"], ["b", "c"])


def test_what_was_not_even_taken_from_the_list_is_said_too() -> None:
    toolset = Toolset.of([tool("a")], ["number 2 of its tools is left out: it is not an object"])
    assert (names(toolset), toolset.warnings) == (["a"], ("number 2 of its tools is left out: it is not an object",))


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME + 1)])
def test_a_name_that_is_none_leaves_its_tool_out(name: str) -> None:
    toolset = Toolset.of([tool(name), tool("x" * MAX_NAME)])
    assert names(toolset) == ["x" * MAX_NAME]
    assert "a name has 1 to 256 characters" in toolset.warnings[0]
    assert len(toolset.warnings[0]) < 200


@each_row(
    "broken", [tool("a\ud800"), tool("a", "\ud800"), tool("a", title="\ud800"), tool("a", schema={"x": "\ud800"})]
)
def test_what_cannot_be_written_as_json_is_left_out(broken: RemoteTool) -> None:
    toolset = Toolset.of([broken, tool("b")])
    assert names(toolset) == ["b"]
    assert "cannot be written as JSON" in toolset.warnings[0]


def test_a_thousand_bad_tools_do_not_make_a_thousand_warnings() -> None:
    toolset = Toolset.of([tool("a") for _ in range(1_000)])
    assert len(toolset.warnings) == MAX_WARNINGS
    assert toolset.warnings[-1] == "and 980 more of the kind"


def test_what_is_taken_can_be_taken_again() -> None:
    """What comes from the disk goes through the same gate and comes out the same."""
    toolset = Toolset.of([tool("a", "x" * 100_000, title="y" * 1_000), tool("b")])
    assert Toolset.of(toolset.tools) == Toolset(toolset.tools, toolset.digest)
