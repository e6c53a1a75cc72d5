"""All tools of a server, page by page, within bounds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from tertulia.mcp.server import Hints, Listing, RemoteTool
from tertulia.mcp.trouble import trouble, words

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client

MAX_TOOLS = 10_000
MAX_PAGES = 1_000
MAX_BYTES = 16 << 20
"""Of all names, descriptions and schemas together."""

_log = logging.getLogger(__name__)


async def list_all(server: str, client: Client) -> Listing:
    """What it offers now. Beyond the bounds it offers nothing: a part of a list would look like the whole."""
    from mcp_types import PaginatedRequestParams

    found: dict[str, RemoteTool] = {}
    cursors: set[str] = set()
    cursor: str | None = None
    size, ttl_s = 0, None
    while True:
        page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        size += _take(server, page, found)
        ttl_s = _shorter(ttl_s, page.ttl_ms)
        if len(found) > MAX_TOOLS or size > MAX_BYTES:
            raise trouble(server, "limit", f"it offers more than {MAX_TOOLS:,} tools or {MAX_BYTES:,} bytes of them")
        cursor = page.next_cursor
        if cursor is None:
            return Listing(tuple(found.values()), ttl_s)
        if cursor in cursors or len(cursors) == MAX_PAGES:
            raise trouble(server, "limit", f"its list of tools does not end after {len(cursors) + 1:,} pages")
        cursors.add(cursor)


def _take(server: str, page: types.ListToolsResult, found: dict[str, RemoteTool]) -> int:
    size = 0
    for tool in page.tools:
        remote = _remote(tool)
        size += len(msgspec.json.encode(remote))
        if found.setdefault(remote.name, remote) is not remote:
            _log.warning("mcp server %s: a second tool called %s was dropped", server, words(remote.name, 80))
    return size


def _shorter(ttl_s: float | None, ttl_ms: int) -> float | None:
    # None where it says 0: the SDK's servers all do unless told otherwise, and mean nothing by it.
    if not ttl_ms:
        return ttl_s
    return ttl_ms / 1000 if ttl_s is None else min(ttl_s, ttl_ms / 1000)


def _remote(tool: types.Tool) -> RemoteTool:
    said = tool.annotations
    hints = Hints()
    if said is not None:
        hints = Hints(
            read_only=said.read_only_hint is True,
            destructive=said.destructive_hint is not False,
            idempotent=said.idempotent_hint is True,
            open_world=said.open_world_hint is not False,
        )
    title = tool.title or (said.title if said is not None else None)
    return RemoteTool(tool.name, tool.description or "", tool.input_schema, title=title, hints=hints)
