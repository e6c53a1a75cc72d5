"""A person at a terminal, for tests: a real pseudo-terminal with an interactive shell in front of it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.deadlines import HANG_S
from tests.sandbox.confined import ROOT

DEADLINE_S = HANG_S
PROMPT = "ready> "


class Person:
    """Types and reads. Close it: the shell and whatever hangs on its terminal end."""

    def __init__(self, folder: Path, *line: str) -> None:
        argv = line or ("bash", "--norc", "--noprofile", "-i")
        self.seen = ""
        self._read = 0
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "HOME": str(folder.parent / "home"),
            "TERTULIA_HOME": str(folder.parent / "data"),
            "TERM": "dumb",
            "PS1": PROMPT,
        }
        self.shell, self._master = pty.fork()
        if self.shell == 0:
            os.chdir(folder)
            os.execvpe(argv[0], argv, environment)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, pattern: str) -> str:
        """The next place where it matches, after whatever was waited for before; all that came until then."""
        until = time.monotonic() + DEADLINE_S
        while (found := re.compile(pattern).search(self.seen, self._read)) is None:
            left = until - time.monotonic()
            ready, _, _ = select.select([self._master], [], [], max(0.0, left))
            assert ready, f"{pattern!r} did not come: {self.seen[self._read :]!r}"
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                data = b""
            assert data, f"the terminal was closed before {pattern!r} came: {self.seen[self._read :]!r}"
            self.seen += data.decode("utf-8", "replace")
        before, self._read = self.seen[self._read : found.end()], found.end()
        return before

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.shell, signal.SIGKILL)
        os.waitpid(self.shell, 0)
        os.close(self._master)
