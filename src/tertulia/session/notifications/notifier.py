"""Follows the events of a session and delivers notifications, one after another, for as long as the session runs.

It never holds up a task: what cannot be delivered in time is dropped, and a warning says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping

from tertulia.errors import ClosedError, TertuliaError
from tertulia.events.bus import EventBus
from tertulia.events.clock import Clock
from tertulia.policy.display_text import visible
from tertulia.policy.redaction import Redactor
from tertulia.policy.shell_environment import ShellEnvironment
from tertulia.protocol.events import Event, WarningEvent
from tertulia.protocol.storage import Full
from tertulia.sandbox.runner import Command, CommandResult, Confinement
from tertulia.sandbox.sandbox import Sandbox
from tertulia.session.conversations import Conversations
from tertulia.session.notifications.notification import TYPES, Notification, NotificationFold
from tertulia.session.notifications.notify_table import NotifyTable, notify_from_wire
from tertulia.session.parts import SessionParts
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.workspace import workspace_of

MOST_WAITING = 100
"""Notifications that wait while one is delivered; the oldest is dropped for the next."""
_MOST_SHOWN = 200
_log = logging.getLogger(__name__)


class NotifyError(Exception):
    """A notification was not delivered; the text says why, for the user."""


class Notifier:
    """The notifications of one session."""

    def __init__(
        self,
        table: NotifyTable,
        bus: EventBus,
        conversations: Conversations,
        redactor: Redactor,
        *,
        clock: Clock,
        environment: Environment,
        cwd: str,
    ) -> None:
        self._table = table
        self._bus = bus
        self._conversations = conversations
        self._directory = str(environment.user_home)
        self._token = environment.variables.get(table.bearer_token_env_var or "", "").strip()
        redactor.register(self._token)
        # As a program that the user starts: with their display and session bus, and without keys.
        self._variables: Mapping[str, str] = ShellEnvironment(inherit="all").build(environment.variables)
        self._redact = redactor.text
        self._fold = NotificationFold(cwd)
        self._taken = bus.last_seq
        self._waiting: deque[Notification] = deque(maxlen=MOST_WAITING)
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._warned: str | None = None
        # Of its own: that of the session ends before the last task is told.
        self._runner = Sandbox(clock=clock)

    async def follow(self) -> None:
        """Take events and deliver notifications until the session ends."""
        await asyncio.gather(self._listen(), self._deliver())

    async def _listen(self) -> None:
        async with self._bus.subscribe(after=self._taken, background=True, passing=False, types=TYPES) as events:
            async for event in events:
                self._take(event)

    async def _deliver(self) -> None:
        while not self._closing:
            while self._waiting and not self._closing:
                self._idle.clear()
                try:
                    await self._deliver_one(self._waiting.popleft())
                finally:
                    self._idle.set()
            self._news.clear()
            await self._news.wait()

    async def close(self, seconds: float) -> None:
        """Take the last events, and deliver what waits within this time."""
        _, last = self._bus.recent_events(self._taken)
        for event in last:
            self._take(event)
        self._closing = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
                while self._waiting:
                    await self._deliver_one(self._waiting.popleft())
        except TimeoutError:
            _log.warning("notify: %d notifications were not delivered before the session closed", len(self._waiting))
        finally:
            await self._runner.close()

    def _take(self, event: Event) -> None:
        if event.seq is None or event.seq <= self._taken:
            return
        self._taken = event.seq
        notification = self._fold.take(event)
        if notification is None or notification.type not in self._table.on:
            return
        if len(self._waiting) == MOST_WAITING:
            self._warn(f"more than {MOST_WAITING} wait to be delivered, older ones are dropped")
        # Where texts must not leave the process, there are none.
        tells = self._redact if self._table.content and self._all_stored() else _nothing
        self._waiting.append(notification.with_texts(tells))
        self._news.set()

    def _all_stored(self) -> bool:
        """Whether texts may leave the process: one conversation with a stricter policy may be quoted in any other."""
        return all(isinstance(conversation.storage, Full) for conversation in self._conversations)

    async def _deliver_one(self, notification: Notification) -> None:
        try:
            if self._table.command:
                await self._run_program(notification)
            if self._table.url is not None:
                await self._post(self._table.url, notification)
        except NotifyError as error:
            self._warn(str(error))
        else:
            self._warned = None

    async def _run_program(self, notification: Notification) -> None:
        table = self._table
        encoded = notification.json(as_codex=table.as_codex)
        command = Command(
            argv=(*table.command, encoded.decode()) if table.as_codex else table.command,
            # Not in the workspace: what lies there could take the place of what the program loads.
            cwd=self._directory,
            confinement=Confinement(mode="danger_full_access"),
            environment=self._variables,
            stdin=b"" if table.as_codex else encoded + b"\n",
            kept_output_bytes=4_096,
            pid_namespace=False,
        )
        name = visible(table.command[0])[:_MOST_SHOWN]
        try:
            finished = await self._runner.run(command, timeout_s=table.timeout_s)
        except TertuliaError as error:
            raise NotifyError(f"the program {name} cannot be started: {error.message}") from None
        if (reason := _failure(finished, table.timeout_s)) is not None:
            raise NotifyError(f"the program {name} {reason}")

    async def _post(self, url: str, notification: Notification) -> None:
        # Loaded where an address is set: most sessions have none.
        from tertulia.session.notifications.webhook import post_notification

        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        failure = await post_notification(url, notification.json(as_codex=False), headers, self._table.timeout_s)
        if failure is not None:
            raise NotifyError(failure)

    def _warn(self, reason: str) -> None:
        """Say once what does not work, until it has worked again."""
        if reason == self._warned:
            return
        self._warned = reason
        try:
            self._bus.publish(WarningEvent(f"A notification was not delivered: {reason}", "notify"))
        except ClosedError:
            _log.warning("notify: %s", reason)


def make_notifier(parts: SessionParts) -> Notifier:
    """The notifier that the settings of a session describe."""
    return Notifier(
        notify_from_wire(parts.settings.notify),
        parts.bus,
        parts.conversations,
        parts.redactor,
        clock=parts.clock,
        environment=parts.environment,
        cwd=workspace_of(parts.settings),
    )


def _nothing(_text: str) -> None:
    return None


def _failure(finished: CommandResult, timeout_s: float) -> str | None:
    """Why the program has not done it, or None."""
    if finished.ended == "timeout":
        return f"took longer than {timeout_s:g} s and was ended"
    if finished.ended == "not_started":
        return f"could not be started: {finished.reason}"
    if finished.exit_code == 0:
        return None
    lines = visible(finished.output.text(), lines=True).strip().splitlines()
    last = f": {lines[-1][:_MOST_SHOWN]}" if lines else ""
    return f"ended with {finished.exit_code}{last}"
