"""A running command: its streams, its output within a bound, its input, and how it ended.

Output is drained and input fed by callbacks of the loop, without a task or a thread. Confining and ending processes is
the business of the tier.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from typing import TYPE_CHECKING, Literal

from tertulia.errors import ClosedError, SandboxError
from tertulia.events.clock import Clock
from tertulia.sandbox.foreground import FileRelay, ForegroundJob
from tertulia.sandbox.runner import Command, CommandResult, OnOutput, Output, TierName
from tertulia.sandbox.tier import ProcessEnd, SpawnedProcess, Streams, Tier

if TYPE_CHECKING or sys.platform != "win32":
    import fcntl
    import termios


class CommandStreams:
    """Open until closed, each side by itself. Our ends never block."""

    __slots__ = ("_relay", "_theirs", "errors", "reader", "streams", "writer")

    def __init__(self, command: Command, *, errors_apart: bool = False) -> None:
        self.reader: int | None = None
        self.errors: int | None = None
        """Where stderr is read from if not together with stdout."""
        self.writer: int | None = None
        """The same as `reader` where it is a terminal."""
        self._theirs: list[int] = []
        self._relay: FileRelay | None = None
        try:
            self.streams = self._open(command, errors_apart)
        except OSError as error:
            self.close_theirs()
            self.close_ours()
            raise SandboxError(f"there are no streams for the command: {error.strerror}; nothing was run") from None
        for fd in self._ours():
            os.set_blocking(fd, False)

    def _open(self, command: Command, errors_apart: bool) -> Streams:
        if command.inherit_stdio and command.confinement.mode == "danger_full_access":
            return Streams(0, 1, 2)
        if command.inherit_stdio:
            self._relay = relay = FileRelay()
            self._theirs = relay.theirs
            return Streams(relay.input(), relay.output(1), relay.output(2))
        if command.terminal is not None:
            master, slave = os.openpty()
            self._theirs, self.reader, self.writer = [slave], master, master
            size = struct.pack("HHHH", command.terminal.rows, command.terminal.columns, 0, 0)
            fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
            return Streams(slave, slave, slave)
        if command.stdin or command.keep_stdin:
            stdin, self.writer = os.pipe()
        else:
            stdin = os.open(os.devnull, os.O_RDONLY)
        self._theirs.append(stdin)
        self.reader, output = os.pipe()
        self._theirs.append(output)
        if not errors_apart:
            return Streams(stdin, output, output)
        self.errors, errors = os.pipe()
        self._theirs.append(errors)
        return Streams(stdin, output, errors)

    def _ours(self) -> set[int]:
        return {fd for fd in (self.reader, self.errors, self.writer) if fd is not None}

    def close_theirs(self) -> None:
        """Close the command's ends once it has them, so that an end of file is seen."""
        while self._theirs:
            os.close(self._theirs.pop())

    def close_ours(self) -> None:
        """Close our ends: no more is read or written."""
        if self._relay is not None:
            self._relay.finish()
        for fd in self._ours():
            os.close(fd)
        self.reader = self.errors = self.writer = None


class BoundedOutput:
    """Takes any number of bytes and never holds more than one and a half times its bound."""

    __slots__ = ("_head", "_head_room", "_tail", "_tail_room", "_total")

    def __init__(self, bound: int) -> None:
        self._tail_room = bound // 2
        self._head_room = bound - self._tail_room
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take one more piece of output."""
        self._total += len(data)
        if len(self._head) < self._head_room:
            room = self._head_room - len(self._head)
            self._head += data[:room]
            data = data[room:]
        # Cut only when it has doubled, so that small pieces do not each move all of it.
        self._tail += data[-self._tail_room :] if self._tail_room else b""
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: -self._tail_room]

    def output(self) -> Output:
        """Head, tail and size as they stand."""
        tail = bytes(self._tail[-self._tail_room :]) if self._tail_room else b""
        return Output(bytes(self._head), tail, self._total)

    def take(self) -> Output:
        """What was collected so far; from now on it collects what comes next."""
        taken = self.output()
        self._head.clear()
        self._tail.clear()
        self._total = 0
        return taken


_CHUNK = 65_536
_CHUNKS_AT_ONCE = 8
"""How long the loop is kept by one command that writes faster than we read."""
_LAST_DRAIN = 256
"""Pieces still read after the end: more than any pipe holds."""
_KILL_DEADLINE_S = 5.0
TIMEOUT_EXIT_CODE = 124
_BY_SIGKILL = 128 + 9
_CTRL_D = b"\x04"


class CommandProcess:
    """Implements `RunningCommand`. Belongs to the loop that it was started on."""

    def __init__(
        self,
        command: Command,
        tier: Tier,
        clock: Clock,
        on_output: OnOutput | None,
        on_error: OnOutput | None = None,
    ) -> None:
        self.finished: CommandResult | None = None
        self.account = command.account
        self.writes = command.confinement.mode != "read_only"
        self.tier: TierName = tier.name
        self._tier = tier
        self._clock = clock
        self._on_output, self._on_error = on_output, on_error
        self._paused = False
        self._loop = asyncio.get_running_loop()
        self._began_at = clock.monotonic()
        self._all, self._fresh = BoundedOutput(command.kept_output_bytes), BoundedOutput(command.kept_output_bytes)
        self._terminal = command.terminal is not None
        self._keeps_stdin = command.keep_stdin or self._terminal
        self._unwritten = bytearray(command.stdin)
        self._written, self._gone = asyncio.Event(), asyncio.Event()
        self._why: Literal["exited", "timeout", "killed"] = "exited"
        self._stdio = CommandStreams(command, errors_apart=on_error is not None)
        self._foreground = ForegroundJob() if command.inherit_stdio else None
        try:
            self._spawned: SpawnedProcess = tier.spawn(command, self._stdio.streams, self._ended)
        except BaseException:
            self._stdio.close_ours()
            if self._foreground is not None:
                self._foreground.close()
            raise
        finally:
            self._stdio.close_theirs()
        if self._foreground is not None:
            self._foreground.watch(self._spawned.leader)
        if self._stdio.reader is not None:
            self._loop.add_reader(self._stdio.reader, self._read)
        if self._stdio.errors is not None:
            self._loop.add_reader(self._stdio.errors, self._read_errors)
        self._feed()

    # ---- what others may do with it

    async def write(self, data: bytes) -> None:
        """To its stdin; Closed when it has ended or does not read any more."""
        if not (self._keeps_stdin and self._reads()):
            raise ClosedError("the command's standard input is closed")
        self._unwritten += data
        self._feed()
        while self._unwritten:
            self._written.clear()
            await self._written.wait()
        if not self._reads():
            raise ClosedError("the command has ended, or closed its standard input")

    def close_stdin(self) -> None:
        """End of file, after what was written."""
        if not self._keeps_stdin:
            return
        self._keeps_stdin = False
        if self._terminal:
            self._unwritten += _CTRL_D
        self._feed()

    def take(self) -> Output:
        """What was written since the last time."""
        return self._fresh.take()

    def pause(self) -> None:
        """Read no more of its stdout for now."""
        if self._stdio.reader is not None and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._stdio.reader)

    def resume(self) -> None:
        """Read its output again, after `pause`."""
        if self._stdio.reader is not None and self._paused:
            self._loop.add_reader(self._stdio.reader, self._read)
        self._paused = False

    def terminate(self) -> None:
        """Ask the command to end (SIGTERM)."""
        if self.finished is None:
            self._spawned.terminate()

    async def wait(self, timeout_s: float | None = None) -> CommandResult | None:
        """How it ended; None when it still runs after so long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._gone.wait()
        except TimeoutError:
            pass
        return self.finished

    async def kill(self, why: Literal["timeout", "killed"] = "killed") -> CommandResult:
        """End the whole tree and wait until it is gone."""
        self.strike(why)
        finished = await self.wait(_KILL_DEADLINE_S)
        if finished is None:
            raise SandboxError(f"a killed command is still there after {_KILL_DEADLINE_S:g} s; the kernel holds it")
        return finished

    def strike(self, why: Literal["timeout", "killed"] = "killed") -> None:
        """The part of killing that does not wait."""
        if self.finished is None:
            if self._why == "exited":
                self._why = why
            self._spawned.kill()

    # ---- output

    def _read(self) -> None:
        for _ in range(_CHUNKS_AT_ONCE):
            if self._paused or not self._piece(self._stdio.reader, self._heard):
                return

    def _read_errors(self) -> None:
        for _ in range(_CHUNKS_AT_ONCE):
            if not self._piece(self._stdio.errors, self._on_error):
                return

    def _read_the_rest(self) -> None:
        for fd, hears in ((self._stdio.reader, self._heard), (self._stdio.errors, self._on_error)):
            for _ in range(_LAST_DRAIN):
                if not self._piece(fd, hears):
                    break
            if fd is not None:
                self._loop.remove_reader(fd)

    def _heard(self, data: bytes) -> None:
        self._all.add(data)
        self._fresh.add(data)
        if self._on_output is not None:
            self._on_output(data)

    def _piece(self, fd: int | None, hears: OnOutput | None) -> bool:
        """One piece, if one has arrived."""
        if fd is None or hears is None:
            return False
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            # EIO: no process holds the other side of the terminal any more.
            data = b""
        if not data:
            self._loop.remove_reader(fd)
            return False
        hears(data)
        return True

    # ---- input

    def _reads(self) -> bool:
        return self._stdio.writer is not None

    def _feed(self) -> None:
        writer = self._stdio.writer
        if writer is None:
            return
        try:
            while self._unwritten:
                del self._unwritten[: os.write(writer, self._unwritten[:_CHUNK])]
        except BlockingIOError:
            self._loop.add_writer(writer, self._feed)
            return
        except OSError:
            self._shut_stdin()
            return
        self._loop.remove_writer(writer)
        self._written.set()
        if not self._keeps_stdin:
            self._shut_stdin()

    def _shut_stdin(self) -> None:
        writer = self._stdio.writer
        if writer is not None:
            self._loop.remove_writer(writer)
            self._stdio.writer = None
            if writer != self._stdio.reader:
                os.close(writer)
        self._unwritten.clear()
        self._written.set()

    # ---- end

    def _ended(self, ending: ProcessEnd) -> None:
        self._shut_stdin()
        self._read_the_rest()
        self._stdio.close_ours()
        if self._foreground is not None:
            self._foreground.close()
        output = self._all.output()
        ending = self._tier.conclude(ending, output)
        why = "not_started" if not ending.began and self._why == "exited" else self._why
        if why == "exited" and ending.limit is not None and ending.exit_code == _BY_SIGKILL:
            why = "killed"
        self.finished = CommandResult(
            exit_code=TIMEOUT_EXIT_CODE if why == "timeout" else ending.exit_code,
            ended=why,
            output=output,
            duration_s=self._clock.monotonic() - self._began_at,
            limit=ending.limit,
            sampled=ending.sampled,
            written=ending.written,
            reason=ending.reason,
            changes=ending.changes,
        )
        self._gone.set()
