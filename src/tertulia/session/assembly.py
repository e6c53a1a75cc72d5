"""From settings to a session: every part made once, connected, and told what it needs. See `members` for who is who."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import TYPE_CHECKING

from tertulia.conversation.task_scope import TaskServices
from tertulia.conversation.terms import ConversationContext, Terms, tool_preferences
from tertulia.conversation.toolbox import Toolbox
from tertulia.events.bus import EventBus
from tertulia.events.clock import Clock, SystemClock, Timestamps
from tertulia.events.journal import Journal
from tertulia.mcp.pool.session_servers import IdleServers, SessionServers
from tertulia.mcp.view import McpView
from tertulia.models.wire import Wire
from tertulia.policy.redaction import Redactor
from tertulia.protocol.events import SessionConfigured, WarningEvent
from tertulia.protocol.ids import ConversationId, new_conversation_id, new_session_id
from tertulia.scheduler.handoffs import Handoffs
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.queue import Scheduler
from tertulia.scheduler.task_registry import TaskRegistry
from tertulia.scheduler.task_runner import TaskRunner
from tertulia.session import describe
from tertulia.session.command_services import CommandServices, open_command_services
from tertulia.session.conversation_directory import ConversationDirectory
from tertulia.session.conversations import Conversations
from tertulia.session.mcp.configured_servers import ConfiguredServers, configured_servers
from tertulia.session.mcp.host import McpHost, server_candidates
from tertulia.session.members import ModelCatalogue, SessionFoundation, agent_registry_for, remote_tools, toolbox_for
from tertulia.session.parts import SessionParts
from tertulia.session.resume.close_open import close_open_work
from tertulia.session.resume.rebuild import ConversationRestorer
from tertulia.session.resume.recorded_state import RecordedState
from tertulia.session.resume.store_choice import create_record, redactor_of, start_sweeper
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.session.terms import TermsResolver, WireCache
from tertulia.session.views import ViewUpdater
from tertulia.version import __version__

if TYPE_CHECKING:
    from tertulia.session.agents.backends import Backends


def assemble_session(
    settings: Settings,
    *,
    clock: Clock | None = None,
    journal: Journal | None = None,
    environment: Environment | None = None,
    past: RecordedState | None = None,
    mcp_host: McpHost | None = None,
    redactor: Redactor | None = None,
    agent_servers: bool = True,
) -> SessionParts:
    """All parts of a new session, or of one of the past. Needs a running loop; waits for nothing."""
    base = _foundation(settings, clock, journal, environment, past, redactor)
    bus, nursery, (wires, model, notice) = base.bus, base.nursery, _models(base, past)
    directory, registry = ConversationDirectory(), TaskRegistry()
    command_services = open_command_services(settings, base.environment, base.clock, bus, base.redactor)
    # What may be refused comes first: nothing was started yet.
    wire, below = wires.find(model), mcp_host or McpHost(settings, base.environment, base.clock, nursery)
    servers = SessionServers(below.pool, base.session_id, base.clock, bus.publish)
    agent_registry = agent_registry_for(base, servers, command_services, starts_servers=agent_servers)
    remote = remote_tools(base, servers, agent_registry, command_services, below.in_flight)
    toolbox = toolbox_for(settings, directory, command_services, remote)
    backends = _backends(base, command_services)
    terms_resolver = _terms_resolver(settings, wires, wire, toolbox, servers, backends)
    views = ViewUpdater(servers, terms_resolver, bus, agent_registry)
    conversations = _conversations(base, terms_resolver, agent_registry.dismiss)
    parts = SessionParts(
        session_id=base.session_id,
        settings=settings,
        clock=base.clock,
        timestamps=Timestamps(base.clock),
        bus=bus,
        journal=base.journal,
        toolbox=toolbox,
        conversations=conversations,
        scheduler=_scheduler(base, conversations, toolbox, registry, views, backends),
        registry=registry,
        nursery=nursery,
        wires=wires,
        command_services=command_services,
        agent_registry=agent_registry,
        servers=servers,
        views=views,
        mcp_host=below if mcp_host is None else None,
        began_after=0 if past is None else past.last_seq,
    )
    directory.serve(parts)
    backends.tool_servers.serve(parts)
    _announce_session(base, parts, terms_resolver, past, notice)
    return parts


def _conversations(
    base: SessionFoundation, terms_resolver: TermsResolver, on_gone: Callable[[ConversationId], None]
) -> Conversations:
    return Conversations(
        base.root_id, terms_resolver, bus=base.bus, clock=base.clock, journal=base.journal, on_gone=on_gone
    )


def _models(base: SessionFoundation, past: RecordedState | None) -> tuple[WireCache, object, str | None]:
    """The session's wires, which model it speaks with, and a sentence where the user named none."""
    models = ModelCatalogue(base.settings, base.environment)
    model, notice = models.choose(base.settings.model or (past.model if past else None) or None)
    return WireCache(models.find, base.nursery), model, notice


def _foundation(
    settings: Settings,
    clock: Clock | None,
    journal: Journal | None,
    environment: Environment | None,
    past: RecordedState | None,
    redactor: Redactor | None,
) -> SessionFoundation:
    clock = clock or SystemClock()
    environment = environment or current_environment()
    session_id, root_id = (new_session_id(), new_conversation_id()) if past is None else past.identity()
    redactor = redactor or redactor_of(settings, environment)
    journal = journal or create_record(settings, session_id, clock, environment, redactor=redactor)
    epoch, last_seq = (0, 0) if past is None else (past.epoch + 1, past.last_seq)
    bus = EventBus(session_id, clock, journal, epoch=epoch, last_seq=last_seq)
    return SessionFoundation(session_id, root_id, settings, environment, clock, redactor, journal, bus, Nursery())


def _configured_servers(base: SessionFoundation) -> ConfiguredServers:
    listed = configured_servers(base.settings, base.environment)
    for warning in listed.warnings:
        base.bus.publish(WarningEvent(warning, "mcp_servers"))
    return listed


def _announce_session(
    base: SessionFoundation,
    parts: SessionParts,
    terms_resolver: TermsResolver,
    past: RecordedState | None,
    notice: str | None,
) -> None:
    """Say that the session is there, and who is in it. Whatever can be refused was refused before: it left no trace."""
    parts.bus.metrics.knows = parts.toolbox.knows
    root_id = parts.conversations.root_id
    policy = describe.policy(parts.settings.rights())
    model = terms_resolver.default.wire.name
    parts.bus.publish(SessionConfigured(root_id, describe.PROTOCOL_VERSION, __version__, model, policy))
    if past is None:
        parts.conversations.begin()
    else:
        _restore(parts, past, terms_resolver)
    _announce(parts, notice)
    parts.nursery.start(parts.command_services.approvals.keep_clean(), "approvals")
    idle = IdleServers(parts.servers.members, parts.clock, parts.views.sees(parts.conversations))
    parts.nursery.start(idle.watch(), "idle servers")
    start_sweeper(parts)
    parts.servers.begin(server_candidates(_configured_servers(base), parts.settings, base.environment))


def _backends(base: SessionFoundation, command_services: CommandServices) -> Backends:
    # Here, because every other agent that there is comes with it: a program that only imports us has no use for them.
    from tertulia.session.agents.backends import backends_for

    return backends_for(base.settings, base.environment, command_services, base.nursery)


def _terms_resolver(
    settings: Settings, wires: WireCache, wire: Wire, toolbox: Toolbox, servers: SessionServers, backends: Backends
) -> TermsResolver:
    return TermsResolver(
        _default_terms(settings, wire),
        settings.rights(),
        wires=wires,
        toolbox=toolbox,
        mcp=servers,
        skip_conflicts=settings.on_tool_conflict == "skip",
        backends=backends.can_ask,
        sandboxes=backends.sandboxes,
    )


def _scheduler(
    base: SessionFoundation,
    conversations: Conversations,
    toolbox: Toolbox,
    registry: TaskRegistry,
    views: ViewUpdater,
    backends: Backends,
) -> Scheduler:
    settings, bus, clock, nursery = base.settings, base.bus, base.clock, base.nursery
    grace = settings.close_timeout_s
    environment = dict(settings.shell_environment)
    around = TaskServices(bus, clock, toolbox, settings.tool_timeout_s, environment, views.make_ready)
    interrupts = Handoffs(conversations, bus, clock)
    runner = TaskRunner(conversations, around, nursery, registry, interrupts, grace, find_backend=backends.find)
    return Scheduler(runner, interrupts, bus, clock, nursery, grace)


def _restore(parts: SessionParts, past: RecordedState, terms_resolver: TermsResolver) -> None:
    restored = list(ConversationRestorer(past, terms_resolver, parts.clock, parts.journal).conversations())
    for entry in restored:
        parts.conversations.restore(entry.conversation, entry.narrowed)
    for old in past.conversations.values():
        if old.drawn is not None:
            parts.agent_registry.remember(old.drawn)
        if parts.conversations.peek(old.id) is None:
            parts.conversations.gone.add(old.id)
    close_open_work(parts, past, restored)


def _default_terms(settings: Settings, wire: Wire) -> Terms:
    rights = settings.defaults()
    context = ConversationContext(None, None, McpView(), tool_preferences(rights, settings.shell_mode, wire.family))
    cwd = os.path.abspath(settings.cwd or ".")
    return Terms(context, rights, wire, "native", cwd, settings.shell_mode)


def _announce(parts: SessionParts, notice: str | None) -> None:
    root = parts.conversations.root
    if notice is not None:
        parts.bus.publish(WarningEvent(notice, "no_model"))
    for conflict in parts.toolbox.offered(root.terms, root.terms.rights).conflicts:
        parts.bus.publish(WarningEvent(conflict, "tool_conflict"))
