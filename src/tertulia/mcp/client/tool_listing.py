"""Lists the tools of a server, page by page and within bounds, and makes a `Toolset` of them.

A tool that breaks the rules of the protocol is left out with a reason. The SDK accepts or refuses a page as a whole, so
such a tool is first replaced by a valid one that carries the reason (`mark_invalid_tools`, called on raw results).
A toolset is what is kept of a listing: bounded, sorted by name, without duplicates, with a digest of all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.mcp.client.error_text import field_problem, quote_server_text, server_error
from tertulia.mcp.server_connection import MODERN, RemoteTool, ToolHints, ToolListing
from tertulia.schema.model_errors import model_problems
from tertulia.schema.schema import Schema

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client

MAX_LISTED = 10_000
"""Tools of one listing. A longer list is refused, and the rest of it is not looked at."""
MAX_PAGES = 1_000
MAX_CURSOR = 16 << 10
MAX_BYTES = 16 << 20
"""Of all names, descriptions and schemas together."""
MAX_TOOLS = 1_000
"""Tools of one toolset; the others are left out."""
MAX_NAME = 256
MAX_TITLE = 256
MAX_DESCRIPTION_BYTES = 16 * 1024
MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64
MAX_WARNINGS = 20
INVALID_MARK = "tertulia/invalid"
_MOST_REASON = 200
_DEEPEST = MAX_SCHEMA_DEPTH + 1
"""A schema is one level below its tool."""
_CUT = "\n[… cut: the description is longer than 16 KiB …]"


async def list_all_tools(server: str, client: Client) -> ToolListing:
    """All tools that the server offers now. McpError beyond the bounds: a part of them would look like all."""
    collected = _CollectedTools()
    cursors: set[str] = set()
    cursor: str | None = None
    ttl_s: float | None = None
    while True:
        page = await _page(client, cursor)
        if page is None:
            return ToolListing(())
        for tool in page.tools:
            collected.take(tool)
        ttl_s = _shorter(ttl_s, page.ttl_ms)
        if collected.count > MAX_LISTED or collected.size > MAX_BYTES:
            raise server_error(
                server, "limit", f"it offers more than {MAX_LISTED:,} tools or {MAX_BYTES:,} bytes of them"
            )
        cursor = page.next_cursor
        if cursor is not None and len(cursor) > MAX_CURSOR:
            raise server_error(server, "limit", f"the cursor to its next tools has more than {MAX_CURSOR:,} characters")
        if cursor is None:
            return ToolListing(tuple(collected.tools.values()), ttl_s, tuple(collected.left_out), collected.size)
        if cursor in cursors or len(cursors) == MAX_PAGES:
            raise server_error(server, "limit", f"its list of tools does not end after {len(cursors) + 1:,} pages")
        cursors.add(cursor)


async def _page(client: Client, cursor: str | None) -> types.ListToolsResult | None:
    """The next page; None where the server has no tools at all, only resources or prompts."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams

    try:
        return await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
    except MCPError as error:
        # Not by its capabilities alone: some servers have tools and do not declare them.
        if error.code == METHOD_NOT_FOUND and client.server_capabilities.tools is None:
            return None
        raise


class _CollectedTools:
    """The tools of the pages so far."""

    def __init__(self) -> None:
        self.tools: dict[str, RemoteTool] = {}
        self.left_out: list[str] = []
        self.count = 0
        """Of all tools, valid or not."""
        self.size = 0

    def take(self, tool: types.Tool) -> None:
        """Add a tool; of two with one name the first counts."""
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
    # 0 counts as none: servers of the SDK send it unless configured, and mean nothing by it.
    if not ttl_ms:
        return ttl_s
    return ttl_ms / 1000 if ttl_s is None else min(ttl_s, ttl_ms / 1000)


def _remote(tool: types.Tool) -> RemoteTool:
    annotations = tool.annotations
    hints = ToolHints()
    if annotations is not None:
        hints = ToolHints(
            read_only=annotations.read_only_hint is True,
            destructive=annotations.destructive_hint is not False,
            idempotent=annotations.idempotent_hint is True,
            open_world=annotations.open_world_hint is not False,
        )
    title = tool.title or (annotations.title if annotations is not None else None)
    return RemoteTool(tool.name, tool.description or "", tool.input_schema, title=title, hints=hints)


def mark_invalid_tools(result: dict[str, Any], version: str) -> None:
    """Replace, in a result that lists tools, each invalid one by a stand-in. The SDK must be loaded."""
    offered = result["tools"]
    if not isinstance(offered, list):
        return
    # One more than is allowed is enough to be refused. First the tools that the validation itself cannot take.
    tools = cast("list[Any]", offered)[: MAX_LISTED + 1]
    tools = [tool if (why := _unreadable(tool)) is None else _stand_in(tool, why) for tool in tools]
    reasons = _sdk_errors_by_index(tools, version)
    result["tools"] = [_stand_in(tool, reasons[at]) if at in reasons else tool for at, tool in enumerate(tools)]


def invalid_tool_reason(meta: dict[str, Any] | None) -> str | None:
    """Why a stand-in is there; None for a valid tool."""
    return (
        None if meta is None or INVALID_MARK not in meta else quote_server_text(str(meta[INVALID_MARK]), _MOST_REASON)
    )


def _unreadable(tool: Any) -> str | None:
    if not isinstance(tool, dict):
        return "it is not an object"
    return f"it is nested deeper than {_DEEPEST}" if is_deeper(tool, _DEEPEST) else None


def _sdk_errors_by_index(tools: list[dict[str, Any]], version: str) -> dict[int, str]:
    """Why tools are invalid, by index: in that version of the protocol, and for the SDK's own types."""
    from mcp.shared.inbound import find_invalid_x_mcp_header
    from mcp_types import ListToolsResult
    from mcp_types.methods import validate_server_result
    from pydantic import ValidationError

    reasons: dict[int, str] = {}
    for check in (
        lambda: validate_server_result("tools/list", version, {"tools": tools}),
        lambda: ListToolsResult.model_validate({"tools": tools}, by_name=False),
    ):
        try:
            check()
        except ValidationError as error:
            for problem in model_problems(error):
                # Any other problem is about the result around the tools, which is not checked here.
                if problem["loc"][0] == "tools":
                    where, what = field_problem(problem, 2)
                    reasons.setdefault(int(problem["loc"][1]), f"`{where}`: {what}")
    if version >= MODERN:
        for at, tool in enumerate(tools):
            # The SDK drops these silently.
            if at not in reasons and (why := find_invalid_x_mcp_header(tool["inputSchema"])) is not None:
                reasons[at] = quote_server_text(why, _MOST_REASON)
    return reasons


def _stand_in(tool: Any, why: str) -> dict[str, Any]:
    name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
    return {
        "name": name if isinstance(name, str) else "",
        "inputSchema": {"type": "object"},
        "_meta": {INVALID_MARK: why},
    }


_canonical = msgspec.json.Encoder(order="deterministic")


class Toolset(msgspec.Struct, frozen=True):
    """Made by `Toolset.of`. Two with one digest hold the same tools, byte for byte (C18)."""

    tools: tuple[RemoteTool, ...] = ()
    """By name, in the order of code points."""
    digest: str = ""
    warnings: tuple[str, ...] = ()
    """Which tools were left out or cut, and why."""

    @classmethod
    def of(cls, listing: Iterable[RemoteTool], left_out: Iterable[str] = (), checked: Toolset | None = None) -> Toolset:
        """From the tools that a server lists, in any order. Of two with one name the first counts.

        `left_out`: warnings about tools that are not in `listing`. `checked`: tools that need not be checked again.
        """
        checked_before = {} if checked is None else {tool.name: tool for tool in checked.tools}
        warnings = list(left_out)
        accepted: dict[str, RemoteTool] = {}
        ordered = sorted(listing, key=lambda tool: tool.name)
        for tool in ordered:
            problem = "another one has that name already" if tool.name in accepted else None
            if problem is None and checked_before.get(tool.name) != tool:
                problem = _problem(tool)
            if problem is None and len(accepted) == MAX_TOOLS:
                warnings.insert(0, f"it lists {len(ordered):,} tools; those after {MAX_TOOLS:,} are left out")
                break
            if problem is None:
                accepted[tool.name] = _cut(tool, warnings)
            else:
                warnings.append(f"tool {tool.name!r:.80} is left out: {problem}")
        tools = tuple(accepted.values())
        digest = hashlib.sha256(_canonical.encode(tools)).hexdigest()
        return cls(tools, digest, _limit_warnings(warnings))


def _problem(tool: RemoteTool) -> str | None:
    if not 0 < len(tool.name) <= MAX_NAME:
        return f"a name has 1 to {MAX_NAME} characters"
    if is_deeper(tool.input_schema, MAX_SCHEMA_DEPTH):
        return f"its schema is nested deeper than {MAX_SCHEMA_DEPTH}"
    try:
        schema = _canonical.encode(tool.input_schema)
        _canonical.encode((tool.name, tool.title, tool.description))
    except (TypeError, ValueError):
        return "its definition cannot be written as JSON"
    if len(schema) > MAX_SCHEMA_BYTES:
        return f"its schema has {len(schema):,} bytes, and {MAX_SCHEMA_BYTES:,} are allowed"
    try:
        # No call of it could be checked; and some models refuse a whole request for one invalid schema.
        Schema.compile(schema.decode())
    except InvalidParamsError as error:
        return error.message
    return None


def is_deeper(value: Any, depth: int) -> bool:
    """Whether JSON is nested deeper than `depth`. Level by level: it may be too deep for recursion."""
    level: list[Any] = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    """The containers directly in a container."""
    members = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
    return [member for member in members if isinstance(member, dict | list)]


def _cut(tool: RemoteTool, warnings: list[str]) -> RemoteTool:
    description, title = tool.description, tool.title
    encoded = description.encode()
    if len(encoded) > MAX_DESCRIPTION_BYTES:
        warnings.append(f"the description of tool {tool.name!r:.80} is cut: it has {len(encoded):,} bytes")
        description = encoded[: MAX_DESCRIPTION_BYTES - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT
    if title is not None and len(title) > MAX_TITLE:
        title = f"{title[: MAX_TITLE - 1]}…"
    if description is tool.description and title is tool.title:
        return tool
    return msgspec.structs.replace(tool, description=description, title=title)


def _limit_warnings(warnings: list[str]) -> tuple[str, ...]:
    if len(warnings) <= MAX_WARNINGS:
        return tuple(warnings)
    return (*islice(warnings, MAX_WARNINGS - 1), f"and {len(warnings) - MAX_WARNINGS + 1:,} more of the kind")
