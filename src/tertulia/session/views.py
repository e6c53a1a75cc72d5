"""Keeps what conversations see of MCP servers up to date: between their tasks, and never inside one.

A view follows its servers as far as its allowlist goes; a definition that changed is withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.events.bus import EventScope
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.tool_events import McpToolsChanged
from tertulia.session.parts import SessionParts
from tertulia.session.resume.terms_codec import pins_record


async def refresh_before_task(parts: SessionParts, scope: TaskScope) -> None:
    """A task of this conversation begins. Waits for servers that are starting or asked again, within bounds."""
    await parts.servers.settle()
    await parts.servers.catch_up()
    _catch_up(parts, scope.conversation, scope.publish)


def refresh_at_start(parts: SessionParts) -> None:
    """The session has just begun: servers that are there already are no change; definitions that differ are."""
    for conversation in parts.conversations:
        _catch_up(parts, conversation, partial(_warn, parts, conversation))


def refresh_when_shown(parts: SessionParts, conversation: ConversationState) -> None:
    """Bring a conversation up to date that a client looks at: it shows what its next task would see."""
    if parts.made.servers is not None and conversation.task is None:
        _catch_up(parts, conversation, partial(_tell, parts, conversation))


def server_visibility(conversations: Iterable[ConversationState]) -> Callable[[str], bool]:
    """A function that says whether any of these conversations sees a tool of a server."""

    def is_seen(server: str) -> bool:
        views = {id(view): view for view in (conversation.terms.context.mcp_view for conversation in conversations)}
        return any(spec.server == server and view.sees(spec) for view in views.values() for spec in view.tools)

    return is_seen


def _warn(parts: SessionParts, conversation: ConversationState, data: EventData) -> None:
    match data:
        case McpToolsChanged(withheld=[_, *_]):
            _tell(parts, conversation, McpToolsChanged([], [], data.withheld))
        case WarningEvent():
            _tell(parts, conversation, data)
        case _:
            pass


def _tell(parts: SessionParts, conversation: ConversationState, data: EventData) -> None:
    parts.bus.publish(data, EventScope("", conversation.id))


def _catch_up(parts: SessionParts, conversation: ConversationState, publish: Callable[[EventData], object]) -> None:
    terms, changed, conflicts = parts.terms_resolver.caught_up(conversation)
    # The terms are unchanged: the allowlist is the same.
    before, conversation.terms = conversation.terms.context.mcp_view, terms
    if (now := terms.context.mcp_view) is not before and now.pins != before.pins:
        conversation.note(pins_record(conversation))
    if changed:
        publish(McpToolsChanged(list(changed.added), list(changed.removed), list(changed.withheld)))
    for sentence in changed.unknown:
        publish(WarningEvent(sentence, "mcp_tool_allowlist"))
    for conflict in conflicts:
        publish(WarningEvent(conflict, "tool_conflict"))
