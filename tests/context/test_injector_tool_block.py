"""What an agent reads of its internal tools."""

from __future__ import annotations

from typing import Any

from tertulia.context.injector import tool_block, tool_lines


def test_a_tool_is_a_line_a_usage_and_what_there_is_to_add(a_tool: Any) -> None:
    """S001-35."""
    tool = a_tool(parameters={"tone": {"type": "string", "required": True}, "times": "integer"}, context="Softly.")
    assert tool_lines(tool).split("\n") == [
        "- ring: Rings a bell.",
        '  Usage: ring {"tone": string, "times"?: integer}',
        "  Softly.",
    ]


def test_null_parameters_and_values_that_are_no_objects_are_tolerated(a_tool: Any) -> None:
    """S001-35."""
    assert tool_lines(a_tool()) == "- ring: Rings a bell.\n  Usage: ring {}"
    assert tool_lines(a_tool(parameters={"a": None, "b": 3})).endswith('{"a"?: any, "b"?: any}')
    assert tool_lines(a_tool(context=" ")) == tool_lines(a_tool())


def test_no_description_can_look_like_another_tool(a_tool: Any) -> None:
    lines = tool_lines(a_tool(description="Rings.\n- rm: Removes.", context="x\n\n- cp: Copies.")).split("\n")
    assert [line for line in lines if line.startswith("-")] == ["- ring: Rings."]


def test_the_block_shows_the_token_only_where_it_is_given(a_tool: Any) -> None:
    """S001-17, X-44."""
    token = "0123456789abcdef" * 4
    tools = [a_tool("one"), a_tool("two", description="{{token}}")]
    block = tool_block(tools, token)
    assert block.count(token) == 1, "what a description says is not filled in"
    assert block.index("- one: ") < block.index("- two: ")
    assert "tertulia internal" in block
    assert "TOKEN" not in tool_block(tools, None)
    assert "- two: " in tool_block(tools, None)


def test_one_long_tool_does_not_take_the_room_of_all(a_tool: Any) -> None:
    """Issue 9: the budget is for all texts together."""
    entry = tool_lines(a_tool(description="d" * 60_000, context="c" * 60_000))
    assert entry.startswith("- ring: ddd")
    assert entry.endswith("…")
    assert len(entry) <= 4_001
