"""Run by its path, by an executor's program, as its MCP server: copies bytes between that program and our socket.

Standard library only, because it starts with every run of an agent.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

_CHUNK = 65_536
_PATIENCE_S = 5.0
"""How long to wait for a program that has closed our input and does not read; it may be a pager."""
_LOOK_EVERY_S = 0.2


def relay(path: str) -> None:
    """Copy until the socket is closed by the session; the end of our input is passed on to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        copy_standard_streams(connection)


def copy_standard_streams(connection: socket.socket) -> threading.Thread:
    """Copy both ways until the other end closes the connection, or the program at our pipes has left: it has closed our
    input and does not read. Returns the thread that copies our input."""
    # A daemon: it may be left waiting for input that never comes.
    up = threading.Thread(target=_copy_input, args=(connection,), daemon=True)
    up.start()
    _copy(lambda: connection.recv(_CHUNK), _write)
    with suppress(OSError):
        # The thread may be waiting for the other end to read.
        connection.shutdown(socket.SHUT_RDWR)
    return up


def _copy_input(connection: socket.socket) -> None:
    _copy(lambda: os.read(0, _CHUNK), connection.sendall)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _copy(read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
    with suppress(OSError):
        while data := read():
            write(data)


def _write(data: bytes) -> None:
    """All of it. BrokenPipeError where the program has left."""
    rest = memoryview(data)
    while rest:
        _wait_for_room()
        # This many bytes never block once the pipe is writable.
        rest = rest[os.write(1, rest[: select.PIPE_BUF]) :]


def _wait_for_room() -> None:
    output, looks = select.poll(), 0
    output.register(1, select.POLLOUT)
    while not output.poll(_LOOK_EVERY_S * 1000):
        looks = looks + 1 if _is_hung_up() else 0
        if looks * _LOOK_EVERY_S > _PATIENCE_S:
            raise BrokenPipeError


def _is_hung_up() -> bool:
    """Whether no process can write to our input any more, whatever in it is still unread."""
    source = select.poll()
    source.register(0, select.POLLRDHUP)
    return bool(source.poll(0))


if __name__ == "__main__":
    relay(sys.argv[1])
