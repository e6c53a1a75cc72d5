"""A server over stdio: its process, and the two streams by which the SDK reads and writes.

The process is started by the sandbox's runner, like any command: when this process is killed, so is its whole tree.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from tertulia.errors import ClosedError, TertuliaError
from tertulia.mcp.client.error_text import quote_server_text, server_error
from tertulia.mcp.client.jsonrpc_lines import JsonRpcLines, MessageReader, MessageStream, OnLost
from tertulia.mcp.config.definition import ServerDefinition
from tertulia.mcp.config.launch import Launch, secrets_in_launch
from tertulia.mcp.server_connection import Spawn
from tertulia.policy.redaction import Redactor
from tertulia.protocol.line_framing import LineSplitter, OversizedLine
from tertulia.protocol.name_hints import arguments_hint
from tertulia.sandbox.runner import Command, CommandLimits, CommandResult, CommandRunner, Confinement, RunningCommand

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

MAX_LINE = 16 << 20
MAX_UNREAD = 4 << 20
"""Of lines not yet parsed. Beyond that the server's output is not read, and it waits."""
MAX_UNWRITTEN = 32 << 20
"""Of messages that the server does not read. Beyond that the connection is closed."""
MAX_ERROR_OUTPUT = 64 << 10
POLITE_S = 2.0
"""How long the process has to exit by itself, and again after SIGTERM."""
MAX_NONSENSE = 50_000
"""Lines in a row that are no messages. Some servers log to stdout, but none logs so much between messages."""
_LINE_COST = 64
"""Memory of a line besides its bytes."""
_IN_A_ROW = 16
"""So many lines are parsed before the loop runs other tasks."""
_NOTIFICATION_S = 0.5
_LAST_WORDS_S = 0.5
_LAST_LINES = 3
_LAST_CHARACTERS = 300


class StdioTransport:
    """Implements the SDK's `Transport`. Entered and left by one task, the owner."""

    def __init__(
        self, definition: ServerDefinition, launch: Launch, *, runner: CommandRunner, spawn: Spawn, lost: OnLost
    ) -> None:
        self.lines = JsonRpcLines(definition.name)
        self._definition, self._launch = definition, launch
        self._runner, self._spawn, self._lost = runner, spawn, lost
        self._errors = bytearray()
        self._process: RunningCommand | None = None
        self._is_broken = False
        self._reads = _Reads(self.lines, self._broken)

    async def __aenter__(self) -> TransportStreams:
        """Start the process; McpError where that fails."""
        try:
            process = await self._runner.start(self._command(), self._reads.feed, self._read_stderr)
        except TertuliaError as error:
            raise server_error(self._definition.name, "not_started", error.message) from None
        self._process = self._reads.process = process
        self._spawn(self._watch(process), f"mcp {self._definition.name} process")
        return self._reads, _Writes(self.lines, process, self._broken, self._end_of)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process: by the end of its input, then SIGTERM, then SIGKILL; at once after an error."""
        process = self._process
        if process is None:
            return
        try:
            if kind is None and not self._is_broken:
                process.close_stdin()
                if await process.wait(POLITE_S) is None:
                    process.terminate()
                    await process.wait(POLITE_S)
        finally:
            await process.kill()

    @property
    def dropped(self) -> Counter[str]:
        """How many messages were dropped, by kind."""
        return self.lines.dropped

    @property
    def ended_by_itself(self) -> bool:
        """Whether the process ran, and exited without being told to."""
        finished = self._process.finished if self._process is not None else None
        return finished is not None and finished.ended == "exited" and finished.reason is None

    def speak(self, version: str) -> None:
        """Set the protocol version that was agreed on."""
        self.lines.version = version

    def error_output(self) -> str:
        """The last lines of its stderr as one line, without its secrets."""
        lines = [line.strip() for line in self._errors.decode("utf-8", "replace").splitlines()]
        last = " / ".join([line for line in lines if line][-_LAST_LINES:])
        # Before it is cut: half of a secret could not be recognised.
        clean = Redactor(secrets_in_launch(self._definition, self._launch)).text(last)
        return quote_server_text(clean[-_LAST_CHARACTERS:])

    def _command(self) -> Command:
        definition = self._definition
        return Command(
            argv=self._launch.argv,
            cwd=self._launch.cwd,
            environment=self._launch.environment,
            confinement=Confinement(
                mode=definition.sandbox or "danger_full_access",
                writable_roots=self._launch.writable,
                network=definition.network,
                # A server may run for days.
                limits=CommandLimits(cpu_s=None),
            ),
            keep_stdin=True,
            kept_output_bytes=0,
            pid_namespace=definition.pid_namespace,
        )

    def _read_stderr(self, data: bytes) -> None:
        self._errors += data
        if len(self._errors) > 2 * MAX_ERROR_OUTPUT:
            del self._errors[:-MAX_ERROR_OUTPUT]

    async def _watch(self, process: RunningCommand) -> None:
        finished = await process.wait()
        assert finished is not None
        self._broken(self._end_of(finished))

    def _end_of(self, finished: CommandResult) -> str:
        if finished.reason is not None:
            program = self._launch.argv[0]
            hint = quote_server_text(arguments_hint(program), 200)
            return f"`{quote_server_text(program, 200)}` cannot be started: {finished.reason}{hint}"
        words = self.error_output()
        return f"it exited with code {finished.exit_code}" + (f"; its last words: {words}" if words else "")

    def _broken(self, why: str) -> None:
        """The connection cannot be used any more."""
        self._is_broken = True
        self._lost(why)
        self._reads.end()


class _Reads(MessageReader["SessionMessage"]):
    """The server's stdout as a stream of messages for the SDK."""

    def __init__(self, lines: JsonRpcLines, broken: OnLost) -> None:
        from anyio import EndOfStream
        from mcp.shared.message import SessionMessage

        self.process: RunningCommand | None = None
        self._parse, self._broken = lines.read_in_steps, broken
        self._message, self._end_of_stream = SessionMessage, EndOfStream
        self._splitter = LineSplitter(MAX_LINE)
        self._lines: deque[bytes] = deque()
        self._unread = self._parsed_lines = self._nonsense = 0
        self._ended = False
        self._something = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Take more bytes of stdout."""
        if self._ended:
            return
        for line in self._splitter.feed(data):
            if isinstance(line, OversizedLine):
                self._broken(f"it sent a line of more than {MAX_LINE:,} bytes")
                return
            self._lines.append(bytes(line))
            self._unread += len(line) + _LINE_COST
        if self._unread > MAX_UNREAD and self.process is not None:
            self.process.pause()
        if self._lines:
            self._something.set()

    def end(self) -> None:
        """No more bytes will come; lines that are complete are still read."""
        self._ended = True
        self._splitter = LineSplitter(MAX_LINE)
        self._something.set()

    async def receive(self) -> SessionMessage:
        """The next message; anyio's EndOfStream after the last."""
        while True:
            while self._lines:
                line = self._lines.popleft()
                self._unread -= len(line) + _LINE_COST
                message = await self._parse(line)
                self._parsed_lines += 1
                if self._parsed_lines % _IN_A_ROW == 0:
                    # A busy server gets no more of the loop than the others.
                    await asyncio.sleep(0)
                if message is not None:
                    self._nonsense = 0
                    return self._message(message)
                self._nonsense += 1
                if self._nonsense == MAX_NONSENSE:
                    self._broken(f"it sent {MAX_NONSENSE:,} lines in a row that are no messages")
            if self._ended:
                raise self._end_of_stream
            if self.process is not None:
                self.process.resume()
            self._something.clear()
            await self._something.wait()

    async def aclose(self) -> None:
        """Discard what still comes, so that the server can go on writing until it exits."""
        self._lines.clear()
        self.end()
        if self.process is not None:
            self.process.resume()


class _Writes(MessageStream):
    """The server's stdin as a stream of messages for the SDK."""

    def __init__(
        self, lines: JsonRpcLines, process: RunningCommand, broken: OnLost, end_of: Callable[[CommandResult], str]
    ) -> None:
        from anyio import ClosedResourceError
        from mcp_types import JSONRPCRequest

        self._encode, self._process, self._broken, self._end_of = lines.encode, process, broken, end_of
        self._closed_resource, self._request = ClosedResourceError, JSONRPCRequest
        self._owed = 0

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message, and wait while the server does not read. A cancelled write is completed later."""
        data = self._encode(item.message)
        self._owed += len(data)
        if self._owed > MAX_UNWRITTEN:
            self._broken("it does not read what it is sent")
            raise self._closed_resource
        # The caller of a request has a deadline. What needs no answer is not waited for.
        limit = None if isinstance(item.message, self._request) else _NOTIFICATION_S
        try:
            async with asyncio.timeout(limit):
                await self._process.write(data)
        except ClosedError:
            # Mostly it is about to exit, and its exit code and stderr say more.
            finished = await self._process.wait(_LAST_WORDS_S)
            self._broken("it takes no more input" if finished is None else self._end_of(finished))
            raise self._closed_resource from None
        except TimeoutError:
            return
        self._owed = 0

    async def aclose(self) -> None:
        """Does nothing: the transport closes stdin."""
