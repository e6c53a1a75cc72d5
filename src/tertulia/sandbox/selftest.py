"""Tests a tier from inside, once, before its first command: a program tries to get out and must fail at everything.

What counts is judged from outside where that can be seen, and by the program's word where it cannot.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.sandbox.runner import Command, CommandResult, Confinement
from tertulia.sandbox.tier import PROTECTED_ATTEMPT, SIGNAL_ATTEMPT, Tier

ATTEMPTS = (
    "write outside the workspace",
    "empty a file outside by its path",
    "empty a file outside by opening it to read",
    "move a file out of the workspace",
    "reach a listener on this machine",
    "connect to a UNIX socket",
    SIGNAL_ATTEMPT,
    "mount",
    "open a kernel setting for writing",
    "read a masked file",
    PROTECTED_ATTEMPT,
)

_PROBE = """
import ctypes, json, os, socket, sys
masked, outside, unix, untouched = sys.argv[1], sys.argv[2], sys.argv[4], sys.argv[6]
port, parent = int(sys.argv[3]), int(sys.argv[5])
libc = ctypes.CDLL(None, use_errno=True)
def connect(family, address):
    with socket.socket(family) as s:
        s.settimeout(2)
        s.connect(address)
def mount():
    if libc.mount(b"none", b"/", None, 0x44000, None) and libc.unshare(0x10000000):
        raise OSError(ctypes.get_errno(), "refused")
def read():
    with open(masked) as f:
        if not f.read():
            raise OSError("it reads as empty")
def protected():
    os.makedirs(".git", exist_ok=True)
    with open(".git/made", "w") as f:
        f.write("x")
def attempt(act):
    try:
        act()
    except Exception:
        return False
    return True
for name in ("inside", "moved"):
    with open(name, "w") as f:
        f.write("x")
print(json.dumps({"succeeded": [attempt(act) for act in (
    lambda: os.close(os.open(outside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)),
    lambda: os.truncate(untouched, 0),
    lambda: os.close(os.open(untouched, os.O_RDONLY | os.O_TRUNC)),
    lambda: os.rename("moved", os.path.join(os.path.dirname(untouched), "moved")),
    lambda: connect(socket.AF_INET, ("127.0.0.1", port)),
    lambda: connect(socket.AF_UNIX, unix),
    lambda: os.kill(parent, 0),
    mount,
    lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)),
    read,
    protected,
)]}))
"""

_WRITE, _EMPTY, _, _MOVE, _LISTENER, _UNIX = ATTEMPTS[:6]
_UNTOUCHED = "untouched"
_PREFIX = "tertulia-try-"

Run = Callable[[Command], Coroutine[Any, Any, CommandResult]]


class _Answer(msgspec.Struct):
    succeeded: list[bool]


async def try_to_escape(tier: Tier, run: Run) -> tuple[str, ...]:
    """What was tried and held; SandboxUnavailable names what did not, or why nothing could be tried."""
    # Not in a thread, which would go on making it when this is cancelled: a few directories and sockets.
    try:
        scene = _Scene()
    except OSError as error:
        place = tempfile.gettempdir()
        raise SandboxUnavailableError(
            f"the self-test of the sandbox cannot be set up in {place}: {error.strerror}"
        ) from None
    try:
        finished = await run(scene.command())
        return _judge(tier, scene, finished)
    except SandboxError as error:
        raise SandboxUnavailableError(f"the sandbox ({tier.name}) does not start: {error.message}") from None
    finally:
        scene.close()


class _Scene:
    """A workspace, and things around it that must stay untouched."""

    def __init__(self) -> None:
        _remove_leftovers()
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.tcp, self.unix = socket.socket(), socket.socket(socket.AF_UNIX)
        # Where we are installed is seen inside, wherever that is.
        self.outside = os.path.join(os.path.dirname(__file__), f".probe-{secrets.token_hex(8)}")
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        self.workspace, self.untouched = os.path.join(self.folder, "workspace"), os.path.join(self.folder, "untouched")
        os.mkdir(self.workspace)
        with open(self.untouched, "w", encoding="ascii") as file:
            file.write(_UNTOUCHED)
        self.masked = os.path.join(self.folder, "masked")
        with open(self.masked, "w", encoding="ascii") as file:
            file.write(_UNTOUCHED)
        self.tcp.bind(("127.0.0.1", 0))
        self.unix.bind(os.path.join(self.workspace, "s"))
        for listener in (self.tcp, self.unix):
            listener.listen()
            listener.setblocking(False)

    def command(self) -> Command:
        arguments = (self.outside, self.tcp.getsockname()[1], self.unix.getsockname(), os.getpid(), self.untouched)
        return Command(
            argv=(sys.executable, "-I", "-S", "-c", _PROBE, self.masked, *map(str, arguments)),
            cwd=self.workspace,
            confinement=Confinement(mode="workspace_write", writable_roots=(self.workspace,), masked=(self.masked,)),
            environment={},
        )

    def reached(self) -> list[str]:
        """What was reached, as seen from here."""
        found = [_WRITE] if os.path.exists(self.outside) else []
        if os.path.getsize(self.untouched) != len(_UNTOUCHED):
            found.append(_EMPTY)
        if os.listdir(self.folder).count("moved"):
            found.append(_MOVE)
        for listener, attempt in ((self.tcp, _LISTENER), (self.unix, _UNIX)):
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                continue
            found.append(attempt)
        return found

    def close(self) -> None:
        self.tcp.close()
        self.unix.close()
        if os.path.exists(self.outside):
            os.unlink(self.outside)
        shutil.rmtree(self.folder, ignore_errors=True)


def _remove_leftovers() -> None:
    """Remove what processes left that were killed before they could."""
    folder = tempfile.gettempdir()
    for name in os.listdir(folder):
        number = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and number.isdigit() and not _is_there(int(number)):
            # Another user's is not ours to remove, and a link is refused.
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _judge(tier: Tier, scene: _Scene, finished: CommandResult) -> tuple[str, ...]:
    try:
        answer = msgspec.json.decode(finished.output.head, type=_Answer)
    except msgspec.DecodeError:
        text = finished.output.text()[-300:].strip() or f"exit code {finished.exit_code}"
        raise SandboxUnavailableError(f"the self-test of the sandbox ({tier.name}) did not run: {text}") from None
    leaks = {attempt for attempt, ok in zip(ATTEMPTS, answer.succeeded, strict=True) if ok} | {*scene.reached()}
    listed = leaks & tier.listed_attempts
    if leaks := leaks - listed:
        raise SandboxUnavailableError(
            f"the sandbox ({tier.name}) leaks here: a command could {'; '.join(sorted(leaks))}"
        )
    if not os.path.exists(os.path.join(scene.workspace, "inside")):
        raise SandboxUnavailableError(f"the sandbox ({tier.name}) does not let a command write to its workspace")
    return tuple(attempt for attempt in ATTEMPTS if attempt not in listed)
