"""Lists of tools of any length."""

from __future__ import annotations

import logging

import pytest

from tertulia.errors import McpError
from tertulia.mcp import listing
from tertulia.mcp.server import Hints
from tests.mcp.connected import Reach, call
from tests.mcp.fakes import bare, by_stdio, hostile


async def test_a_tool_is_as_its_server_defines_it(reach: Reach) -> None:
    link = await reach(by_stdio(bare()))
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}
    hints = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    full = {"name": "a", "title": "A", "description": "does a", "inputSchema": schema, "annotations": hints}
    await call(link, "define", tools=[full, {"name": "b", "inputSchema": {"type": "object"}}])
    one, two = (await link.list_tools()).tools
    assert (one.name, one.title, one.description, one.input_schema) == ("a", "A", "does a", schema)
    assert one.hints == Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
    assert (two.title, two.description, two.hints) == (None, "", Hints())


async def test_definitions_that_change_are_seen_with_the_next_listing(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("changes")))
    assert {tool.description for tool in (await link.list_tools()).tools} == {"version 1"}
    assert {tool.description for tool in (await link.list_tools()).tools} == {"version 2"}


@pytest.mark.parametrize("mode", ["endless-pages", "same-cursor"])
async def test_a_list_without_an_end_is_no_list(reach: Reach, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(listing, "MAX_PAGES", 50)
    link = await reach(by_stdio(hostile(mode)))
    with pytest.raises(McpError, match="its list of tools does not end after") as refused:
        await link.list_tools()
    assert refused.value.detail["reason"] == "limit"
    assert (await call(link, "echo", text="still here")).text == "still here"


async def test_100_000_tools_are_too_many(reach: Reach) -> None:
    link = await reach(by_stdio(hostile("many-tools")))
    with pytest.raises(McpError, match="it offers more than 10,000 tools"):
        await link.list_tools()


async def test_of_two_tools_of_one_name_the_first_is_kept(reach: Reach, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    link = await reach(by_stdio(hostile("duplicate-tools")))
    tools = [tool for tool in (await link.list_tools()).tools if tool.name == "echo"]
    assert [tool.description for tool in tools] == ["echo"]
    assert "a second tool called echo was dropped" in caplog.text


@pytest.mark.parametrize(
    ("before", "said", "after"), [(None, 0, None), (None, 500, 0.5), (1.0, 500, 0.5), (0.1, 0, 0.1)]
)
def test_the_shortest_time_of_all_pages_counts_and_0_says_nothing(
    before: float | None, said: int, after: float | None
) -> None:
    assert listing._shorter(before, said) == after
