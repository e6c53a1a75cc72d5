"""What our MCP servers promise to tell, and that they do not promise more."""

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
from tests.mcp.shop import Shop


class Drawer:
    """Implements `Library`: one note, and whoever wants to hear of it."""

    template = "note://{name}"

    def __init__(self) -> None:
        self.watchers: list[Callable[[], None]] = []
        self.readers: list[Callable[[str], None]] = []

    async def check(self, uri: str) -> None:
        pass

    def watch_content(self, changed: Callable[[str], None]) -> Callable[[], None]:
        self.readers.append(changed)
        return lambda: self.readers.remove(changed)

    async def resources(self) -> Sequence[ServedResource]:
        return [ServedResource("note://a", "a")]

    async def read(self, uri: str) -> str:
        return "a"

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        self.watchers.append(changed)
        return lambda: self.watchers.remove(changed)


def broker(library: Drawer | None) -> McpEndpoint:
    load_sdk()
    return McpEndpoint(Shop(), name="shop", spawn=lambda work, name: asyncio.ensure_future(work), library=library)  # type: ignore[arg-type]


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_lists_and_single_resources_are_told_of_and_prompts_are_not(era: Any) -> None:
    """Issue 10: said in both eras, whoever runs the server."""
    served = broker(Drawer())
    async with Client(served.server, mode=era) as client:
        offered = client.server_capabilities
        assert offered.tools is not None
        assert offered.resources is not None
        assert (offered.tools.list_changed, offered.resources.list_changed) == (True, True)
        assert offered.resources.subscribe
        assert offered.prompts is None
    served.close()


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_where_there_is_nothing_to_read_nothing_is_said_of_it(era: Any) -> None:
    served = broker(None)
    async with Client(served.server, mode=era) as client:
        assert client.server_capabilities.resources is None
    served.close()


async def test_only_what_will_be_told_is_agreed_to() -> None:
    """2026-07-28: the acknowledgement says what is honoured."""
    served = broker(drawer := Drawer())
    async with (
        Client(served.server, mode="auto") as client,
        client.listen(tools_list_changed=True, resources_list_changed=True) as listening,
    ):
        assert listening.honored.resources_list_changed
        assert listening.honored.tools_list_changed
        drawer.watchers[0]()
        assert type(await anext(aiter(listening))).__name__ == "ResourcesListChanged"
    async with (
        Client(served.server, mode="auto") as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True, resource_subscriptions=["note://a"]) as less,
    ):
        assert less.honored.tools_list_changed
        assert not less.honored.prompts_list_changed
        assert less.honored.resource_subscriptions == ["note://a"]
        for uri in ("note://other", "note://a"):
            drawer.readers[0](uri)
        assert str((await anext(aiter(less))).uri) == "note://a"  # type: ignore[union-attr]
    served.close()
    assert not drawer.watchers
    assert not drawer.readers, "nothing is watched when no client listens"


# ---- resources of ours, as an MCP client sees them


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

    async def check(self, uri: str) -> None:
        await self.read(uri)

    def watch_content(self, changed: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None

    async def read(self, uri: str) -> str:
        if uri != "note://a":
            raise NotFoundError(f"there is no {uri}")
        return "text of a"


def notes_server(library: Notes | None) -> McpEndpoint:
    load_sdk()
    return McpEndpoint(Notes(), name="notes", spawn=lambda work, name: asyncio.ensure_future(work), library=library)  # type: ignore[arg-type]


@pytest.mark.parametrize(("era", "number"), [("legacy", -32002), ("auto", -32602)])
async def test_a_library_is_listed_and_read_in_both_eras(era: Any, number: int) -> None:
    """A name that is not there is an error of the protocol, by the number that the era has for it."""
    async with Client(notes_server(Notes()).server, mode=era) as client:
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
    async with Client(notes_server(None).server, mode="legacy") as client:
        assert client.server_capabilities.resources is None
        with pytest.raises(MCPError):
            await client.list_resources()
