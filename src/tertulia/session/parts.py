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
from tertulia.session.agency import Agency
from tertulia.session.answers import ClosedAnswer
from tertulia.session.conversations import Conversations
from tertulia.session.servers import Basement
from tertulia.session.settings import Settings
from tertulia.session.views import Views
from tertulia.session.wires import WireShelf
from tertulia.session.workshop import Workshop


class Parts(msgspec.Struct, frozen=True, eq=False):
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
    wires: WireShelf
    workshop: Workshop
    agency: Agency
    servers: SessionServers
    views: Views
    basement: Basement | None = None
    """Where the servers' processes live; None where that is the host's, and outlives this session."""
    closing: dict[ConversationId, asyncio.Task[ClosedAnswer]] = {}
    """Conversations that are being closed just now."""
    began_after: int = 0
    """The number of the last event before this life of the session; 0 in the first."""
