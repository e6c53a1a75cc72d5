"""The one way in which a tool starts a command: everybody hears when it begins, what it says, and how it ended."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable

from msgspec.structs import replace

from tertulia.errors import SandboxError
from tertulia.policy.display_text import visible
from tertulia.policy.sandbox_mode import sandbox_to_wire
from tertulia.protocol.events import EventData, WarningEvent
from tertulia.protocol.ids import CallId, new_item_id
from tertulia.protocol.tool_events import Decider, ExecCommandBegin, ExecCommandEnd, ExecCommandOutputDelta
from tertulia.sandbox.runner import Command, CommandResult, CommandRunner, RunningCommand
from tertulia.tools.tool import CallContext

MAX_TOLD = 1024 * 1024
"""Characters of output that are passed on as they come. The end has the beginning and the end of all of it."""
TIMEOUT_EXIT_CODE = 124
PROTECTED_CHANGED = "protected_changed"
"""The code of the warning that a protected file changed while a command ran."""

Publish = Callable[[EventData], object]


def readable(text: str) -> str:
    """A text without NUL: it means nothing to a model, and some providers refuse it."""
    return text.replace("\0", "\ufffd")


class LiveCommand:
    """A command that was started, and who is told of it. Its one end is told by whoever first sees it."""

    __slots__ = ("_publish", "_telling", "_told", "began_at", "call_id", "command", "running")

    def __init__(self, command: Command, call_id: CallId, publish: Publish, began_at: float) -> None:
        self.command = command
        self.call_id = call_id
        """Of the call that started it."""
        self.began_at = began_at
        """On the monotonic clock."""
        self.running: RunningCommand
        self._publish: Publish | None = publish
        self._telling = _Pieces(call_id)
        self._told = False

    @classmethod
    async def start(
        cls, runner: CommandRunner, command: Command, call: CallContext, allowed_by: Decider
    ) -> LiveCommand:
        """Start it. What the runner refuses was never begun."""
        live = cls(command, call.call_id, call.publish, call.clock.monotonic())
        live.running = await runner.start(command, live._hear)
        sandbox = sandbox_to_wire(command.confinement.mode)
        call.publish(ExecCommandBegin(call.call_id, list(command.argv), command.cwd, sandbox, allowed_by))
        return live

    def listen(self, publish: Publish | None) -> None:
        """From now on these are told of it; None: nobody, until somebody asks."""
        self._publish = publish

    async def see_through(self, timeout_s: float) -> CommandResult:
        """How it ended. At the deadline, or when this is cancelled, its whole tree is killed first."""
        try:
            finished = await self.running.wait(timeout_s)
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

    async def look(self, wait_s: float) -> CommandResult | None:
        """How it ended, if it does so within this time. Cancelled, it is killed: nobody would look again."""
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
        """That it has ended; once."""
        if self._told or self._publish is None:
            return
        self._told = True
        self._publish(
            ExecCommandEnd(
                call_id=self.call_id,
                exit_code=None if finished.ended == "not_started" else finished.exit_code,
                output=readable(finished.output.text()),
                truncated=finished.output.truncated,
                duration_ms=round(finished.duration_s * 1000),
            )
        )
        if (message := finished.changes_text()) is not None:
            self._publish(
                WarningEvent(message, PROTECTED_CHANGED, [visible(change.path) for change in finished.changes])
            )

    def _hear(self, data: bytes) -> None:
        if self._publish is None or (piece := self._telling.piece(data)) is None:
            return
        try:
            self._publish(piece)
        except asyncio.CancelledError:
            # The task is over, and the command may not know yet.
            self._publish = None


class _Pieces:
    """Makes news of output: whole characters, numbered, and not without end."""

    __slots__ = ("_call_id", "_decode", "_item_id", "_offset")

    def __init__(self, call_id: CallId) -> None:
        self._call_id = call_id
        self._item_id = new_item_id()
        self._offset = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def piece(self, data: bytes) -> ExecCommandOutputDelta | None:
        """The next one; None when nothing of it is whole yet, or enough was told."""
        if self._offset >= MAX_TOLD:
            return None
        text = readable(self._decode(data))
        if not text:
            return None
        offset, self._offset = self._offset, self._offset + len(text)
        return ExecCommandOutputDelta(
            call_id=self._call_id, stream="stdout", text=text, item_id=self._item_id, offset=offset
        )
