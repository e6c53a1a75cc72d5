"""The one way in which a tool starts a command: its begin, its output and its end are published as events."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from itertools import count

from msgspec.structs import replace

from tertulia.errors import LimitError, NotFoundError, SandboxError
from tertulia.policy.display_text import visible
from tertulia.protocol.conversation_fields import sandbox_to_wire
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import CallId, ConversationId, new_item_id
from tertulia.protocol.tool_events import Decider, ExecCommandBegin, ExecCommandEnd, ExecCommandOutputDelta
from tertulia.sandbox.runner import Command, CommandResult, CommandRunner, RunningCommand
from tertulia.tools.shell.git_command import protected_git_warning
from tertulia.tools.tool import CallContext

MAX_TOLD = 1024 * 1024
"""Characters of output that are passed on as they come. The end has the beginning and the end of all of it."""
TIMEOUT_EXIT_CODE = 124
PROTECTED_CHANGED = "protected_changed"
"""The code of the warning that a protected file changed while a command ran."""

Publish = Callable[[EventData], object]


def without_nul(text: str) -> str:
    """A text without NUL: it means nothing to a model, and some providers refuse it."""
    return text.replace("\0", "\ufffd")


class LiveCommand:
    """A started command, and where its events go. Its end is published once, when it is first seen."""

    __slots__ = ("_end_published", "_publish", "_telling", "began_at", "call_id", "command", "running")

    def __init__(self, command: Command, call_id: CallId, publish: Publish, began_at: float) -> None:
        self.command = command
        self.call_id = call_id
        """Of the call that started it."""
        self.began_at = began_at
        """Seconds on the monotonic clock."""
        self.running: RunningCommand
        self._publish: Publish | None = publish
        self._telling = _Pieces(call_id)
        self._end_published = False

    @classmethod
    async def start(
        cls, runner: CommandRunner, command: Command, call: CallContext, allowed_by: Decider
    ) -> LiveCommand:
        """Start it. A command that the runner refuses has no begin event."""
        live = cls(command, call.call_id, call.publish, call.clock.monotonic())
        live.running = await runner.start(command, live._hear)
        sandbox = sandbox_to_wire(command.confinement.mode)
        call.publish(ExecCommandBegin(call.call_id, list(command.argv), command.cwd, sandbox, allowed_by))
        return live

    def listen(self, publish: Publish | None) -> None:
        """Publish its output here from now on; None: nowhere, until a call asks."""
        self._publish = publish

    async def see_through(self, timeout_s: float) -> CommandResult:
        """How it ended. At the deadline, or when this is cancelled, its whole tree is killed first."""
        try:
            finished = await self._wait(timeout_s)
            if finished is None:
                killed = await self.running.kill()
                # It may have ended by itself while it was being killed.
                finished = replace(killed, ended="timeout", exit_code=TIMEOUT_EXIT_CODE)
        except asyncio.CancelledError:
            self.tell(await self.running.kill())
            raise
        self.tell(finished)
        if finished.ended == "not_started":
            raise SandboxError(f"the command could not be confined and was not run: {finished.reason}")
        return finished

    async def _wait(self, timeout_s: float) -> CommandResult | None:
        """Wait for its end. The time in which persons are asked about its hosts does not count."""
        gate, asked_s = self.command.gate, 0.0
        while (finished := await self.running.wait(timeout_s)) is None and gate is not None and gate.asked_s > asked_s:
            timeout_s, asked_s = gate.asked_s - asked_s, gate.asked_s
        return finished

    async def look(self, wait_s: float) -> CommandResult | None:
        """How it ended, if it does so within this time.

        If the call is cancelled the command is killed: no later call would look again.
        """
        try:
            finished = await self.running.wait(wait_s)
        except asyncio.CancelledError:
            self.tell(await self.running.kill())
            raise
        if finished is not None:
            self.tell(finished)
        return finished

    async def kill(self) -> CommandResult:
        """End it, with all that it has started."""
        finished = await self.running.kill()
        self.tell(finished)
        return finished

    def tell(self, finished: CommandResult) -> None:
        """Publish that it has ended, once."""
        if self._end_published or self._publish is None:
            return
        self._end_published = True
        self._publish(
            ExecCommandEnd(
                call_id=self.call_id,
                exit_code=None if finished.ended == "not_started" else finished.exit_code,
                output=without_nul(finished.output.text()),
                truncated=finished.output.truncated,
                duration_ms=round(finished.duration_s * 1000),
            )
        )
        if (warning := protected_git_warning(self.command, finished)) is not None:
            self._publish(warning)
        if (message := finished.changes_text()) is not None:
            undo = finished.undo_text()
            message = message if undo is None else f"{message}. {undo}"
            self._publish(
                WarningEvent(message, PROTECTED_CHANGED, [visible(change.path) for change in finished.changes])
            )

    def _hear(self, data: bytes) -> None:
        if self._publish is None or (piece := self._telling.piece(data)) is None:
            return
        try:
            self._publish(piece)
        except asyncio.CancelledError:
            # The task may end before its command.
            self._publish = None


class _Pieces:
    """Turns output into events: whole characters, numbered, up to a limit."""

    __slots__ = ("_call_id", "_decode", "_item_id", "_offset")

    def __init__(self, call_id: CallId) -> None:
        self._call_id = call_id
        self._item_id = new_item_id()
        self._offset = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def piece(self, data: bytes) -> ExecCommandOutputDelta | None:
        """The next event; None when no character is complete yet, or the limit is reached."""
        if self._offset >= MAX_TOLD:
            return None
        text = without_nul(self._decode(data))
        if not text:
            return None
        offset, self._offset = self._offset, self._offset + len(text)
        return ExecCommandOutputDelta(
            call_id=self._call_id, stream="stdout", text=text, item_id=self._item_id, offset=offset
        )


MAX_TERMINALS = 16
"""How many one conversation may have."""
MAX_TERMINALS_IN_ALL = 64
"""How many a session may have."""

Tell = Callable[[ConversationId, EventData], object]
"""Publish an event that belongs to no task."""


class Terminals:
    """Numbers them. A number is never used again, and means nothing in another conversation."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._numbers = count(1)
        self._live: dict[ConversationId, dict[int, LiveCommand]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._live.values()))

    def check_room(self, conversation: ConversationId) -> None:
        """Limit when no other command may go on."""
        own = self._live.get(conversation, {})
        if len(own) >= MAX_TERMINALS or len(self) >= MAX_TERMINALS_IN_ALL:
            numbers = ", ".join(map(str, own)) or "none of this conversation"
            raise LimitError(f"too many commands go on ({numbers}); end one with \\u0003 (Ctrl-C), or wait for its end")

    def keep(self, conversation: ConversationId, live: LiveCommand) -> int:
        """The number by which it can be found from now on."""
        number = next(self._numbers)
        self._live.setdefault(conversation, {})[number] = live
        return number

    def find(self, conversation: ConversationId, number: int) -> LiveCommand:
        """The command of that number; NotFound also where it is another conversation's."""
        live = self._live.get(conversation, {}).get(number)
        if live is None:
            raise NotFoundError(f"there is no command with session_id {number} here; it has ended, or never was")
        return live

    def drop(self, conversation: ConversationId, number: int) -> None:
        """Forget a command whose end was seen."""
        own = self._live.get(conversation, {})
        own.pop(number, None)
        if not own:
            self._live.pop(conversation, None)

    async def forget(self, conversation: ConversationId) -> None:
        """The conversation is closed: kill what it left running, and say so."""
        gone = list(self._live.pop(conversation, {}).values())
        for live in gone:
            live.listen(lambda data: self._tell(conversation, data))
        ended = await asyncio.gather(*(live.kill() for live in gone), return_exceptions=True)
        failed = [error for error in ended if isinstance(error, BaseException)]
        if failed and not isinstance(failed[0], SandboxError):
            raise failed[0]

    async def close(self) -> None:
        """The session is closed: likewise for all."""
        await asyncio.gather(*map(self.forget, list(self._live)))
