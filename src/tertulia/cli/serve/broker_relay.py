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
from tertulia.sandbox.limits.open_files import restore_child_limit
from tertulia.server.mcp.broker_address import (
    BrokerGreeting,
    BrokerWelcome,
    hold_lock,
    is_same_user,
    private_directory,
    private_file,
    short_path,
)

START_S = 30.0
_STEP_S = 0.05
_CHUNK = 65_536
_MAX_WELCOME = 65_536
_MAX_LOG = 1024 * 1024
_ATTEMPTS = 3
_PARTING_S = 0.5


def relay_to_broker(place: Path, view: str | None, start: Sequence[str], told: bytes) -> int:
    """Until one side is done. McpError says why the broker could not be reached, or does not want us.

    `start` is the broker's command line, `told` what it reads from its standard input.
    """
    with _connect(place, view, start, told) as connection:
        up = threading.Thread(target=_copy_up, args=(connection,), daemon=True)
        up.start()
        _copy(lambda: connection.recv(_CHUNK), lambda data: _write_all(1, data))
        up.join(_PARTING_S)
        if up.is_alive():
            raise McpError("the shared broker went away")
    return 0


def _connect(place: Path, view: str | None, start: Sequence[str], told: bytes) -> socket.socket:
    private_directory(place.parent)
    for _ in range(_ATTEMPTS):
        connection = _try(place) or _start(place, start, told)
        try:
            welcome = _greet(connection, view)
            if welcome is not None and welcome.ok:
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        if welcome is not None:
            raise McpError(welcome.error or "the shared broker refused")
        # It was just about to leave, for nobody was there.
    raise McpError("the shared broker went away; try again")


def _start(place: Path, start: Sequence[str], told: bytes) -> socket.socket:
    """Only one of those who come at the same time starts a broker; the others wait until it listens."""
    with hold_lock(place.with_suffix(".start"), START_S):
        if (connection := _try(place)) is not None:
            return connection
        log = private_file(place.with_suffix(".log"), os.O_RDWR | os.O_APPEND)
        try:
            if os.fstat(log).st_size > _MAX_LOG:
                os.ftruncate(log, 0)
            return _start_broker(place, start, told, log)
        finally:
            os.close(log)


def _start_broker(place: Path, start: Sequence[str], told: bytes, log: int) -> socket.socket:
    before = os.fstat(log).st_size
    # A session of its own: it is for others too, and stays when this program's terminal goes. What it is told it
    # reads: a command line can be seen by everybody.
    broker = subprocess.Popen(
        start, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/", start_new_session=True, close_fds=True
    )
    restore_child_limit(broker.pid)
    assert broker.stdin is not None
    with suppress(OSError), broker.stdin:
        broker.stdin.write(told)
    for _ in range(round(START_S / _STEP_S)):
        if (connection := _try(place)) is not None:
            return connection
        if broker.poll() is not None:
            break
        time.sleep(_STEP_S)
    said = os.pread(log, _CHUNK, before).decode(errors="replace").strip().rpartition("\n")[2]
    why = said.removeprefix("tertulia: ") or f"{place.with_suffix('.log')} may say why"
    raise McpError(f"the shared broker did not start: {why}; `--alone` does without it")


def _try(place: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(place) as address:
            connection.connect(address)
        if is_same_user(connection):
            return connection
    except OSError:
        # Nobody listens there.
        connection.close()
        return None
    connection.close()
    raise McpError(f"{place} is somebody else's; remove it")


def _greet(connection: socket.socket, view: str | None) -> BrokerWelcome | None:
    """What the broker says; None: nothing, and it is gone."""
    heard = b""
    connection.settimeout(START_S)
    try:
        connection.sendall(msgspec.json.encode(BrokerGreeting(view, _parent())) + b"\n")
        while b"\n" not in heard and len(heard) < _MAX_WELCOME and (byte := connection.recv(1)):
            heard += byte
    except TimeoutError:
        raise McpError(f"the shared broker does not answer, for {START_S:g} s; `--alone` does without it") from None
    except OSError:
        return None
    connection.settimeout(None)
    try:
        return msgspec.json.decode(heard, type=BrokerWelcome)
    except msgspec.DecodeError:
        return None


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
