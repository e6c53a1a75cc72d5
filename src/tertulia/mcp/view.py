"""What one conversation may see of the session's MCP servers: a snapshot of their tools, and an allowlist.

The view decides at the call as well as in the list: a tool that is not in it does not exist for the conversation.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from tertulia.errors import InvalidParams
from tertulia.protocol.tool_names import is_legal, normalise_allowlist_entry
from tertulia.protocol.tool_spec import ToolSpec


class McpManager(Protocol):
    """Whoever knows the tools of all MCP servers of the session."""

    def list_tools(self) -> Sequence[ToolSpec]:
        """Every tool, by fully qualified name."""
        ...


class NoServers:
    """A session without MCP servers."""

    __slots__ = ()

    def list_tools(self) -> Sequence[ToolSpec]:
        """None."""
        return ()


class McpView(msgspec.Struct, frozen=True):
    """A snapshot of the tools of all servers, and which of them this conversation may use."""

    tools: tuple[ToolSpec, ...] = ()
    allowlist: frozenset[str] | None = None
    """None: all of them. Entries are `server__tool`, or `server__*` for a whole server."""

    @classmethod
    def new_from_manager(cls, manager: McpManager) -> McpView:
        """Everything there is, now."""
        return cls(tuple(manager.list_tools()))

    def with_allowlist(self, names: Iterable[str] | None) -> McpView:
        """The same snapshot, narrowed to names that were parsed by `parse_allowlist`."""
        return McpView(self.tools, None if names is None else frozenset(names))

    def sees(self, spec: ToolSpec) -> bool:
        """Whether the conversation may list and call it."""
        if self.allowlist is None:
            return True
        return spec.name in self.allowlist or f"{spec.server}__*" in self.allowlist

    def list_tools(self) -> list[ToolSpec]:
        """The visible ones, by name."""
        return sorted((spec for spec in self.tools if self.sees(spec)), key=lambda spec: spec.name)


def parse_allowlist(entries: Iterable[str], known: Sequence[ToolSpec]) -> tuple[frozenset[str], list[str]]:
    """Normalised names and warnings. An unknown or illegal name is refused before anything exists."""
    names = {spec.name for spec in known}
    servers = {spec.server for spec in known}
    parsed: set[str] = set()
    deprecated = False
    for entry in entries:
        name, slashed = normalise_allowlist_entry(entry)
        deprecated |= slashed
        whole_server = name.endswith("__*") and name[:-3] in servers
        if not whole_server and name not in names:
            raise InvalidParams(_unknown(entry, name, sorted(names)))
        parsed.add(name)
    warning = "mcp_tool_allowlist: `server/tool` is deprecated, write `server__tool`"
    return frozenset(parsed), [warning] if deprecated else []


def _unknown(entry: str, name: str, names: list[str]) -> str:
    said = f"mcp_tool_allowlist: {entry!r:.80}"
    if not is_legal(name.removesuffix("*")):
        return f"{said} is not a tool name; write `server__tool`"
    if not names:
        return f"{said} is unknown, the session has no MCP tools"
    near = difflib.get_close_matches(name, names, 3, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(names[:10])}"
    return f"{said} is unknown; {hint}"
