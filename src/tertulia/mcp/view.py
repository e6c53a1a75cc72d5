"""What one conversation may see of the session's MCP servers: a snapshot of their tools, and an allowlist.

The view decides at the call as well as in the list: a tool that is not in it does not exist for the conversation. It
remembers the digest of every definition that it has shown. A tool whose definition changes later is withheld until a
client refreshes the view: what was read and allowed was another definition. A `NamedView` is a table
`[mcp_views.NAME]`, for programs that use our MCP servers from outside a session (the broker).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, cast, get_args

import msgspec

from tertulia.errors import InvalidParamsError, McpError
from tertulia.mcp.config.definition import Approval
from tertulia.policy.limits import NO_LIMITS, Limits, limits_from_wire
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.name_hints import name_hint, near_names
from tertulia.protocol.tool_spec import ToolSpec, is_legal, normalise_allowlist_entry

MAX_PINS = 10_000
"""The most names that are remembered, for a server that renames its tools all the time. Further names stay out."""
_NO_PINS: Mapping[str, str] = MappingProxyType({})
_NAMED_VIEW_KEYS = ("approval", "limits", "mcp_tool_allowlist")


class McpManager(Protocol):
    """Knows the tools of all MCP servers of the session."""

    def list_tools(self, conversation: ConversationId | None = None) -> tuple[ToolSpec, ...]:
        """Every tool, by fully qualified name, and those that only this conversation has.

        The same object while nothing changes.
        """
        ...

    def absent(self) -> Collection[str]:
        """Names of configured servers whose tools are not known, because they do not run."""
        ...


class NoServers:
    """A session without MCP servers."""

    __slots__ = ()

    def list_tools(self, conversation: ConversationId | None = None) -> tuple[ToolSpec, ...]:
        """An empty list of tools."""
        return ()

    def absent(self) -> Collection[str]:
        """An empty list of names."""
        return ()


class McpView(msgspec.Struct, frozen=True):
    """A snapshot of the tools of all servers, and which of them this conversation may use."""

    tools: tuple[ToolSpec, ...] = ()
    """Without those whose definition has changed since it was shown here."""
    allowlist: frozenset[str] | None = None
    """None: all tools. Entries are `server__tool`, or `server__*` for a whole server."""
    seen: tuple[ToolSpec, ...] = ()
    """What the servers offered when the snapshot was made; the same object as long as nothing changes."""
    pins: Mapping[str, str] = _NO_PINS
    """The digest with which each name was first shown. It outlives the tool: one that comes back must be equal."""

    @classmethod
    def new_from_manager(cls, manager: McpManager, conversation: ConversationId | None = None) -> McpView:
        """A first snapshot of all tools that there are now."""
        return cls.of(manager.list_tools(conversation))

    @classmethod
    def of(cls, tools: tuple[ToolSpec, ...]) -> McpView:
        """A first snapshot of these tools."""
        return cls().refreshed(tools)[0]

    def with_allowlist(self, names: Iterable[str] | None) -> McpView:
        """The same snapshot, narrowed to names that were parsed by `parse_allowlist`."""
        return McpView(self.tools, None if names is None else frozenset(names), self.seen, self.pins)

    def sees(self, spec: ToolSpec) -> bool:
        """Whether the conversation may list and call it."""
        return allows(self.allowlist, spec)

    def withholds(self, name: str) -> bool:
        """Whether a server offers a tool of that name with another definition than was shown here."""
        changed = any(s.name == name and self.sees(s) and self.pins.get(name, s.digest) != s.digest for s in self.seen)
        return changed and all(spec.name != name for spec in self.tools)

    def list_tools(self) -> list[ToolSpec]:
        """The visible tools, by name."""
        return sorted((spec for spec in self.tools if self.sees(spec)), key=lambda spec: spec.name)

    def refreshed(self, now: tuple[ToolSpec, ...]) -> tuple[McpView, ViewChanges]:
        """The view of what the servers offer now: new tools are in, gone ones out, changed ones withheld.

        Colliding definitions of one name are all passed on: the tool list decides about them.
        """
        if now is self.seen:
            return self, NO_CHANGES
        claims = Counter(spec.name for spec in now)
        full = len(self.pins) >= MAX_PINS
        accepted = tuple(
            s for s in now if claims[s.name] > 1 or self.pins.get(s.name, "" if full else s.digest) == s.digest
        )
        before, after = {spec.name for spec in self.tools}, {spec.name for spec in accepted}
        offered = {spec.name for spec in now}
        withheld_before = {spec.name for spec in self.seen} - before
        pins = {**{spec.name: spec.digest for spec in accepted if claims[spec.name] == 1}, **self.pins}
        # The same object where possible: lists of tools are made once for each, however many conversations share it.
        tools = now if len(accepted) == len(now) else self.tools if accepted == self.tools else accepted
        view = McpView(tools, self.allowlist, now, pins)
        visible = {spec.name for spec in (*self.tools, *now) if self.sees(spec)}
        changed = ViewChanges(
            added=_listed((after - before) & visible),
            removed=_listed((before - offered) & visible),
            withheld=_listed((offered - after - withheld_before) & visible),
            unknown=self._unknown_names(now),
        )
        return view, changed

    def _unknown_names(self, now: tuple[ToolSpec, ...]) -> tuple[str, ...]:
        """One sentence for each name of the allowlist that a server which has just come up does not have."""
        came = {spec.server for spec in now if spec.server} - {spec.server for spec in self.seen}
        if self.allowlist is None or not came:
            return ()
        names = sorted(spec.name for spec in now)
        single = sorted(name for name in self.allowlist if not name.endswith("__*"))
        return tuple(
            _unknown(name, name, names)
            for name in single
            if name not in names and any(name.startswith(f"{server}__") for server in came)
        )


class ViewChanges(msgspec.Struct, frozen=True):
    """What a refresh did to the tools that a conversation may see, by name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    """Their definitions are not those that were shown before. They are out until a client refreshes the view."""
    unknown: tuple[str, ...] = ()
    """Sentences: names of the allowlist that could not be checked before their server was up, and do not exist."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.withheld)


NO_CHANGES = ViewChanges()


def withheld_error(name: str) -> McpError:
    """Why a call is refused whose tool has another definition than the view has shown."""
    return McpError(f"{name} is withheld: its definition changed; call set_context with refresh_mcp_view")


def allows(allowlist: Collection[str] | None, spec: ToolSpec) -> bool:
    """Whether an allowlist lets a tool through; None lets through all."""
    return allowlist is None or spec.name in allowlist or f"{spec.server}__*" in allowlist


def allows_name(allowlist: Collection[str] | None, name: str) -> bool:
    """Whether an allowlist would let a tool of that name through, whichever server it is of."""
    if allowlist is None or name in allowlist:
        return True
    return any(entry.endswith("__*") and name.startswith(entry[:-1]) for entry in allowlist)


def parse_allowlist(
    entries: Iterable[str], tools: Sequence[ToolSpec], absent: Collection[str] = ()
) -> tuple[frozenset[str], list[str]]:
    """Normalised names and warnings. An unknown or illegal name is refused before anything exists.

    A name that may belong to a configured server which does not run is accepted with a warning.
    """
    names = {spec.name for spec in tools}
    servers = {spec.server for spec in tools}
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
    entry_text = f"mcp_tool_allowlist: {entry!r:.80}"
    if not is_legal(name.removesuffix("*")):
        return f"{entry_text} is not a tool name; write `server__tool`"
    if not names:
        return f"{entry_text} is unknown, the session has no MCP tools"
    near = near_names(name, names, 3, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(names[:10])}"
    return f"{entry_text} is unknown; {hint}"


class NamedView(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools of which servers, how many calls, and which need an approval."""

    name: str
    mcp_tool_allowlist: tuple[str, ...] | None = None
    """`server__tool` or `server__*`; None: every tool of every server. Whether they exist is checked later."""
    limits: Limits = NO_LIMITS
    """Narrowed by those of the session."""
    approval: Approval | None = None
    """None: that of each server."""


def view_from_wire(name: str, table: object) -> NamedView:
    """Parse one table; InvalidParams names the view and the key."""
    label = f"mcp_views.{name[:64]}"
    if not is_legal(name):
        raise InvalidParamsError(
            f"mcp_views: {name[:64]!r} cannot be the name of a view; use letters, digits, `_` and `-`"
        )
    if not isinstance(table, Mapping):
        raise InvalidParamsError(f"{label} must be a table")
    fields = cast("Mapping[str, Any]", table)
    for key in fields:
        if key not in _NAMED_VIEW_KEYS:
            hint = name_hint(key, _NAMED_VIEW_KEYS)
            raise InvalidParamsError(f"{label}: there is no setting {key[:64]!r}; {hint}")
    return NamedView(
        name=name,
        mcp_tool_allowlist=_allowlist(f"{label}.mcp_tool_allowlist", fields.get("mcp_tool_allowlist")),
        limits=_limits(label, fields.get("limits", {})),
        approval=_approval(f"{label}.approval", fields.get("approval")),
    )


def _allowlist(label: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise InvalidParamsError(f"{label} must be a list of tools")
    names: list[str] = []
    for entry in cast("list[object]", value):
        name = normalise_allowlist_entry(entry)[0] if isinstance(entry, str) else ""
        if not is_legal(name.removesuffix("*") if name.endswith("__*") else name):
            raise InvalidParamsError(f"{label}: {entry!r:.80} is not a tool name; write `server__tool` or `server__*`")
        names.append(name)
    return tuple(names)


def _limits(label: str, value: object) -> Limits:
    if not isinstance(value, Mapping):
        raise InvalidParamsError(f"{label}.limits must be a table")
    try:
        return limits_from_wire(cast("Mapping[str, object]", value), NO_LIMITS)
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{label}.{error.message}") from None


def _approval(label: str, value: object) -> Approval | None:
    if value is not None and value not in get_args(Approval):
        raise InvalidParamsError(f"{label} must be one of {', '.join(get_args(Approval))}")
    return cast("Approval | None", value)
