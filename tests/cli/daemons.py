"""The shared brokers of one test: found by their home, and ended with the test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.cli.running import DEADLINE_S, Shell
from tests.mcp.connected import until
from tests.server.brokering import alive


class Daemons:
    """All that run for this home."""

    def __init__(self, shell: Shell) -> None:
        self.home = shell.folder.parent / "data"

    @property
    def folder(self) -> Path:
        """Where their sockets, locks and logs are."""
        return self.home / "broker"

    def pids(self) -> list[int]:
        return sorted(self._find())

    def log(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    async def gone(self) -> None:
        await until(lambda: not self.pids())

    def end(self) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self.pids():
            for _ in range(round(DEADLINE_S * 100)):
                if not alive(pid):
                    break
                os.sched_yield()

    def _find(self) -> Iterator[int]:
        mine = f"TERTULIA_HOME={self.home}".encode()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                environment = (folder / "environ").read_bytes().split(b"\0") if b"--daemon" in words else ()
                if mine in environment and alive(int(folder.name)):
                    yield int(folder.name)
