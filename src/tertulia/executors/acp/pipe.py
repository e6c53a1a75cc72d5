"""The pipes of a running ACP agent as the SDK's `Transport`: one JSON text a line, bounded both ways."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from tertulia.errors import ClosedError
from tertulia.executors.command.failure_text import ErrorOutput
from tertulia.executors.json_output import MAX_LINE_BYTES, DroppedLine, JsonLines, Line
from tertulia.sandbox.runner import Command, CommandResult, CommandRunner, RunningCommand

UNREAD_BYTES = 65_536
"""Bytes of output that may wait to be read; beyond that the agent is paused."""
MAX_OPEN_REQUESTS = 100
"""The most requests of the agent without an answer that it has read; beyond that no further message is read."""
MAX_OUTPUT_BYTES = 512 * 1024 * 1024
"""The most bytes of output in one task."""
_LAST_WORDS_S = 0.5

_encode = msgspec.json.Encoder().encode


class AcpPipe:
    """The pipes of one running program. They are over when the program ends, or when it writes what cannot be read."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.errors = ErrorOutput()
        self.printed: ErrorOutput | None = ErrorOutput()
        """The end of its standard output, until it is known to be an agent: the program may print why it is none."""
        self.broken: str | None = None
        """Why reading was stopped, where the reason is not that the program exited."""
        self.may_read = asyncio.Event()
        """Set while messages may be read; cleared while the steps of a task are read too slowly."""
        self.may_read.set()
        self._lines = JsonLines(max_line_bytes)
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._messages: deque[Line] = deque()
        self._something = asyncio.Event()
        self._open_requests = 0
        self._strange = 0
        self._over = False
        self._bytes = 0
        self._process: RunningCommand | None = None

    @property
    def passed_over(self) -> int:
        """How many lines were no JSON-RPC message."""
        return self._lines.passed_over + self._strange

    @property
    def exited(self) -> CommandResult | None:
        """How the program ended; None while it runs."""
        return None if self._process is None else self._process.finished

    @property
    def is_over(self) -> bool:
        """Whether there will be no further output."""
        return self._over

    async def start(self, runner: CommandRunner, command: Command) -> RunningCommand:
        """Start the program. The caller must `watch` it, and `kill` the returned command."""
        self._process = await runner.start(command, self._feed, self.errors.hear)
        return self._process

    async def watch(self) -> None:
        """Wait for the program's end; runs in a task of its own."""
        assert self._process is not None
        await self._process.wait()
        self._end()

    @property
    def last_words(self) -> str:
        """What the program has printed last: to standard error, and to standard output what was no message."""
        printed = "" if self.printed is None else self.printed.last_lines()
        if '"jsonrpc"' in printed:
            # It speaks the protocol: its answer is read, and told in its own words.
            printed = ""
        return " / ".join(filter(None, (self.errors.last_lines(), printed)))

    def begin_task(self) -> None:
        """Start counting the bytes of output of a new task."""
        self._bytes = 0

    # ── the SDK's side ───────────────────────────────────────────────────────────────────────────────────────────

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message, and wait while the agent does not read. ConnectionError when the agent is gone."""
        assert self._process is not None
        try:
            await self._process.write(_encode(message) + b"\n")
        except ClosedError:
            # The program is probably about to exit, and its exit says more.
            await self._process.wait(_LAST_WORDS_S)
            raise ConnectionError("the agent takes no more input") from None
        finally:
            if "method" not in message:
                self._open_requests -= 1
                self._something.set()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be no more."""
        while True:
            await self.may_read.wait()
            if self._messages and (self._open_requests < MAX_OPEN_REQUESTS or self._over):
                message = self._messages.popleft()
                self._open_requests += "method" in message and "id" in message
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
        """End the stream. The caller that started the program also ends it."""
        self._end()

    # ── the program's side ───────────────────────────────────────────────────────────────────────────────────────

    def _feed(self, data: bytes) -> None:
        if self._over:
            return
        if self.printed is not None:
            self.printed.hear(data)
        self._bytes += len(data)
        self._unread.append(data)
        self._unread_bytes += len(data)
        if self._bytes > MAX_OUTPUT_BYTES:
            self._break(f"it wrote more than {MAX_OUTPUT_BYTES:,} bytes in one task")
        elif self._unread_bytes >= UNREAD_BYTES and self._process is not None:
            self._process.pause()
        self._something.set()

    async def _read(self) -> None:
        """Parse the oldest output that was not read yet into messages."""
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
        self.may_read.set()
        self._something.set()


def is_message(line: Line) -> bool:
    """Whether a line is a JSON-RPC message as far as the SDK assumes: any other line would end the connection."""
    id, method, error = line.get("id"), line.get("method"), line.get("error")
    if "id" in line and (isinstance(id, bool) or not isinstance(id, str | int)):
        return False
    if "method" in line:
        return isinstance(method, str)
    return "id" in line and isinstance(error, dict | None)
