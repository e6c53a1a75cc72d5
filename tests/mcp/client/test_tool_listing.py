"""Lists of tools of any length."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import McpError
from tertulia.mcp.client import tool_listing
from tertulia.mcp.client.tool_listing import INVALID_MARK, MAX_LISTED, invalid_tool_reason, mark_invalid_tools
from tertulia.mcp.server_connection import MODERN, ToolHints, ToolListing
from tests.mcp.connected import Reach, call
from tests.mcp.fakes import bare, by_stdio, hostile
from tests.tables import each_row


async def test_a_tool_is_as_its_server_defines_it(reach: Reach) -> None:
    link = await reach(by_stdio(bare()))
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    full = {"name": "a", "title": "A", "description": "does a", "inputSchema": schema, "annotations": hints}
    await call(link, "define", tools=[full, {"name": "b", "inputSchema": {"type": "object"}}])
    one, two = (await link.list_tools()).tools
    assert (one.name, one.title, one.description, one.input_schema) == ("a", "A", "does a", schema)
    assert one.hints == ToolHints(read_only=True, destructive=False, idempotent=True, open_world=False)
    assert (two.title, two.description, two.hints) == (None, "", ToolHints())


async def test_definitions_that_change_are_seen_with_the_next_listing(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("changes")))
    assert {tool.description for tool in (await link.list_tools()).tools} == {"version 1"}
    assert {tool.description for tool in (await link.list_tools()).tools} == {"version 2"}


@pytest.mark.parametrize("mode", ["endless-pages", "same-cursor"])
async def test_a_list_without_an_end_is_no_list(reach: Reach, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(tool_listing, "MAX_PAGES", 50)
    link = await reach(by_stdio(hostile(mode)))
    with pytest.raises(McpError, match="its list of tools does not end after") as refused:
        await link.list_tools()
    assert refused.value.detail["reason"] == "limit"
    assert (await call(link, "echo", text="still here")).text == "still here"


async def test_a_server_without_tools_has_none_and_that_is_no_failure(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("toolless")))
    assert await link.list_tools() == ToolListing(())


async def test_a_cursor_is_no_place_to_keep_things(reach: Reach, tmp_path: Path) -> None:
    page = {"tools": [], "nextCursor": "x" * (tool_listing.MAX_CURSOR + 1)}
    (tmp_path / "tools.json").write_text(json.dumps(page))
    link = await reach(by_stdio(bare("--define", str(tmp_path / "tools.json"))))
    with pytest.raises(McpError, match="the cursor to its next tools has more than 16,384 characters"):
        await link.list_tools()


async def test_100_000_tools_are_too_many(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("many-tools")))
    with pytest.raises(McpError, match="it offers more than 10,000 tools"):
        await link.list_tools()


async def test_of_two_tools_of_one_name_the_first_is_kept_and_the_other_is_named(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("duplicate-tools")))
    listing = await link.list_tools()
    assert [tool.description for tool in listing.tools if tool.name == "echo"] == ["echo"]
    assert listing.left_out == ("tool 'echo' is left out: another one has that name already",)


async def test_a_tool_that_is_none_costs_only_itself(reach: Reach) -> None:
    """Issue 8: whatever is wrong with one tool, all others can be used, and the list says which is not among them."""
    link = await reach(by_stdio(bare()))
    good = {"name": "echo", "inputSchema": {"type": "object"}}
    bad = [
        {"name": "no-schema"},
        {"name": "text", "inputSchema": "none\x1b[2J"},
        {"name": "list", "inputSchema": {"type": "array"}},
        {"name": "described", "description": 7, "inputSchema": {"type": "object"}},
        {"name": 5, "inputSchema": {"type": "object"}},
        {"name": "hinted", "inputSchema": {"type": "object"}, "annotations": "safe"},
        None,
        ["echo"],
    ]
    await call(link, "define", tools=[bad[0], good, *bad[1:]])
    listing = await link.list_tools()
    assert [tool.name for tool in listing.tools] == ["echo"]
    named = ("'no-schema'", "'text'", "'list'", "'described'", "number 6", "'hinted'", "number 8", "number 9")
    assert len(listing.left_out) == len(bad)
    assert all(name in reason for name, reason in zip(named, listing.left_out, strict=True))
    assert not any("\x1b" in reason for reason in listing.left_out)
    assert (await call(link, "echo", text="usable")).text == "usable"


async def test_a_tool_that_is_nested_too_deep_costs_only_itself(reach: Reach, tmp_path: Path) -> None:
    """HARDENING C14: also where the SDK would walk through it."""
    deep: dict[str, object] = {}
    for _ in range(400):
        deep = {"items": deep}
    schema = {"type": "object", "properties": {"a": deep}}
    good = {"name": "echo", "inputSchema": {"type": "object"}}
    (tmp_path / "tools.json").write_text(json.dumps({"tools": [{"name": "deep", "inputSchema": schema}, good]}))
    link = await reach(by_stdio(bare("--define", str(tmp_path / "tools.json"))))
    listing = await link.list_tools()
    assert [tool.name for tool in listing.tools] == ["echo"]
    assert listing.left_out == ("tool 'deep' is left out: it is nested deeper than 65",)


@each_row(("before", "count", "after"), [(None, 0, None), (None, 500, 0.5), (1.0, 500, 0.5), (0.1, 0, 0.1)])
def test_the_shortest_time_of_all_pages_counts_and_0_says_nothing(
    before: float | None, count: int, after: float | None
) -> None:
    assert tool_listing._shorter(before, count) == after


# ---- tools that are none by the rules of the protocol


OLD = "2025-06-18"
GOOD: dict[str, Any] = {"name": "good", "inputSchema": {"type": "object", "properties": {"a": {}}}, "x-more": 1}


def reasons(tools: list[Any], version: str = OLD) -> list[str | None]:
    """What is said of each; all others are as they were."""
    result: dict[str, Any] = {"tools": tools}
    mark_invalid_tools(result, version)
    invalid_tool_reasons = [invalid_tool_reason(tool.get("_meta")) for tool in result["tools"]]
    assert all(
        after is before
        for why, before, after in zip(invalid_tool_reasons, tools, result["tools"], strict=True)
        if why is None
    )
    return invalid_tool_reasons


@each_row("version", [OLD, "2024-11-05", "2025-11-25", MODERN])
@each_row(
    ("tool", "expected"),
    [
        ({}, "it is missing"),
        ({"name": "a"}, "inputSchema"),
        ({"name": "a", "inputSchema": None}, "inputSchema"),
        ({"name": "a", "inputSchema": {}}, "inputSchema.type"),
        ({"name": None, "inputSchema": {"type": "object"}}, "name"),
        ({"name": "a", "description": ["x"], "inputSchema": {"type": "object"}}, "description"),
        ({"name": "a", "title": 1, "inputSchema": {"type": "object"}}, "title"),
        ("a", "not an object"),
    ],
)
def test_each_is_marked_with_what_is_wrong_with_it_in_every_era(version: str, tool: Any, expected: str) -> None:
    first, second, third = reasons([GOOD, tool, GOOD], version)
    assert (first, third) == (None, None)
    assert second is not None
    assert expected in second


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
