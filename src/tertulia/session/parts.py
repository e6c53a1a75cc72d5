"""The standing parts of one session, put together by `assembly` and taken apart by `shutdown`."""

from __future__ import annotations

import asyncio

import msgspec

from tertulia.conversation.toolbox import Toolbox
from tertulia.events.bus import EventBus
from tertulia.events.clock import Clock, Timestamps
from tertulia.events.journal import Journal
from tertulia.mcp.pool.session_servers import SessionServers
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.queue import Scheduler
from tertulia.scheduler.task_registry import TaskRegistry
from tertulia.session.agents.registry import AgentRegistry
from tertulia.session.answers import CloseAnswer
from tertulia.session.command_services import CommandServices
from tertulia.session.conversations import Conversations
from tertulia.session.mcp.host import McpHost
from tertulia.session.settings.settings import Settings
from tertulia.session.terms import WireCache
from tertulia.session.views import ViewUpdater


class SessionParts(msgspec.Struct, frozen=True, eq=False):
    """What the session, its handles and its operations share."""

    session_id: SessionId
    settings: Settings
    clock: Clock
    timestamps: Timestamps
    bus: EventBus
    journal: Journal
    toolbox: Toolbox
    conversations: Conversations
    scheduler: Scheduler
    registry: TaskRegistry
    nursery: Nursery
    wires: WireCache
    command_services: CommandServices
    agent_registry: AgentRegistry
    servers: SessionServers
    views: ViewUpdater
    mcp_host: McpHost | None = None
    """Where the servers' processes live; None where that is the host's, and outlives this session."""
    closing: dict[ConversationId, asyncio.Task[CloseAnswer]] = {}
    """Conversations that are being closed just now."""
    began_after: int = 0
    """The number of the last event before this life of the session; 0 in the first."""
