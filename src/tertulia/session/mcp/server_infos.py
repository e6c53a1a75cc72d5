"""The status of a session's MCP servers, their users, and the tools that are withheld: for `mcp/status`."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import asdict

from tertulia.conversation.state import ConversationState
from tertulia.mcp.pool.session_server import SessionServer
from tertulia.mcp.pool.session_servers import SessionServers
from tertulia.mcp.view import MAX_PINS
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.mcp.answers import McpServerInfo, WithheldTool
from tertulia.session.parts import SessionParts

MAX_USERS = 200
"""The most conversations that are named as users of one server."""
_CHANGED = "its definition changed; set_context with refresh_mcp_view takes the new one"
_TOO_MANY = f"the server has renamed its tools too often: {MAX_PINS:,} names are known"


def server_infos(parts: SessionParts) -> list[McpServerInfo]:
    """Every server of the session, by name."""
    servers = parts.made.servers
    if servers is None:
        return []
    # A dict as a set that keeps the order.
    seen_by: dict[str, dict[ConversationId, None]] = {}
    withheld: dict[str, dict[str, str]] = {}
    for group in _equal_views(parts, servers):
        visible, hidden = _tools_of(parts, group[0])
        for server in visible:
            seen_by.setdefault(server, {}).update((conversation.id, None) for conversation in group)
        for spec, because in hidden:
            withheld.setdefault(spec.server or "", {}).setdefault(spec.name, because)
    ordered = sorted(servers.members, key=lambda member: member.name)
    return [_info(parts, member, seen_by.get(member.name, {}), withheld.get(member.name, {})) for member in ordered]


def _info(
    parts: SessionParts,
    member: SessionServer,
    seen_by: dict[ConversationId, None],
    withheld: dict[str, str],
) -> McpServerInfo:
    users = list({**member.users, **seen_by})
    figures, limiter = member.figures(), parts.made.mcp_limiter
    return McpServerInfo(
        **asdict(member.report()),
        restarts=figures.restarts,
        in_flight=sum(server.calls for server in member.processes()),
        waiting=0 if limiter is None else limiter.waiting(member.name),
        p50_ms=figures.p50_ms,
        p95_ms=figures.p95_ms,
        users=users[:MAX_USERS],
        user_count=len(users),
        withheld=[WithheldTool(tool, because) for tool, because in sorted({**member.refused, **withheld}.items())],
        last_error_at=None if figures.last_error_at is None else parts.timestamps.at(figures.last_error_at),
    )


def _equal_views(parts: SessionParts, servers: SessionServers) -> Iterator[list[ConversationState]]:
    """The conversations in groups that are offered the same tools: each group is looked at once."""
    groups: dict[tuple[object, ...], list[ConversationState]] = {}
    for conversation in parts.conversations:
        terms = conversation.terms
        view = terms.context.mcp_view
        alone = conversation.id if servers.has_private(conversation.id) else None
        ids = (id(view.tools), id(view.seen), id(view.pins), id(terms.functions), id(terms.agent))
        groups.setdefault((*ids, view.allowlist, alone), []).append(conversation)
    yield from groups.values()


def _tools_of(parts: SessionParts, conversation: ConversationState) -> tuple[set[str], list[tuple[ToolSpec, str]]]:
    """The servers whose tools its next task will be offered; and the tools that are withheld from it, with reasons."""
    terms = parts.terms_resolver.caught_up(conversation)[0]
    view, offered = terms.context.mcp_view, parts.toolbox.offered(terms, terms.rights)
    names = {(spec.name, spec.server) for spec in offered.specs}
    accepted = {spec.name for spec in view.tools}
    hidden: list[tuple[ToolSpec, str]] = []
    for spec in view.seen:
        if not view.sees(spec) or (spec.name, spec.server) in names:
            continue
        if spec.name not in accepted:
            hidden.append((spec, _CHANGED if spec.name in view.pins else _TOO_MANY))
        else:
            claim = f"tool {spec.name!r} is claimed by "
            hidden += [(spec, conflict) for conflict in offered.conflicts if conflict.startswith(claim)]
    return {spec.server for spec in offered.specs if spec.server is not None}, hidden
