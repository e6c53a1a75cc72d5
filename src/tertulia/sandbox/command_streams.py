"""Our ends and the command's ends of its three streams: pipes, a pseudo-terminal, or our own passed on."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from tertulia.errors import SandboxError
from tertulia.sandbox.runner import Command, Output
from tertulia.sandbox.tier import Streams


class CommandStreams:
    """Open until closed, each side by itself. Our ends never block."""

    __slots__ = ("_theirs", "errors", "reader", "streams", "writer")

    def __init__(self, command: Command, *, errors_apart: bool = False) -> None:
        self.reader: int | None = None
        self.errors: int | None = None
        """Where stderr is read from if not together with stdout."""
        self.writer: int | None = None
        """The same as `reader` where it is a terminal."""
        self._theirs: list[int] = []
        try:
            self.streams = self._open(command, errors_apart)
        except OSError as error:
            self.close_theirs()
            self.close_ours()
            raise SandboxError(f"there are no streams for the command: {error.strerror}; nothing was run") from None
        for fd in self._ours():
            os.set_blocking(fd, False)

    def _open(self, command: Command, errors_apart: bool) -> Streams:
        if command.inherit_stdio:
            return Streams(0, 1, 2)
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
        """Once the command has them, so that an end of file is seen."""
        while self._theirs:
            os.close(self._theirs.pop())

    def close_ours(self) -> None:
        """No more is read or written."""
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
        """One more piece."""
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
        """As it stands."""
        tail = bytes(self._tail[-self._tail_room :]) if self._tail_room else b""
        return Output(bytes(self._head), tail, self._total)

    def take(self) -> Output:
        """As it stands, and begin anew."""
        taken = self.output()
        self._head.clear()
        self._tail.clear()
        self._total = 0
        return taken
