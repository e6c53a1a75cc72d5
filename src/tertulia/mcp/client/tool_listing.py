"""All tools of a server, page by page, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tertulia.mcp.client.error_text import quote_server_text, server_error
from tertulia.mcp.client.invalid_tools import MAX_LISTED, invalid_tool_reason
from tertulia.mcp.server_connection import RemoteTool, ToolHints, ToolListing

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client

MAX_TOOLS = MAX_LISTED
MAX_PAGES = 1_000
MAX_CURSOR = 16 << 10
MAX_BYTES = 16 << 20
"""Of all names, descriptions and schemas together."""


async def list_all_tools(server: str, client: Client) -> ToolListing:
    """What it offers now. Beyond the bounds it offers nothing: a part of a list would look like the whole."""
    found = _CollectedTools()
    cursors: set[str] = set()
    cursor: str | None = None
    ttl_s: float | None = None
    while True:
        page = await _page(client, cursor)
        if page is None:
            return ToolListing(())
        for tool in page.tools:
            found.take(tool)
        ttl_s = _shorter(ttl_s, page.ttl_ms)
        if found.count > MAX_TOOLS or found.size > MAX_BYTES:
            raise server_error(
                server, "limit", f"it offers more than {MAX_TOOLS:,} tools or {MAX_BYTES:,} bytes of them"
            )
        cursor = page.next_cursor
        if cursor is not None and len(cursor) > MAX_CURSOR:
            raise server_error(server, "limit", f"the cursor to its next tools has more than {MAX_CURSOR:,} characters")
        if cursor is None:
            return ToolListing(tuple(found.tools.values()), ttl_s, tuple(found.left_out), found.size)
        if cursor in cursors or len(cursors) == MAX_PAGES:
            raise server_error(server, "limit", f"its list of tools does not end after {len(cursors) + 1:,} pages")
        cursors.add(cursor)


async def _page(client: Client, cursor: str | None) -> types.ListToolsResult | None:
    """The next; None where the server has no tools at all, but other things that we do not ask for."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams

    try:
        return await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
    except MCPError as error:
        # Not by what it says of itself alone: some have tools and forget to say so.
        if error.code == METHOD_NOT_FOUND and client.server_capabilities.tools is None:
            return None
        raise


class _CollectedTools:
    """What the pages so far had."""

    def __init__(self) -> None:
        self.tools: dict[str, RemoteTool] = {}
        self.left_out: list[str] = []
        self.count = 0
        """Of all, usable or not."""
        self.size = 0

    def take(self, tool: types.Tool) -> None:
        """The first of one name counts."""
        self.count += 1
        why = invalid_tool_reason(tool.meta)
        if why is None:
            remote = _remote(tool)
            self.size += len(msgspec.json.encode(remote))
            if self.tools.setdefault(remote.name, remote) is remote:
                return
            why = "another one has that name already"
        name = f"tool {quote_server_text(tool.name, 80)!r}" if tool.name else f"number {self.count:,} of its tools"
        self.left_out.append(f"{name} is left out: {why}")


def _shorter(ttl_s: float | None, ttl_ms: int) -> float | None:
    # None where it says 0: the SDK's servers all do unless told otherwise, and mean nothing by it.
    if not ttl_ms:
        return ttl_s
    return ttl_ms / 1000 if ttl_s is None else min(ttl_s, ttl_ms / 1000)


def _remote(tool: types.Tool) -> RemoteTool:
    said = tool.annotations
    hints = ToolHints()
    if said is not None:
        hints = ToolHints(
            read_only=said.read_only_hint is True,
            destructive=said.destructive_hint is not False,
            idempotent=said.idempotent_hint is True,
            open_world=said.open_world_hint is not False,
        )
    title = tool.title or (said.title if said is not None else None)
    return RemoteTool(tool.name, tool.description or "", tool.input_schema, title=title, hints=hints)
