"""What the commands of one session need, made together and closed together: sandbox, approval desk, terminals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from tertulia.errors import ClosedError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.shell_environment import shell_environment_from_wire
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.sandbox.mounts.stubs import sweep_stub_paths, sweep_stubs
from tertulia.sandbox.runner import PROTECTED_NAMES, CommandRunner
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.attendance import Attendance
from tertulia.session.elicitations import Elicitations
from tertulia.session.environment import Environment
from tertulia.session.guarded_home import guarded_of, workspace_of
from tertulia.session.guests import Guests
from tertulia.session.settings import Settings
from tertulia.tools.command_environment import CommandEnvironment, describe_environment_policy
from tertulia.tools.shell.live_command import Terminals


class Workshop(msgspec.Struct, frozen=True, eq=False):
    """Belongs to the session; no conversation has one of its own."""

    sandbox: CommandRunner
    desk: ApprovalQueue
    elicitations: Elicitations
    attendance: Attendance
    terminals: Terminals
    place: CommandEnvironment
    guests: Guests

    async def forget(self, conversation: ConversationId) -> None:
        """A conversation is closed: nothing of it waits, runs, or is allowed any more."""
        self.desk.forget(conversation)
        self.elicitations.forget(conversation)
        await self.guests.forget(conversation)
        await self.terminals.forget(conversation)

    async def close(self) -> None:
        """The session is closed: nothing runs any more."""
        self.desk.close()
        self.elicitations.close()
        try:
            await self.guests.close()
            await self.terminals.close()
        finally:
            await self.sandbox.close()


def open_workshop(settings: Settings, environment: Environment, clock: Clock, bus: EventBus) -> Workshop:
    """Ready, and nothing tried yet: the sandbox tests itself when the first command comes."""
    attendance = Attendance()
    desk = ApprovalQueue(
        clock,
        timeout_s=settings.approval_timeout_s,
        default_ttl_s=settings.approval_ttl_s,
        is_seen=attendance.sees,
    )
    sandbox = Sandbox(tier=settings.sandbox_tier, clock=clock, on_lesser=_warner(bus))
    policy = shell_environment_from_wire(settings.shell_environment)
    root, guarded = workspace_of(settings), guarded_of(settings, environment)
    for writable in (root, *(settings.writable_roots or ())):
        # What a process that was killed could not take away itself.
        sweep_stubs(writable, PROTECTED_NAMES)
        sweep_stub_paths(writable, (*guarded.masked_paths(), *guarded.protected_paths([writable])))
    place = CommandEnvironment(
        runner=sandbox,
        desk=desk,
        root=root,
        guarded=guarded,
        environment=policy.build(environment.variables),
        environment_policy=describe_environment_policy(policy),
        timeout_s=settings.tool_timeout_s,
        copies=str(environment.home / "changed-files"),
    )
    elicitations = Elicitations(timeout_s=settings.approval_timeout_s)
    return Workshop(sandbox, desk, elicitations, attendance, Terminals(_teller(bus)), place, Guests())


def _warner(bus: EventBus) -> Callable[[str], None]:
    def warn(message: str) -> None:
        with suppress(ClosedError):
            bus.publish(WarningEvent(message, "sandbox_tier"))

    return warn


def _teller(bus: EventBus) -> Callable[[ConversationId, EventData], None]:
    def tell(conversation: ConversationId, data: EventData) -> None:
        try:
            bus.publish(data, EventScope("", conversation))
        except ClosedError:
            # Nobody is left who could hear it.
            return

    return tell
