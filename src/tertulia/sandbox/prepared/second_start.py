"""A command that was given to a prepared sandbox, and is started in one of its own where that ends before it begins."""

from __future__ import annotations

import os
from collections.abc import Callable

from tertulia.errors import SandboxError
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, SpawnedProcess, Streams

StartAgain = Callable[[Streams], SpawnedProcess]


class SecondStart:
    """Implements `SpawnedProcess`: the first process, and the second where there has to be one."""

    def __init__(self, first: SpawnedProcess, streams: Streams, again: StartAgain, ended: OnProcessEnd) -> None:
        """`again` starts the command without a prepared sandbox. OSError where no more descriptors can be had."""
        self._process, self._again, self._ended = first, again, ended
        self._fds: list[int] = []
        self._killed = False
        try:
            for fd in (streams.stdin, streams.stdout, streams.stderr):
                self._fds.append(os.dup(fd))
        except OSError:
            self.begun()
            raise

    def begun(self) -> None:
        """The command begins: it is never started a second time, and its streams are its own."""
        while self._fds:
            os.close(self._fds.pop())

    def lost(self, ending: ProcessEnd) -> None:
        """The prepared sandbox is gone, and nothing of the command ran in it."""
        if self._killed:
            self.over(ending)
            return
        try:
            self._process = self._again(Streams(*self._fds))
        except SandboxError as error:
            self._ended(ProcessEnd(ending.exit_code, began=False, reason=error.message, changes=ending.changes))
        finally:
            self.begun()

    def over(self, ending: ProcessEnd) -> None:
        """It has ended in the prepared sandbox, or was refused there."""
        self.begun()
        self._ended(ending)

    def kill(self) -> None:
        """End all of it, and start it no second time."""
        self._killed = True
        self._process.kill()

    def terminate(self) -> None:
        """Pass it on to the process that runs now."""
        self._process.terminate()

    def leader(self) -> int | None:
        """The command in the process that runs now."""
        return self._process.leader()
