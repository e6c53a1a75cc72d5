"""The parts of one session, each made once, by `assembly`, when it is first used; `shutdown` ends them.

Most sessions have no MCP servers, no agents and no executors, and run no command before the model wants one: what they
do not use is not made. Private to this folder: surfaces use the methods of `Session` and `Conversation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from tertulia.scheduler.nursery import Nursery

if TYPE_CHECKING:
    from tertulia.context.project_instructions import ProjectFiles
    from tertulia.conversation.backend import BackendTable
    from tertulia.conversation.toolbox import Toolbox
    from tertulia.events.bus import EventBus
    from tertulia.events.clock import Clock, Timestamps
    from tertulia.events.journal import Journal
    from tertulia.mcp.pool.session_servers import SessionServers
    from tertulia.mcp.rate_limiter import FairLimiter
    from tertulia.models.wire import Wire
    from tertulia.policy.redaction import Redactor
    from tertulia.policy.session_budget import SessionSpending
    from tertulia.protocol.ids import ConversationId, SessionId
    from tertulia.sandbox.availability import SandboxNotice
    from tertulia.scheduler.host_slots import HostSlots
    from tertulia.scheduler.queue import Scheduler
    from tertulia.scheduler.task_runner import TaskRegistry
    from tertulia.session.agents.lifecycle import AgentRegistry
    from tertulia.session.answers import CloseAnswer
    from tertulia.session.board.board_keeper import BoardKeeper
    from tertulia.session.checkpoints.keeper import CheckpointKeeper
    from tertulia.session.command_services import CommandServices
    from tertulia.session.conversations import Conversations
    from tertulia.session.hooks.session_hooks import SessionHooks
    from tertulia.session.mcp.host import McpHost
    from tertulia.session.resume.retention_sweep import RetentionSweeper
    from tertulia.session.settings.environment import Environment
    from tertulia.session.settings.settings import Settings
    from tertulia.session.terms import TermsResolver, WireCache
    from tertulia.session.worktrees.conversation_worktrees import ConversationWorktrees


def _make_registry() -> TaskRegistry:
    # Imported here, and most types above not at all: the name of a class is not yet a session.
    from tertulia.scheduler.task_runner import TaskRegistry

    return TaskRegistry()


class EventFollower(Protocol):
    """Follows the events of a session for a program outside: a collector of traces, a program that notifies."""

    async def follow(self) -> None:
        """Take events until the session ends."""
        ...

    async def close(self, seconds: float) -> None:
        """Take the last events, and tell what is not told yet within this time. Must not raise."""
        ...


class SessionStart(msgspec.Struct, frozen=True):
    """What a session is started with besides its settings."""

    clock: Clock | None = None
    journal: Journal | None = None
    """What keeps its events and items; None: the store of the settings."""
    resumed: str | None = None
    """The id of a stored session that it goes on with."""
    swept: bool = False
    """Whether the caller has removed what is expired."""
    mcp_host: McpHost | None = None
    """Where sessions share MCP servers; None: in its own, closed with it."""
    host_slots: HostSlots | None = None
    """How many tasks the host lets run; None: it sets no limit."""
    agent_servers: bool = True
    """Whether the MCP servers that context providers describe for an agent are started."""
    continue_tasks: bool = False
    """Whether what a crash cut in the stored session goes on, as far as its conversations ask for that."""


class PartMakers(msgspec.Struct, frozen=True):
    """How each part is made from the others."""

    bus: Callable[[SessionParts], EventBus]
    wires: Callable[[SessionParts], WireCache]
    root_wire: Callable[[SessionParts], Wire]
    toolbox: Callable[[SessionParts], Toolbox]
    terms_resolver: Callable[[SessionParts], TermsResolver]
    sweeper: Callable[[SessionParts], RetentionSweeper | None]
    conversations: Callable[[SessionParts], Conversations]
    scheduler: Callable[[SessionParts], Scheduler]
    command_services: Callable[[SessionParts], CommandServices]
    mcp_host: Callable[[SessionParts], McpHost]
    servers: Callable[[SessionParts], SessionServers]
    mcp_limiter: Callable[[SessionParts], FairLimiter]
    agent_registry: Callable[[SessionParts], AgentRegistry]
    backends: Callable[[SessionParts], BackendTable]
    project_files: Callable[[SessionParts], ProjectFiles]
    worktrees: Callable[[SessionParts], ConversationWorktrees]
    checkpoints: Callable[[SessionParts], CheckpointKeeper]


class WorkspaceParts(msgspec.Struct, frozen=True, eq=False, dict=True, kw_only=True):
    """What a session needs where it works with files."""

    settings: Settings
    environment: Environment
    make: PartMakers

    @cached_property
    def worktrees(self) -> ConversationWorktrees:
        """The worktrees of conversations; made with the first one."""
        return self.make.worktrees(cast("SessionParts", self))

    @cached_property
    def no_checkpoints(self) -> str | None:
        """Why files are not recorded in this session; None: they are, where a storage policy allows it."""
        from tertulia.session.settings.checkpoint_table import checkpoints_from_wire, why_no_checkpoints

        return why_no_checkpoints(checkpoints_from_wire(self.settings.checkpoints), self.environment.variables)

    @cached_property
    def checkpoints(self) -> CheckpointKeeper:
        """The checkpoints of the workspace. GitError where there are none."""
        return self.make.checkpoints(cast("SessionParts", self))


class SessionParts(WorkspaceParts, frozen=True, eq=False, dict=True, kw_only=True):
    """What the session, its handles and its operations share. What is not a field is made on first use."""

    session_id: SessionId
    root_id: ConversationId
    clock: Clock
    timestamps: Timestamps
    redactor: Redactor
    journal: Journal
    model: object
    """The session's own model, as `provider/model` or a wire."""
    host: McpHost | None = None
    """The host's pool of MCP servers, which outlives this session; None where the session has its own."""
    host_slots: HostSlots | None = None
    """The host's share of running tasks; None where it sets no limit."""
    starts_agent_servers: bool = True
    """Whether the MCP servers that context providers describe for an agent are started."""
    epoch: int = 0
    """How often the session was resumed."""
    began_after: int = 0
    """The number of the last event before the session was resumed; 0 where it was not."""
    spending: SessionSpending | None = None
    """What all requests to models have used, also before a resume; None where the session has no budget."""
    nursery: Nursery = msgspec.field(default_factory=Nursery)
    registry: TaskRegistry = msgspec.field(default_factory=_make_registry)
    closing: dict[ConversationId, asyncio.Task[CloseAnswer]] = {}
    """Conversations that are being closed just now."""
    followers: list[EventFollower] = []
    at_close: list[Callable[[], object]] = []
    """Called once, when the session begins to close."""

    @property
    def made(self) -> MadeParts:
        """Those of the parts that not every session needs, as far as they were made."""
        return MadeParts(self)

    @cached_property
    def bus(self) -> EventBus:
        """Stamps, commits and delivers every event."""
        return self.make.bus(self)

    @cached_property
    def sandbox_notice(self) -> SandboxNotice:
        """Says where commands are confined less than they could be, or not at all."""
        from tertulia.sandbox.availability import SandboxNotice

        return SandboxNotice(self.settings.sandbox_tier, self.bus.publish)

    @cached_property
    def wires(self) -> WireCache:
        """The connections to models, by conversation."""
        return self.make.wires(self)

    @cached_property
    def root_wire(self) -> Wire:
        """The connection to the session's own model."""
        return self.make.root_wire(self)

    @cached_property
    def toolbox(self) -> Toolbox:
        """All tools, and the lists of them that conversations are offered."""
        return self.make.toolbox(self)

    @cached_property
    def terms_resolver(self) -> TermsResolver:
        """Resolves the terms of conversations."""
        return self.make.terms_resolver(self)

    @cached_property
    def sweeper(self) -> RetentionSweeper | None:
        """Removes what expires while the session runs; None where nothing is stored."""
        return self.make.sweeper(self)

    @cached_property
    def conversations(self) -> Conversations:
        """All conversations, by their ids."""
        return self.make.conversations(self)

    @cached_property
    def scheduler(self) -> Scheduler:
        """Decides which chain runs next."""
        return self.make.scheduler(self)

    @cached_property
    def command_services(self) -> CommandServices:
        """Sandbox, approvals and terminals; made with the first command, approval or client that attends."""
        return self.make.command_services(self)

    @cached_property
    def mcp_host(self) -> McpHost:
        """Where the processes of MCP servers run."""
        return self.make.mcp_host(self)

    @cached_property
    def servers(self) -> SessionServers:
        """The MCP servers; made with the first one that is configured or that an agent brings."""
        return self.make.servers(self)

    @cached_property
    def mcp_limiter(self) -> FairLimiter:
        """Limits the calls to MCP servers; made with the first one."""
        return self.make.mcp_limiter(self)

    @cached_property
    def agent_registry(self) -> AgentRegistry:
        """The agents; made with the first one."""
        return self.make.agent_registry(self)

    @cached_property
    def backends(self) -> BackendTable:
        """The backends besides the native one; made when the settings or a conversation name one."""
        return self.make.backends(self)

    @cached_property
    def hooks(self) -> SessionHooks | None:
        """Asks the programs and functions of the user; None where the settings name none."""
        if not (self.settings.hooks or self.settings.project_hooks):
            return None
        from tertulia.session.hooks.session_hooks import open_hooks

        return open_hooks(
            self.settings,
            self.environment,
            self.clock,
            session_id=self.session_id,
            start=self.nursery.start,
            publish=self.bus.publish,
            storage_of=lambda conversation: self.conversations.find(conversation).storage,
        )

    @cached_property
    def project_files(self) -> ProjectFiles:
        """Reads AGENTS.md; made with the first conversation that is told what it says."""
        return self.make.project_files(self)

    @cached_property
    def board_keeper(self) -> BoardKeeper:
        """The board for clients that come late; made when the first one asks."""
        from tertulia.session.board.board_keeper import BoardKeeper

        return BoardKeeper(self, self.bus, self.conversations)


class MadeParts:
    """What of a session was made so far: None stands for a part that it has had no use for."""

    __slots__ = ("_made",)

    def __init__(self, parts: SessionParts) -> None:
        self._made = parts.__dict__

    @property
    def command_services(self) -> CommandServices | None:
        """Sandbox, approvals and terminals, if there was a use for them."""
        return self._made.get("command_services")

    @property
    def mcp_host(self) -> McpHost | None:
        """The pool of MCP servers, if any was started."""
        return self._made.get("mcp_host")

    @property
    def servers(self) -> SessionServers | None:
        """The MCP servers, if there are any."""
        return self._made.get("servers")

    @property
    def mcp_limiter(self) -> FairLimiter | None:
        """Limits the calls to MCP servers, if there was one."""
        return self._made.get("mcp_limiter")

    @property
    def worktrees(self) -> ConversationWorktrees | None:
        """The worktrees of conversations, if there was one."""
        return self._made.get("worktrees")

    @property
    def checkpoints(self) -> CheckpointKeeper | None:
        """The checkpoints of the workspace, if there was a use for them."""
        return self._made.get("checkpoints")

    @property
    def agent_registry(self) -> AgentRegistry | None:
        """The agents, if there was one."""
        return self._made.get("agent_registry")
