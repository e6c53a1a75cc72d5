"""Keeps what conversations see of MCP servers up to date: between their tasks, and never inside one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.events.bus import EventBus, EventScope
from tertulia.mcp.pool.session_servers import SessionServers
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.tool_events import McpToolsChanged
from tertulia.session.agents.registry import AgentRegistry
from tertulia.session.resume.pins import pins_record
from tertulia.session.terms import TermsResolver


class ViewUpdater:
    """A view follows its servers as far as its allowlist goes; a definition that changed is withheld."""

    def __init__(
        self, servers: SessionServers, terms_resolver: TermsResolver, bus: EventBus, agent_registry: AgentRegistry
    ) -> None:
        self._servers = servers
        self._agent_registry = agent_registry
        self._terms_resolver = terms_resolver
        self._bus = bus

    async def make_ready(self, scope: TaskScope) -> None:
        """A task of this conversation begins. Waits for servers that are starting or asked again, within bounds."""
        await self._agent_registry.refresh(scope.conversation)
        await self._servers.settle()
        await self._servers.catch_up()
        self._catch_up(scope.conversation, scope.publish)

    def begin(self, conversations: Iterable[ConversationState]) -> None:
        """The session has just begun: whatever is there already is no change, but what is not as it was is."""
        for conversation in conversations:
            self._catch_up(conversation, partial(self._warn, conversation))

    @staticmethod
    def sees(conversations: Iterable[ConversationState]) -> Callable[[str], bool]:
        """Whether any of these conversations sees a tool of a server, asked at any time."""

        def anybody(server: str) -> bool:
            views = {id(view): view for view in (conversation.terms.context.mcp_view for conversation in conversations)}
            return any(spec.server == server and view.sees(spec) for view in views.values() for spec in view.tools)

        return anybody

    def look(self, conversation: ConversationState) -> None:
        """A client looks at a conversation: what it shows is what its next task would see."""
        if conversation.task is None:
            self._catch_up(conversation, lambda data: self._tell(conversation, data))

    def _warn(self, conversation: ConversationState, data: EventData) -> None:
        match data:
            case McpToolsChanged(withheld=[_, *_]):
                self._tell(conversation, McpToolsChanged([], [], data.withheld))
            case WarningEvent():
                self._tell(conversation, data)
            case _:
                pass

    def _tell(self, conversation: ConversationState, data: EventData) -> None:
        self._bus.publish(data, EventScope("", conversation.id))

    def _catch_up(self, conversation: ConversationState, publish: Callable[[EventData], object]) -> None:
        terms, changed, conflicts = self._terms_resolver.caught_up(conversation)
        # Nothing that was agreed on is different: the allowlist is the same.
        before, conversation.terms = conversation.terms.context.mcp_view, terms
        if (now := terms.context.mcp_view) is not before and now.pins != before.pins:
            conversation.note(pins_record(conversation))
        if changed:
            publish(McpToolsChanged(list(changed.added), list(changed.removed), list(changed.withheld)))
        for conflict in conflicts:
            publish(WarningEvent(conflict, "tool_conflict"))
