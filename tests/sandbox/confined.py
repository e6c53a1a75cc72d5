"""Running things confined, for tests: a workspace, commands in it, and what is left of them on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tertulia
from tertulia.errors import SandboxUnavailableError
from tertulia.events.clock import SystemClock
from tertulia.sandbox.prepared.prepared_sandbox import PreparedSandbox
from tertulia.sandbox.runner import Command, CommandLimits, Confinement
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S
NOBODY = 65534
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@functools.cache
def why_not(tier: str) -> str | None:
    """Why this tier cannot be had here, if it cannot."""

    async def check() -> None:
        sandbox = Sandbox(tier=tier, clock=SystemClock())  # type: ignore[arg-type]
        try:
            await sandbox.check()
        finally:
            await sandbox.close()

    # In a thread of its own: whoever asks may have a loop already.
    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(asyncio.run, check()).result()
        except SandboxUnavailableError as error:
            return error.message
    return None


def need(tier: str) -> None:
    """Skip the test, and say why, where this tier cannot be had."""
    reason = None if tier == "none" else why_not(tier)
    if reason is not None:
        pytest.skip(reason)


class Place:
    """A workspace of a test."""

    def __init__(self, folder: Path) -> None:
        self.root = Path(os.path.realpath(folder)) / "workspace"
        self.root.mkdir()
        self.tag = f"tag{secrets.token_hex(6)}"
        """In the arguments of whatever must not survive."""

    def command(self, *argv: str, limits: CommandLimits | None = None, **fields: Any) -> Command:
        """One that may write to the workspace."""
        confinement = Confinement(mode="workspace_write", writable_roots=(str(self.root),))
        if limits is not None:
            confinement = replace(confinement, limits=limits)
        params = {"cwd": str(self.root), "confinement": confinement, "environment": ENVIRONMENT}
        return Command(argv=argv, **{**params, **fields})

    def python(self, code: str, *arguments: str, **fields: Any) -> Command:
        """A Python program."""
        return self.command(sys.executable, "-I", "-S", "-c", code, *arguments, **fields)

    def survivors(self) -> list[int]:
        """Processes of this machine that carry the tag."""
        return tagged(self.tag)

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait for something that nobody tells us of; fails when it does not come."""
        loop = asyncio.get_running_loop()
        came = asyncio.Event()

        def look() -> None:
            if happened():
                came.set()
            else:
                loop.call_soon(look)

        look()
        await asyncio.wait_for(came.wait(), DEADLINE_S)


async def waiting_sandbox(sandbox: Sandbox) -> PreparedSandbox:
    """The one that is prepared after a command, as soon as it is ready."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            waiting = sandbox._tier._preparation._waiting  # type: ignore[attr-defined]
            if waiting is not None and waiting.is_ready:
                return waiting
            await asyncio.sleep(0)


@contextlib.contextmanager
def counted_uses() -> Iterator[list[PreparedSandbox]]:
    """Each prepared sandbox that was used meanwhile."""
    used: list[PreparedSandbox] = []
    take = PreparedSandbox.take

    def taking(prepared: PreparedSandbox, *arguments: Any) -> Any:
        taken = take(prepared, *arguments)
        used.append(prepared)
        return taken

    PreparedSandbox.take = taking  # type: ignore[method-assign]
    try:
        yield used
    finally:
        PreparedSandbox.take = take  # type: ignore[method-assign]


async def idle_threads() -> None:
    """Wait until no thread of the loop does anything: what a command no longer needs is closed there."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, int)
    pool = loop._default_executor  # type: ignore[attr-defined]
    together = threading.Barrier(pool._max_workers)
    await asyncio.gather(*(loop.run_in_executor(None, together.wait, HANG_S) for _ in range(pool._max_workers)))


def tagged(tag: str) -> list[int]:
    """Processes that have this text among their arguments, ourselves left out."""
    found: list[int] = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = Path(entry.path, "cmdline").read_bytes()
        except OSError:
            continue
        if tag.encode() in line:
            found.append(int(entry.name))
    return found


DAEMON = """
import os, sys
# Two forks and a session of its own: no group and no terminal leads to it.
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sh", ["sh", "-c", "sleep 600; :", sys.argv[1]])
    os._exit(0)
os.wait()
print("up", flush=True)
os.execvp("sh", ["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 600; done", sys.argv[1]])
"""
"""Leaves a daemon behind and ignores every polite signal; both carry the tag in their arguments."""


def ordinary_python() -> str | None:
    """A Python that an ordinary user can run with our packages; None where there is none, or we are not root."""
    if os.getuid() != 0:
        return None
    candidates = (sys.executable, os.path.realpath(sys.executable), "/usr/bin/python3")
    return next((path for path in candidates if _runs(path)), None)


def as_ordinary_user(*line: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run it as nobody in particular, with our packages."""
    packages = [str(Path(tertulia.__file__).parents[1]), str(ROOT), *(path for path in sys.path if "packages" in path)]
    environment = {
        **ENVIRONMENT,
        "HOME": "/nonexistent",
        "PYTHONPATH": ":".join(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment["CANARY"] = "canary-9c1b77"
    return subprocess.run(
        line, user=NOBODY, group=NOBODY, extra_groups=[], env=environment, cwd="/", text=True,
        capture_output=True, check=False, **{"timeout": 55, **options},
    )  # fmt: skip


def _runs(python: str) -> bool:
    try:
        return as_ordinary_user(python, "-c", "import msgspec, tertulia.sandbox.sandbox").returncode == 0
    except OSError:
        return False
