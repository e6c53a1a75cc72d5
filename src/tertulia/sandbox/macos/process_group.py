"""A command and what it starts, without namespaces and without `/proc`: ended by its group and by descent."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, Streams

_PS = "/bin/ps"
_TRIES = 5
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal on standard input the command's own, before it is confined."""


class ProcessGroup:
    """One running command; implements `SpawnedProcess`."""

    def __init__(
        self,
        line: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        streams: Streams,
        ended: OnProcessEnd,
        *,
        terminal: bool = False,
        new_session: bool = True,
        removes: Sequence[str] = (),
    ) -> None:
        """`removes`: directories that are the command's alone, and go with it. OSError where it cannot be started."""
        if terminal:
            line = (sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *line)
        self._loop, self._ended, self._removes = asyncio.get_running_loop(), ended, removes
        self._new_session = new_session
        self._process = subprocess.Popen(
            line,
            cwd=cwd,
            env=dict(environment),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            start_new_session=new_session,
        )
        threading.Thread(target=self._wait, name="command", daemon=True).start()

    def kill(self) -> None:
        """All of the group, and all that descends from it and has left the group."""
        self._end(found=_descendants(self._process.pid))

    def terminate(self) -> None:
        """SIGTERM to the command itself."""
        self._process.terminate()

    def leader(self) -> int | None:
        """The command, while it runs in a session of its own."""
        return self._process.pid if self._new_session and self._process.returncode is None else None

    def _wait(self) -> None:
        code = self._process.wait()
        # The group has that number as long as a process is left in it.
        self._end(found=())
        for folder in self._removes:
            shutil.rmtree(folder, ignore_errors=True)
        ending = ProcessEnd(code if code >= 0 else 128 - code)
        with suppress(RuntimeError):
            # The loop may be gone, and with it all that wait for this.
            self._loop.call_soon_threadsafe(self._ended, ending)

    def _end(self, found: Sequence[int]) -> None:
        if self._new_session:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif self._process.returncode is None:
            self._process.kill()
        for _ in range(_TRIES):
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                break
            found = [child for pid in found for child in _descendants(pid)]


def _descendants(first: int) -> list[int]:
    """Of a process, as far as each one that started another still lives."""
    try:
        listed = subprocess.run([_PS, "-axo", "pid=,ppid="], capture_output=True, check=True, env={}).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    below: dict[int, list[int]] = {}
    for pid, parent in (map(int, line.split()) for line in listed.splitlines()):
        below.setdefault(parent, []).append(pid)
    found, at = [first], 0
    while at < len(found):
        found += below.get(found[at], [])
        at += 1
    return found[1:]
