"""Between a program's pipes and the shared broker's socket. The broker is started when nobody listens there yet.

Imports as little as it can: it is started by every program that uses the broker, and does nothing but copy bytes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tertulia.errors import McpError
from tertulia.server.broker_socket import Greeting, Welcome, private_directory, short_path

_START_S = 20.0
_STEP_S = 0.05
_CHUNK = 65_536
_MAX_WELCOME = 65_536
_MAX_LOG = 1024 * 1024


def relay(place: Path, view: str | None, start: Sequence[str]) -> int:
    """Until one side is done. McpError says why the broker could not be reached, or does not want us."""
    connection = _connected(place, start)
    with connection:
        _greet(connection, view)
        up = threading.Thread(target=_copy_up, args=(connection,), daemon=True)
        up.start()
        _copy(lambda: connection.recv(_CHUNK), lambda data: _write_all(1, data))
    return 0


def _connected(place: Path, start: Sequence[str]) -> socket.socket:
    private_directory(place.parent)
    if (connection := _try(place)) is not None:
        return connection
    log = os.open(place.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    if os.fstat(log).st_size > _MAX_LOG:
        os.ftruncate(log, 0)
    try:
        # A session of its own: it is for others too, and stays when this program's terminal goes.
        broker = subprocess.Popen(
            start, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
        )
    finally:
        os.close(log)
    for _ in range(round(_START_S / _STEP_S)):
        if (connection := _try(place)) is not None:
            return connection
        if broker.poll() not in (None, 0, 1):
            break
        time.sleep(_STEP_S)
    raise McpError(f"the shared broker did not start; {place.with_suffix('.log')} says why, `--alone` does without it")


def _try(place: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(place) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        return None
    return connection


def _greet(connection: socket.socket, view: str | None) -> None:
    with suppress(OSError):
        connection.sendall(msgspec.json.encode(Greeting(view, _parent())) + b"\n")
    heard = b""
    with suppress(OSError):
        while b"\n" not in heard and len(heard) < _MAX_WELCOME and (byte := connection.recv(1)):
            heard += byte
    try:
        welcome = msgspec.json.decode(heard, type=Welcome)
    except msgspec.DecodeError:
        raise McpError("the shared broker went away; try again") from None
    if not welcome.ok:
        raise McpError(welcome.error or "the shared broker refused")


def _parent() -> str:
    """The program that uses us, as far as the system tells."""
    with suppress(OSError):
        return Path(f"/proc/{os.getppid()}/comm").read_text(errors="replace").strip()[:64]
    return ""


def _copy_up(connection: socket.socket) -> None:
    _copy(lambda: os.read(0, _CHUNK), connection.sendall)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _copy(read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
    with suppress(OSError):
        while data := read():
            write(data)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
