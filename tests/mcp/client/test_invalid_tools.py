"""Tools that are none by the rules of the protocol."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.mcp.client.invalid_tools import INVALID_MARK, MAX_LISTED, invalid_tool_reason, mark_invalid_tools
from tertulia.mcp.server_connection import MODERN

OLD = "2025-06-18"
GOOD: dict[str, Any] = {"name": "good", "inputSchema": {"type": "object", "properties": {"a": {}}}, "x-more": 1}


def reasons(tools: list[Any], version: str = OLD) -> list[str | None]:
    """What is said of each; all others are as they were."""
    result: dict[str, Any] = {"tools": tools}
    mark_invalid_tools(result, version)
    said = [invalid_tool_reason(tool.get("_meta")) for tool in result["tools"]]
    assert all(after is before for why, before, after in zip(said, tools, result["tools"], strict=True) if why is None)
    return said


@pytest.mark.parametrize("version", [OLD, "2024-11-05", "2025-11-25", MODERN])
@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({}, "Field required"),
        ({"name": "a"}, "inputSchema"),
        ({"name": "a", "inputSchema": None}, "inputSchema"),
        ({"name": "a", "inputSchema": {}}, "inputSchema.type"),
        ({"name": None, "inputSchema": {"type": "object"}}, "name"),
        ({"name": "a", "description": ["x"], "inputSchema": {"type": "object"}}, "description"),
        ({"name": "a", "title": 1, "inputSchema": {"type": "object"}}, "title"),
        ("a", "not an object"),
    ],
)
def test_each_is_marked_with_what_is_wrong_with_it_in_every_era(version: str, tool: Any, said: str) -> None:
    first, second, third = reasons([GOOD, tool, GOOD], version)
    assert (first, third) == (None, None)
    assert second is not None
    assert said in second


def test_headers_that_the_modern_era_forbids_are_named_and_do_not_count_in_the_old_one() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}}
    tool = {"name": "a", "inputSchema": schema}
    assert reasons([tool], OLD) == [None]
    (why,) = reasons([tool], MODERN)
    assert why is not None
    assert "x-mcp-header" in why


def test_a_list_without_a_fault_is_left_as_it_is() -> None:
    assert reasons([GOOD, GOOD], MODERN) == [None, None]


@pytest.mark.parametrize("tools", [None, "x", {"a": 1}])
def test_what_is_no_list_is_left_to_those_who_refuse_it(tools: Any) -> None:
    result = {"tools": tools}
    mark_invalid_tools(result, OLD)
    assert result["tools"] is tools


def test_of_a_list_that_is_too_long_no_more_is_looked_at_than_shows_it() -> None:
    result: dict[str, Any] = {"tools": [None] * (MAX_LISTED * 3)}
    mark_invalid_tools(result, OLD)
    assert len(result["tools"]) == MAX_LISTED + 1


def test_a_server_that_marks_its_own_tool_leaves_it_out() -> None:
    assert invalid_tool_reason({INVALID_MARK: "it is a \x1b[31mtrap"}) is not None
    assert "\x1b" not in str(invalid_tool_reason({INVALID_MARK: "it is a \x1b[31mtrap"}))
    assert (invalid_tool_reason(None), invalid_tool_reason({"other": 1})) == (None, None)
