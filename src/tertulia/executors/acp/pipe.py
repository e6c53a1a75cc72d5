"""The pipes of an ACP agent as the SDK's `Transport`: one JSON text a line, bounded both ways.

It runs below the sandbox's runner, like any command: when we are killed, so is its whole tree.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from tertulia.errors import ClosedError
from tertulia.executors.command.failure_text import ErrorOutput
from tertulia.executors.json_lines import MAX_LINE_BYTES, DroppedLine, JsonLines, Line
from tertulia.sandbox.runner import Command, CommandResult, CommandRunner, RunningCommand

UNREAD_BYTES = 65_536
"""Output that waits to be read; the agent waits too, then."""
MAX_ASKED = 100
"""Requests of its own that have no answer yet, or whose answer it has not read; after these it is not listened to."""
MAX_OUTPUT_BYTES = 512 * 1024 * 1024
"""Bytes of output in one task."""
_LAST_WORDS_S = 0.5

_encode = msgspec.json.Encoder().encode


class AcpPipe:
    """One running program. It is over when the program is, or when it writes what cannot be read."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.errors = ErrorOutput()
        self.broken: str | None = None
        """Why nothing more is to be had from it, where it did not just exit."""
        self.held_back = asyncio.Event()
        """Set while messages may be handed on: a reader of steps that is too slow clears it."""
        self.held_back.set()
        self._lines = JsonLines(max_line_bytes)
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._messages: deque[Line] = deque()
        self._something = asyncio.Event()
        self._asked = 0
        self._strange = 0
        self._over = False
        self._bytes = 0
        self._process: RunningCommand | None = None

    @property
    def passed_over(self) -> int:
        """How many lines made no sense."""
        return self._lines.passed_over + self._strange

    @property
    def exited(self) -> CommandResult | None:
        """How the program ended, as soon as it has."""
        return None if self._process is None else self._process.finished

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be had from it."""
        return self._over

    async def start(self, runner: CommandRunner, command: Command) -> RunningCommand:
        """Start the program. The caller sees to its end: `watch`, and `kill` of what it returns."""
        self._process = await runner.start(command, self._feed, self.errors.hear)
        return self._process

    async def watch(self) -> None:
        """Until it has ended. To be run beside everything else."""
        assert self._process is not None
        await self._process.wait()
        self._end()

    def begin_task(self) -> None:
        """What it said before counts no longer."""
        self._bytes = 0

    # ── the SDK's side ───────────────────────────────────────────────────────────────────────────────────────────

    async def send(self, message: dict[str, Any]) -> None:
        """Write it, and wait while the agent does not read. ConnectionError when it is gone."""
        assert self._process is not None
        try:
            await self._process.write(_encode(message) + b"\n")
        except ClosedError:
            # Mostly it is about to end, and its end says more.
            await self._process.wait(_LAST_WORDS_S)
            raise ConnectionError("the agent takes no more input") from None
        finally:
            if "method" not in message:
                self._asked -= 1
                self._something.set()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be none."""
        while True:
            await self.held_back.wait()
            if self._messages and (self._asked < MAX_ASKED or self._over):
                message = self._messages.popleft()
                self._asked += "method" in message and "id" in message
                return message
            if not self._messages:
                if self._unread:
                    await self._read()
                    continue
                if self._over:
                    return None
                assert self._process is not None
                self._process.resume()
            self._something.clear()
            await self._something.wait()

    async def close(self) -> None:
        """End the stream; the program is ended by the caller that started it."""
        self._end()

    # ── the program's side ───────────────────────────────────────────────────────────────────────────────────────

    def _feed(self, data: bytes) -> None:
        if self._over:
            return
        self._bytes += len(data)
        self._unread.append(data)
        self._unread_bytes += len(data)
        if self._bytes > MAX_OUTPUT_BYTES:
            self._break(f"it wrote more than {MAX_OUTPUT_BYTES:,} bytes in one task")
        elif self._unread_bytes >= UNREAD_BYTES and self._process is not None:
            self._process.pause()
        self._something.set()

    async def _read(self) -> None:
        """The messages of the oldest output that was not read yet."""
        data = self._unread.popleft()
        self._unread_bytes -= len(data)
        for line in await self._lines.feed(data):
            if isinstance(line, DroppedLine):
                self._break(f"it sent a line of {line.bytes:,} bytes" + (f" with {line.why}" if line.why else ""))
                return
            if is_message(line):
                self._messages.append(line)
            else:
                self._strange += 1

    def _break(self, why: str) -> None:
        self.broken = why
        self._messages.clear()
        self._unread.clear()
        self._end()

    def _end(self) -> None:
        self._over = True
        self.held_back.set()
        self._something.set()


def is_message(line: Line) -> bool:
    """Whether it is one of JSON-RPC, as far as the SDK takes for granted: what is none would end the connection."""
    id, method, error = line.get("id"), line.get("method"), line.get("error")
    if "id" in line and (isinstance(id, bool) or not isinstance(id, str | int)):
        return False
    if "method" in line:
        return isinstance(method, str)
    return "id" in line and isinstance(error, dict | None)
