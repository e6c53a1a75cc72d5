"""What commands and approvals of one session need, made and closed together: sandbox, queue, approvers, terminals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import msgspec

from tertulia.errors import ClosedError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.events.subscription import Subscription
from tertulia.policy.approval_policy import ApprovalPolicy
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.approvals.approval_request import RequestedAction
from tertulia.policy.approvals.project_grants import GrantsFile, ProjectGrants
from tertulia.policy.redaction import Redactor
from tertulia.policy.shell_environment import shell_environment_from_wire
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId
from tertulia.sandbox.runner import CommandRunner
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.approvals.elicitations import Elicitations
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.workspace import guarded_paths_of, workspace_of
from tertulia.tools.command_environment import CommandEnvironment, describe_environment_policy
from tertulia.tools.network.services import NetworkServices
from tertulia.tools.shell.live_command import Terminals

if TYPE_CHECKING:
    from tertulia.sandbox.proxy.rules_gate import Start
    from tertulia.session.hooks.session_hooks import SessionHooks


class ApproverPresence:
    """The clients that have said that they answer approvals. A client that only follows events does not count.

    A request shows in its own conversation and in those that wait for it, the root of its chain among them.
    """

    def __init__(self) -> None:
        self._notify: Callable[[], object] | None = None
        self._attending: WeakKeyDictionary[Subscription, tuple[ConversationId | None, bool]] = WeakKeyDictionary()

    def add(
        self, subscription: Subscription, conversation: ConversationId | None, *, elicitations: bool = True
    ) -> None:
        """Count this subscription's client as one that answers, until it is closed or collected. None: everywhere.

        `elicitations`: whether it answers as well what MCP servers ask a person.
        """
        self._attending[subscription] = (conversation, elicitations)
        if self._notify is not None:
            subscription.when_closed(self._notify)

    def when_one_leaves(self, notify: Callable[[], object]) -> None:
        """Call this whenever a client that answers has gone: of those that come from now on."""
        self._notify = notify

    def sees(self, request: RequestedAction, elicitation: bool = False) -> bool:
        """Whether there is a client that gets this request's event and can answer a request of this kind."""
        shown = (None, request.conversation_id, *request.chain)
        attending = [(events, *where) for events, where in self._attending.items()]
        return any(events.is_open and where in shown and (e or not elicitation) for events, where, e in attending)


class ConversationResource(Protocol):
    """Keeps something for conversations until they are closed."""

    async def forget(self, conversation: Any, /) -> None:
        """Release what is kept for this conversation. Calling it twice has no effect."""
        ...

    async def close(self) -> None:
        """Release what was kept for all conversations."""
        ...


class ConversationResources:
    """All that a session keeps for its conversations."""

    def __init__(self) -> None:
        self._all: list[ConversationResource] = []
        self._agents: dict[str, ConversationResource] = {}

    def add(self, resource: ConversationResource, backend: str | None = None) -> None:
        """Add a resource. `backend`: the backend that it belongs to, if it belongs to one."""
        self._all.append(resource)
        if backend is not None:
            self._agents[backend] = resource

    async def forget(self, conversation: str) -> None:
        """Release what was kept for a conversation that is closed."""
        await asyncio.gather(*(resource.forget(conversation) for resource in self._all))

    async def take_leave(self, conversation: str, backend: str) -> None:
        """The conversation has another backend now: release the resources of the former one."""
        if backend in self._agents:
            await self._agents[backend].forget(conversation)

    async def close(self) -> None:
        """Release everything: the session is closed."""
        await asyncio.gather(*(resource.close() for resource in self._all))


class CommandServices(msgspec.Struct, frozen=True, eq=False):
    """The sandbox, approvals and terminals of a session; its conversations share them."""

    sandbox: CommandRunner
    approvals: ApprovalQueue
    elicitations: Elicitations
    presence: ApproverPresence
    terminals: Terminals
    place: CommandEnvironment
    resources: ConversationResources

    async def forget(self, conversation: ConversationId) -> None:
        """A conversation is closed: nothing of it waits, runs, or is allowed any more."""
        self.approvals.forget(conversation)
        self.elicitations.forget(conversation)
        await self.resources.forget(conversation)
        await self.terminals.forget(conversation)

    async def close(self) -> None:
        """The session is closed: nothing runs any more."""
        self.approvals.close()
        self.elicitations.close()
        try:
            await self.resources.close()
            await self.terminals.close()
        finally:
            await self.sandbox.close()


def open_command_services(
    settings: Settings,
    environment: Environment,
    clock: Clock,
    bus: EventBus,
    redactor: Redactor,
    *,
    on_lesser: Callable[[str], object],
    policy_source: Callable[[RequestedAction, ApprovalPolicy], str],
    start: Start,
    commit_answer: Callable[[RequestedAction], Awaitable[None]],
    hooks: SessionHooks | None = None,
) -> CommandServices:
    """Make it. `start` runs the connections of commands.

    The sandbox tests itself at the first command, and may find then that only a weaker tier works.
    """
    presence = ApproverPresence()
    make_queue = ApprovalQueue if hooks is None else hooks.queue
    approvals = make_queue(
        clock,
        timeout_s=settings.approval_timeout_s,
        default_ttl_s=settings.approval_ttl_s,
        is_seen=presence.sees,
        unattended=settings.unattended,
        project=_project_grants(settings, environment, clock, redactor),
        set_by=policy_source,
        committed=commit_answer,
    )
    if settings.unattended:
        # Such a run goes on by itself as soon as the last client that could answer has gone.
        presence.when_one_leaves(approvals.refuse_unheard)
    sandbox = Sandbox(tier=settings.sandbox_tier, clock=clock, on_lesser=on_lesser)
    publish, resources = _event_publisher(bus), ConversationResources()
    policy = shell_environment_from_wire(settings.shell_environment)
    network = NetworkServices(start, publish)
    resources.add(network)
    place = CommandEnvironment(
        runner=sandbox,
        approvals=approvals,
        root=workspace_of(settings),
        guarded=guarded_paths_of(settings, environment),
        environment=policy.build(environment.variables),
        environment_policy=describe_environment_policy(policy),
        timeout_s=settings.tool_timeout_s,
        network=network,
        copies=str(environment.home / "changed-files"),
    )
    elicitations = Elicitations(timeout_s=settings.approval_timeout_s)
    return CommandServices(sandbox, approvals, elicitations, presence, Terminals(publish), place, resources)


def _project_grants(
    settings: Settings, environment: Environment, clock: Clock, redactor: Redactor
) -> ProjectGrants | None:
    if not settings.project_grant_ttl_s or settings.is_broker:
        return None
    file = GrantsFile(environment.home, clock)
    file.sweep()
    ttl_s, redact = settings.project_grant_ttl_s, redactor.text
    return ProjectGrants(file, workspace_of(settings), clock, ttl_s=ttl_s, redact=redact)


def _event_publisher(bus: EventBus) -> Callable[[ConversationId, EventData], None]:
    def tell(conversation: ConversationId, data: EventData) -> None:
        try:
            bus.publish(data, EventScope("", conversation))
        except ClosedError:
            # The session is closed: no client is left to be told.
            return

    return tell
