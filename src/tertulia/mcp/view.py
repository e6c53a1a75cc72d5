"""What one conversation may see of the session's MCP servers: a snapshot of their tools, and an allowlist.

The view decides at the call as well as in the list: a tool that is not in it does not exist for the conversation. It
remembers every definition that it has shown. One that changes later is withheld until somebody asks for it anew: what
was read and allowed was the other one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

from tertulia.errors import InvalidParamsError, McpError
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import near_names
from tertulia.protocol.tool_names import is_legal, normalise_allowlist_entry
from tertulia.protocol.tool_spec import ToolSpec

MAX_PINS = 10_000
"""A server that renames its tools all the time does not have them remembered without end: then new names stay out."""
_NO_PINS: Mapping[str, str] = MappingProxyType({})


class McpManager(Protocol):
    """Whoever knows the tools of all MCP servers of the session."""

    def list_tools(self, conversation: ConversationId | None = None) -> tuple[ToolSpec, ...]:
        """Every tool, by fully qualified name, and those that only this conversation has.

        The same object while nothing changes.
        """
        ...

    def absent(self) -> Collection[str]:
        """Configured servers whose tools are not known, because they are not up or never were."""
        ...


class NoServers:
    """A session without MCP servers."""

    __slots__ = ()

    def list_tools(self, conversation: ConversationId | None = None) -> tuple[ToolSpec, ...]:
        """None."""
        return ()

    def absent(self) -> Collection[str]:
        """None."""
        return ()


class McpView(msgspec.Struct, frozen=True):
    """A snapshot of the tools of all servers, and which of them this conversation may use."""

    tools: tuple[ToolSpec, ...] = ()
    """None is among them whose definition changed after it was shown here."""
    allowlist: frozenset[str] | None = None
    """None: all of them. Entries are `server__tool`, or `server__*` for a whole server."""
    seen: tuple[ToolSpec, ...] = ()
    """What the servers offered when the snapshot was made: the same object means that nothing changed."""
    pins: Mapping[str, str] = _NO_PINS
    """The digest under which each name was first shown. It outlives the tool: one that comes back must be the same."""

    @classmethod
    def new_from_manager(cls, manager: McpManager, conversation: ConversationId | None = None) -> McpView:
        """Everything there is, now, as it is now."""
        return cls.of(manager.list_tools(conversation))

    @classmethod
    def of(cls, tools: tuple[ToolSpec, ...]) -> McpView:
        """A first snapshot of these."""
        return cls().refreshed(tools)[0]

    def with_allowlist(self, names: Iterable[str] | None) -> McpView:
        """The same snapshot, narrowed to names that were parsed by `parse_allowlist`."""
        return McpView(self.tools, None if names is None else frozenset(names), self.seen, self.pins)

    def sees(self, spec: ToolSpec) -> bool:
        """Whether the conversation may list and call it."""
        return allows(self.allowlist, spec)

    def withholds(self, name: str) -> bool:
        """Whether the server offers a tool of that name which is not what was shown here under it."""
        changed = any(s.name == name and self.sees(s) and self.pins.get(name, s.digest) != s.digest for s in self.seen)
        return changed and all(spec.name != name for spec in self.tools)

    def list_tools(self) -> list[ToolSpec]:
        """The visible ones, by name."""
        return sorted((spec for spec in self.tools if self.sees(spec)), key=lambda spec: spec.name)

    def refreshed(self, now: tuple[ToolSpec, ...]) -> tuple[McpView, ViewChanges]:
        """The view after the servers offer something else: new tools are in, gone ones out, changed ones withheld.

        Colliding definitions of one name are all passed on: who is offered such a name is decided in the tool list.
        """
        if now is self.seen:
            return self, NO_CHANGES
        claims = Counter(spec.name for spec in now)
        full = len(self.pins) >= MAX_PINS
        kept = tuple(
            s for s in now if claims[s.name] > 1 or self.pins.get(s.name, "" if full else s.digest) == s.digest
        )
        before, after = {spec.name for spec in self.tools}, {spec.name for spec in kept}
        offered = {spec.name for spec in now}
        withheld_before = {spec.name for spec in self.seen} - before
        pins = {**{spec.name: spec.digest for spec in kept if claims[spec.name] == 1}, **self.pins}
        # One object wherever it can be: lists of tools are made once for each, however many conversations have it.
        tools = now if len(kept) == len(now) else self.tools if kept == self.tools else kept
        view = McpView(tools, self.allowlist, now, pins)
        visible = {spec.name for spec in (*self.tools, *now) if self.sees(spec)}
        changed = ViewChanges(
            added=_listed((after - before) & visible),
            removed=_listed((before - offered) & visible),
            withheld=_listed((offered - after - withheld_before) & visible),
        )
        return view, changed


class ViewChanges(msgspec.Struct, frozen=True):
    """What a refresh did to the tools that a conversation may see, by name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    """They are not what was shown under these names before. They are out until a refresh is asked for."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.withheld)


NO_CHANGES = ViewChanges()


def withheld_error(name: str) -> McpError:
    """Why a call is refused whose tool has another definition than the view has shown."""
    return McpError(f"{name} is withheld: its definition changed; call set_context with refresh_mcp_view")


def allows(allowlist: Collection[str] | None, spec: ToolSpec) -> bool:
    """Whether an allowlist lets a tool through; None lets through all."""
    return allowlist is None or spec.name in allowlist or f"{spec.server}__*" in allowlist


def parse_allowlist(
    entries: Iterable[str], known: Sequence[ToolSpec], absent: Collection[str] = ()
) -> tuple[frozenset[str], list[str]]:
    """Normalised names and warnings. An unknown or illegal name is refused before anything exists.

    What may belong to a configured server that is not up is kept, with a warning: it counts from when the server is.
    """
    names = {spec.name for spec in known}
    servers = {spec.server for spec in known}
    parsed: set[str] = set()
    warnings: dict[str, None] = {}
    for entry in entries:
        name, slashed = normalise_allowlist_entry(entry)
        if slashed:
            warnings["mcp_tool_allowlist: `server/tool` is deprecated, write `server__tool`"] = None
        if not (name in names or (name.endswith("__*") and name[:-3] in servers)):
            server = _owner(name, absent)
            if server is None:
                raise InvalidParamsError(_unknown(entry, name, sorted(names)))
            warnings[f"mcp_tool_allowlist: {name!r:.80} is kept, but the MCP server {server!r} is not up"] = None
        parsed.add(name)
    return frozenset(parsed), list(warnings)


def _owner(name: str, absent: Collection[str]) -> str | None:
    if not is_legal(name.removesuffix("*")):
        return None
    return next((server for server in sorted(absent) if name.startswith(f"{server}__")), None)


def _listed(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _unknown(entry: str, name: str, names: list[str]) -> str:
    said = f"mcp_tool_allowlist: {entry!r:.80}"
    if not is_legal(name.removesuffix("*")):
        return f"{said} is not a tool name; write `server__tool`"
    if not names:
        return f"{said} is unknown, the session has no MCP tools"
    near = near_names(name, names, 3, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(names[:10])}"
    return f"{said} is unknown; {hint}"
