"""Run by its path, by an executor's program, as its MCP server: copies bytes between that program and our socket.

Standard library only, because it starts with every run of an agent.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

_CHUNK = 65_536


def relay(path: str) -> None:
    """Copy until the socket is closed by the session; the end of our input is passed on to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        copy_standard_streams(connection)


def copy_standard_streams(connection: socket.socket) -> threading.Thread:
    """Copy both ways until the other end closes the connection; returns the thread that copies our input."""
    # A daemon: it may be left waiting for input that never comes.
    up = threading.Thread(target=_copy_input, args=(connection,), daemon=True)
    up.start()
    _copy(lambda: connection.recv(_CHUNK), _write)
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
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    relay(sys.argv[1])
