"""The tools of one server: bounded, sorted by name, without duplicates, with a digest of all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice
from typing import Any, cast

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.mcp.server_connection import RemoteTool
from tertulia.schema.schema import Schema

MAX_TOOLS = 1_000
MAX_NAME = 256
MAX_TITLE = 256
MAX_DESCRIPTION_BYTES = 16 * 1024
MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64
MAX_WARNINGS = 20

_CUT = "\n[… cut: the description is longer than 16 KiB …]"
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
