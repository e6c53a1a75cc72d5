"""Resources of ours, as an MCP client sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tertulia.errors import NotFoundError
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.mcp.serve.sources import ServedCall, ServedResource, ServedTool
from tertulia.mcp.server_connection import CallResult


class Notes:
    """Implements `Served` and `Library`."""

    template = "note://{name}"

    async def tools(self) -> Sequence[ServedTool]:
        return []

    async def call(self, call: ServedCall) -> CallResult:
        raise NotFoundError("no tools here")

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def resources(self) -> Sequence[ServedResource]:
        return [ServedResource("note://a", "a", "A note", "text/plain")]

    async def read(self, uri: str) -> str:
        if uri != "note://a":
            raise NotFoundError(f"there is no {uri}")
        return "text of a"


def broker(library: Notes | None) -> McpEndpoint:
    load_sdk()
    return McpEndpoint(Notes(), name="notes", spawn=lambda work, name: asyncio.ensure_future(work), library=library)  # type: ignore[arg-type]


@pytest.mark.parametrize(("era", "number"), [("legacy", -32002), ("auto", -32602)])
async def test_a_library_is_listed_and_read_in_both_eras(era: Any, number: int) -> None:
    """A name that is not there is an error of the protocol, by the number that the era has for it."""
    async with Client(broker(Notes()).server, mode=era) as client:
        (one,) = (await client.list_resources()).resources
        assert (str(one.uri), one.title, one.mime_type) == ("note://a", "A note", "text/plain")
        (content,) = (await client.read_resource(one.uri)).contents
        assert content.text == "text of a"  # type: ignore[union-attr]
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "note://{name}"
        with pytest.raises(MCPError) as refused:
            await client.read_resource("note://b")
        assert refused.value.error.code == number


async def test_without_a_library_no_resources_are_promised() -> None:
    async with Client(broker(None).server, mode="legacy") as client:
        assert client.server_capabilities.resources is None
        with pytest.raises(MCPError):
            await client.list_resources()
