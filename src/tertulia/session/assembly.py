"""From settings to a session: how each part is made from the others. See `members` for the concrete members.

A part is made when it is first used. What can be refused is made at once, before anything is started or published: a
session that cannot be opened leaves no trace.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tertulia.context.surroundings import Lookout
from tertulia.conversation.backend import Backend, BackendTable
from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope, TaskServices
from tertulia.conversation.terms import NATIVE, ConversationContext, Terms, tool_preferences
from tertulia.events.bus import EventBus
from tertulia.events.clock import SystemClock, Timestamps
from tertulia.mcp.view import McpView, NoServers
from tertulia.models.catalog import ModelPrices
from tertulia.models.wire import ChecksSettings, Wire
from tertulia.policy.redaction import Redactor
from tertulia.protocol.conversation_fields import PREFERENCES
from tertulia.protocol.events import SessionConfigured, WarningEvent
from tertulia.protocol.ids import ConversationId, new_conversation_id, new_session_id
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.worktree import WorktreeReport
from tertulia.sandbox.mounts.stubs import sweep_stub_paths, sweep_stubs
from tertulia.sandbox.runner import PROTECTED_NAMES
from tertulia.scheduler.chain_records import ChainRecords
from tertulia.scheduler.handoffs import Handoffs, Occupancy
from tertulia.scheduler.queue import Scheduler
from tertulia.scheduler.task_runner import TaskRunner
from tertulia.session import describe, members
from tertulia.session.checkpoints.task_hooks import before_task, report_missing, task_hooks
from tertulia.session.conversations import Conversations
from tertulia.session.members import ModelCatalogue
from tertulia.session.parts import PartMakers, SessionParts, SessionStart
from tertulia.session.resume.recorded_state import RecordedState
from tertulia.session.resume.retention_sweep import RetentionSweeper, sweep_before_serving
from tertulia.session.resume.store_choice import create_record, open_record, redactor_of, sweeper_of
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings, configured_agents, current_environment, root_model
from tertulia.session.settings.workspace import check_workspace, guarded_paths_of, workspace_of
from tertulia.session.terms import TermsResolver, WireCache
from tertulia.session.views import refresh_at_start, refresh_before_task, server_visibility
from tertulia.version import __version__

if TYPE_CHECKING:
    from tertulia.session.worktrees.conversation_worktrees import ConversationWorktrees

_NO_SERVERS = NoServers()


async def start_session(settings: Settings, start: SessionStart) -> SessionParts:
    """The parts of a new session, or of the stored one that `start` names."""
    clock, environment = start.clock or SystemClock(), current_environment()
    redactor = redactor_of(settings, environment)
    if start.resumed is None:
        # Before anything is swept or stored: a refusal leaves nothing behind.
        check_workspace(settings, environment)
    if start.journal is None and not start.swept:
        await sweep_before_serving(environment.home, settings, clock)
    if start.resumed is None:
        return assemble_session(settings, start, environment=environment, redactor=redactor)
    from tertulia.session.resume.terms_codec import recorded_workspace

    journal, past = await open_record(start.resumed, settings, clock, environment, redactor)
    # The directory of the stored session, not the one that this process was started in.
    cwd = settings.cwd or recorded_workspace(past.conversations[past.identity()[1]].agreed)
    settings = replace(settings, cwd=cwd)
    try:
        check_workspace(settings, environment)
        start = replace(start, journal=journal)
        return assemble_session(settings, start, environment=environment, redactor=redactor, past=past)
    except BaseException:
        await journal.close()
        raise


def assemble_session(
    settings: Settings,
    start: SessionStart,
    *,
    environment: Environment | None = None,
    redactor: Redactor | None = None,
    past: RecordedState | None = None,
) -> SessionParts:
    """A new session, or one of the past. Needs a running loop; waits for nothing."""
    clock, environment = start.clock or SystemClock(), environment or current_environment()
    session_id, root_id = (new_session_id(), new_conversation_id()) if past is None else past.identity()
    redactor = redactor or redactor_of(settings, environment)
    named = root_model(settings) if past is None else settings.model or past.model or None
    model = ModelCatalogue(settings, environment).choose(named)
    parts = SessionParts(
        session_id=session_id,
        root_id=root_id,
        settings=settings,
        environment=environment,
        clock=clock,
        timestamps=Timestamps(clock),
        redactor=redactor,
        journal=start.journal or create_record(settings, session_id, clock, environment, redactor=redactor),
        model=model,
        make=_MAKERS,
        host=start.mcp_host,
        host_slots=start.host_slots,
        starts_agent_servers=start.agent_servers,
        epoch=0 if past is None else past.epoch + 1,
        began_after=0 if past is None else past.last_seq,
        spending=None if settings.budget is None else members.spending_for(settings.budget),
    )
    _refuse_early(parts)
    _begin(parts, past, continues=start.continue_tasks)
    return parts


async def wait_until_ready(parts: SessionParts, *, waits: bool, shows_tools: bool) -> None:
    """Wait for agents of a resumed session, and for its MCP servers where the caller `waits` for those.

    `shows_tools`: for the tools of all servers, not only of those that are required.
    """
    if parts.environment.merges.is_dir():
        from tertulia.session.merging.left_merges import recover_left

        await recover_left(parts)
    if waits:
        await wait_for_servers(parts, required_only=True)
    if any(conversation.terms.agent is not None for conversation in parts.conversations):
        await parts.agent_registry.come_back(parts.conversations)
    if waits and shows_tools:
        await wait_for_servers(parts)


async def wait_for_servers(parts: SessionParts, *, required_only: bool = False) -> None:
    """Wait for the servers that are required, and within their grace for all others."""
    servers = parts.made.servers
    if servers is None:
        return
    await servers.require()
    if not required_only:
        await servers.settle()
        refresh_at_start(parts)


def _refuse_early(parts: SessionParts) -> None:
    """Make or check all that the settings may have wrong."""
    settings = parts.settings
    if parts.environment.names_network or settings.names_network:
        from tertulia.session.settings.network import check_network

        check_network(settings, parts.environment)
    terms_resolver = parts.terms_resolver
    if settings.agent is not None and parts.epoch == 0:
        terms_resolver.for_root()
    if settings.providers:
        _ = parts.agent_registry
    if settings.executors or settings.acp:
        _ = parts.backends
    if settings.telemetry.keys() & {"endpoint", "exporter"}:
        from tertulia.session.tracing.session_tracer import make_tracer

        parts.followers.append(make_tracer(parts))
    if parts.hooks is not None:
        parts.followers.append(parts.hooks)
    if settings.notify:
        from tertulia.session.notifications.notifier import make_notifier

        parts.followers.append(make_notifier(parts))


def _begin(parts: SessionParts, past: RecordedState | None, *, continues: bool) -> None:
    """Publish that the session and its conversations exist. Everything that can be refused was refused before."""
    _sweep_stubs(parts)
    for follower in parts.followers:
        parts.nursery.start(follower.follow(), "follow the events")
    policy, model = describe.policy(parts.settings.rights), parts.root_wire.name
    purpose = "broker" if parts.settings.is_broker else None
    parts.bus.publish(SessionConfigured(parts.root_id, describe.PROTOCOL_VERSION, __version__, model, policy, purpose))
    if past is None:
        parts.conversations.begin()
    else:
        from tertulia.session.resume.close_open import restore_session

        restore_session(parts, past, continues=continues)
    root = parts.conversations.root
    for conflict in parts.toolbox.offered(root.terms, root.terms.rights).conflicts:
        parts.bus.publish(WarningEvent(conflict, "tool_conflict"))
    parts.sandbox_notice.begin(parts.settings.rights, parts.nursery.start)
    if parts.sweeper is not None:
        parts.nursery.start(parts.sweeper.run(), "sweeper")
    if parts.settings.mcp_servers or parts.settings.project_servers:
        _start_servers(parts)
    if parts.settings.checkpoints:
        report_missing(parts)


def _sweep_stubs(parts: SessionParts) -> None:
    """Remove the mount stubs that killed processes have left."""
    guarded = guarded_paths_of(parts.settings, parts.environment)
    for writable in (workspace_of(parts.settings), *(parts.settings.writable_roots or ())):
        sweep_stubs(writable, PROTECTED_NAMES)
        sweep_stub_paths(writable, (*guarded.masked_paths(), *guarded.protected_paths([writable])))


def _start_servers(parts: SessionParts) -> None:
    from tertulia.mcp.pool.session_servers import IdleServers
    from tertulia.session.mcp.configured_servers import configured_servers
    from tertulia.session.mcp.host import server_candidates

    listed = configured_servers(parts.settings, parts.environment)
    for warning in listed.warnings:
        parts.bus.publish(WarningEvent(warning, "mcp_servers"))
    idle = IdleServers(parts.servers.members, parts.clock, server_visibility(parts.conversations))
    parts.nursery.start(idle.watch(), "idle servers")
    parts.servers.begin(server_candidates(listed, parts.settings, parts.environment))


# ── the parts ────────────────────────────────────────────────────────────────────────────────────────────────


def _bus(parts: SessionParts) -> EventBus:
    return EventBus(
        parts.session_id,
        parts.clock,
        parts.journal,
        epoch=parts.epoch,
        last_seq=parts.began_after,
        clean=parts.redactor.event_cleaner(),
        clean_text=parts.redactor.text_without_tokens,
        knows_tool=parts.toolbox.knows,
    )


def _wires(parts: SessionParts) -> WireCache:
    catalogue = ModelCatalogue(parts.settings, parts.environment, parts.redactor.register)
    return WireCache(catalogue.find, parts.nursery)


def _root_wire(parts: SessionParts) -> Wire:
    return parts.wires.find(parts.model)


def _terms_resolver(parts: SessionParts) -> TermsResolver:
    settings, wire, rights = parts.settings, parts.root_wire, parts.settings.defaults
    tools = tool_preferences(rights, wire, settings.shell_mode, settings.tool_profile)
    context = ConversationContext(None, None, McpView(), tools)
    cwd = os.path.abspath(settings.cwd or ".")
    preferences = {name: getattr(settings, name) for name in PREFERENCES}
    preferences |= {"unattended": settings.unattended, "fallback_models": settings.fallback_models}
    terms = Terms(context, rights, wire, NATIVE, cwd, **preferences)
    if isinstance(wire, ChecksSettings):
        wire.check_settings(terms.model_settings)
    return TermsResolver(
        terms,
        settings.rights,
        wires=parts.wires,
        toolbox=parts.toolbox,
        mcp=lambda: parts.made.servers or _NO_SERVERS,
        skip_conflicts=settings.on_tool_conflict == "skip",
        backends=lambda: parts.backends.can_ask,
        sandboxes=lambda: parts.backends.sandboxes,
        agents=partial(configured_agents, settings),
        root_agent=settings.agent,
        budget=parts.spending and parts.spending.budget,
        has_price=ModelPrices(settings.model_prices).is_known if parts.spending else bool,
    )


def _sweeper(parts: SessionParts) -> RetentionSweeper | None:
    def policies() -> list[StoragePolicy]:
        return [conversation.storage for conversation in parts.conversations]

    return sweeper_of(parts.journal, parts.settings, parts.clock, policies)


def _conversations(parts: SessionParts) -> Conversations:
    def dismiss_agent(conversation: ConversationId) -> None:
        if (agents := parts.made.agent_registry) is not None:
            agents.dismiss(conversation)

    return Conversations(
        parts.root_id,
        parts.terms_resolver,
        bus=parts.bus,
        clock=parts.clock,
        journal=parts.journal,
        on_gone=dismiss_agent,
        on_storage=lambda policy: None if parts.sweeper is None else parts.sweeper.hear(policy),
        project=partial(_read_project, parts),
        look=partial(_look_around, Lookout(parts.clock, parts.environment.variables)),
    )


def _look_around(lookout: Lookout, terms: Terms, before: str | None) -> Terms:
    """The terms with what a conversation is told of where it works, if it is new there. Executors look themselves."""
    if terms.cwd == before or terms.backend != NATIVE:
        return terms
    return replace(terms, surroundings=lookout.look(terms.cwd))


def _read_project(parts: SessionParts, conversation: ConversationState) -> tuple[str, Sequence[str]]:
    """What files of its project say to a conversation, and warnings. Executors read such files themselves."""
    terms = conversation.terms
    if not terms.project_instructions or terms.backend != NATIVE or parts.settings.is_broker:
        return "", ()
    return parts.project_files.read(terms.cwd, terms.worktree)


def _refresh_project(parts: SessionParts, scope: TaskScope) -> None:
    """Between two tasks: tell the conversation what has changed in the files."""
    if scope.conversation.terms.backend == NATIVE:
        text, warnings = _read_project(parts, scope.conversation)
        scope.conversation.hear_project(text)
        for warning in warnings:
            scope.publish(WarningEvent(warning, "project_instructions"))


async def _make_ready(parts: SessionParts, scope: TaskScope) -> None:
    """Before a task: what its conversation works with is brought up to date."""
    if scope.conversation.terms.worktree is not None:
        await parts.worktrees.ready(scope.conversation)
    if (agents := parts.made.agent_registry) is not None:
        await agents.refresh(scope.conversation)
    _refresh_project(parts, scope)
    if parts.made.servers is not None:
        await refresh_before_task(parts, scope)
    await before_task(parts, scope)


async def _report_worktree(parts: SessionParts, scope: TaskScope) -> WorktreeReport | None:
    if parts.made.worktrees is None:
        return None
    return await parts.worktrees.report(scope.conversation, scope.task_id)


def _scheduler(parts: SessionParts) -> Scheduler:
    settings, bus, clock, nursery = parts.settings, parts.bus, parts.clock, parts.nursery
    conversations, occupancy, grace = parts.conversations, Occupancy(), settings.close_timeout_s
    environment = dict(settings.shell_environment)

    def expect_approver(conversation_id: ConversationId) -> AbstractContextManager[object]:
        return nullcontext() if settings.unattended else parts.command_services.approvals.attended(conversation_id)

    hooks = partial(_make_ready, parts), partial(_report_worktree, parts), expect_approver
    spending = ModelPrices(settings.model_prices).cost, parts.wires.shared, parts.spending
    services = TaskServices(
        bus, clock, parts.toolbox, settings.tool_timeout_s, environment, *hooks, *spending, *task_hooks(parts)
    )
    records = ChainRecords(conversations, bus, clock, parts.journal.keep, parts.root_id)
    handoffs = Handoffs(conversations, bus, clock, occupancy, records)

    def find_backend(conversation: ConversationState) -> Backend:
        return parts.backends.find(conversation)

    runner = TaskRunner(conversations, services, nursery, parts.registry, handoffs, grace, find_backend=find_backend)
    all_slots = parts.host_slots
    return Scheduler(
        runner, handoffs, occupancy, bus, clock, nursery, grace_s=grace, slots=settings.slots, host_slots=all_slots
    )


def _worktrees(parts: SessionParts) -> ConversationWorktrees:
    from tertulia.session.worktrees.conversation_worktrees import ConversationWorktrees

    masked = [mask.path for mask in guarded_paths_of(parts.settings, parts.environment).masks]
    id, place = parts.session_id, parts.environment
    return ConversationWorktrees(id, place, parts.bus, lambda: parts.conversations, masked=masked)


def _backends(parts: SessionParts) -> BackendTable:
    from tertulia.session.agents.backends import backends_for

    return backends_for(parts)


_MAKERS = PartMakers(
    bus=_bus,
    wires=_wires,
    root_wire=_root_wire,
    toolbox=members.toolbox_for,
    terms_resolver=_terms_resolver,
    sweeper=_sweeper,
    conversations=_conversations,
    scheduler=_scheduler,
    command_services=members.command_services_for,
    mcp_host=members.mcp_host_for,
    servers=members.servers_for,
    mcp_limiter=members.mcp_limiter_for,
    agent_registry=members.agent_registry_for,
    backends=_backends,
    project_files=members.project_files_for,
    worktrees=_worktrees,
    checkpoints=members.checkpoints_for,
)
