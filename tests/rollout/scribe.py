"""A process that writes a session and says what was acknowledged, made to be killed and lied to.

Run as a program it imports everything once; then, for every line `FOLDER DURABILITY` on its standard input, it forks a
child that waits to be traced, and for the next line lets it go. The child appends, erases, sweeps and closes. What it
was told stands in FOLDER/told, one line each, in the page cache before the next step: no death of the process can
take it away.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tertulia.errors import StorageError
from tertulia.protocol.storage import Full, HeadersOnly, Ttl
from tertulia.rollout.sqlite import writer_pool
from tertulia.rollout.sqlite.owned_file import Durability
from tertulia.rollout.sqlite.sqlite_store import SqliteStore
from tertulia.rollout.store import Row, SweepResult
from tests.deadlines import HANG_S
from tests.rollout.still_clock import FakeClock

SESSION_ID = "00000000-1111-4222-8333-444444444444"
NOW = 1_700_000_000.0
APPENDS = 8
ROWS = 3
_PR_SET_PTRACER = 0x59616D61


def body(n: int) -> bytes:
    """What the record of that number says. Some are longer than a page."""
    return b'{"text": "canary %d %s"}' % (n, b"x" * (9000 if n % 7 == 0 else 300))


def record(n: int) -> Row:
    """That record. Of three, one expires; the second conversation is the one that is erased."""
    conversation = 2 if n % 3 == 2 else 1
    policy = Ttl(10) if n % 3 == 0 else Full()
    return Row(n, "said", "user", NOW + n / 100, n, conversation, 0, b'{"n": %d}' % n, body(n), policy)


class Scribe:
    """Writes everything down, and tries again under a higher attempt where it was refused."""

    def __init__(self, folder: Path, durability: Durability) -> None:
        self._store = SqliteStore(folder / "home", SESSION_ID, FakeClock(NOW), durability)
        self._told = os.open(folder / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._attempt = 0

    async def write(self) -> None:
        """The reference run."""
        await self._until_done("claim", self._store.claim)
        n = 1
        for _ in range(APPENDS):
            rows = [record(n + place) for place in range(ROWS)]
            await self._until_done(f"kept {n}", lambda done, rows=rows: self._store.append(rows, self._attempt, done))
            n += ROWS
        await self._until_done("erased", lambda done: self._store.enforce(2, HeadersOnly(), (), self._attempt, done))
        await self._until_done("swept", lambda done: self._store.sweep(NOW + 60, "headers_only", done))
        rows = [record(n)]
        await self._until_done(f"last {n}", lambda done: self._store.append(rows, self._attempt, done))
        await self._ask("closed", self._store.close)

    async def _until_done(self, what: str, act: Callable[[Callable[[Any], None]], None]) -> None:
        for _ in range(3):
            while self._store._writer._waiting:  # noqa: ASYNC110
                # Where a thread still has the file, it would get this job, too.
                await asyncio.sleep(0)
            if await self._ask(what, act):
                return
            self._attempt += 1
            # Whoever limited the size of our files has given us more room by now.
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    async def _ask(self, what: str, act: Callable[[Callable[[Any], None]], None]) -> bool:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(outcome: StorageError | SweepResult | None) -> None:
            failed = isinstance(outcome, StorageError)
            line = f"failed {what}: {outcome.detail.get('kind')}: {outcome.message}" if failed else what
            os.writev(self._told, [line.encode() + b"\n"])  # not write: that one may be made to fail
            answer.set_result(not failed)

        act(done)
        return await answer


def _child(folder: Path, durability: str, limit: int, signal: int) -> None:
    # Whoever is told our number may trace us, where only parents could.
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    # Traced, every disk is slow. "full" is what a quick one has: the loop commits; "full-slow" leaves it to threads.
    writer_pool.SLOW_FLUSH_S = HANG_S if durability == "full" else -1.0
    scribe = Scribe(folder, "full" if durability.startswith("full") else "normal")
    os.write(1, b"%d\n" % os.getpid())
    os.read(signal, 1)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    asyncio.run(scribe.write())


def main() -> None:
    """Serve standard input."""
    # Nothing is buffered: the next byte belongs to the child.
    while line := _line():
        folder, durability, limit = line.split("\t")
        signal, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _child(Path(folder), durability, int(limit), signal)
                code = 0
            finally:
                os._exit(code)
        # Read by us, not by the child: it may be dead by now, and the next line is not its business.
        os.write(go, os.read(0, 1))
        _, status = os.waitpid(pid, 0)
        os.close(signal)
        os.close(go)
        os.write(1, b"%d\n" % status)


def _line() -> str:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return ""
        line += byte
    return line.decode().strip()


if __name__ == "__main__":
    main()
