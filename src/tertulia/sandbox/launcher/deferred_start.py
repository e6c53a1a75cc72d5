"""A command that begins when something that blocks is done, and is over when something else is: both off the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.sandbox.runner import Change
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd, SpawnedProcess, Streams

_BY_SIGKILL = 128 + 9


class StartHooks(Protocol):
    """What is done before a command and after it."""

    def before(self) -> None:
        """Blocks. SandboxError where it must not begin; then `after` is called all the same."""
        ...

    def after(self) -> tuple[Change, ...]:
        """Blocks. Nothing of the command runs any more."""
        ...


class DeferredStart:
    """Implements `SpawnedProcess`."""

    def __init__(
        self,
        around: StartHooks,
        start: Callable[[Streams, OnProcessEnd], SpawnedProcess],
        streams: Streams,
        ended: OnProcessEnd,
    ) -> None:
        """`start` raises before anything runs, as `Tier.spawn` does."""
        self._around, self._start, self._ended = around, start, ended
        self._loop = asyncio.get_running_loop()
        self._spawned: SpawnedProcess | None = None
        self._killed = False
        # Whoever made them closes them as soon as this returns.
        self._streams = Streams(*(os.dup(fd) for fd in (streams.stdin, streams.stdout, streams.stderr)))
        self._loop.run_in_executor(None, around.before).add_done_callback(self._ready)

    def kill(self) -> None:
        """End all of it; what has not begun does not."""
        self._killed = True
        if self._spawned is not None:
            self._spawned.kill()

    def terminate(self) -> None:
        """To the command, if it has begun."""
        if self._spawned is not None:
            self._spawned.terminate()

    def leader(self) -> int | None:
        """The command's."""
        return None if self._spawned is None else self._spawned.leader()

    def _ready(self, done: asyncio.Future[None]) -> None:
        try:
            done.result()
            if self._killed:
                self._over(ProcessEnd(_BY_SIGKILL))
            else:
                self._spawned = self._start(self._streams, self._over)
        except (SandboxError, SandboxUnavailableError) as error:
            self._over(ProcessEnd(1, began=False, reason=error.message))
        except OSError as error:
            self._over(ProcessEnd(1, began=False, reason=error.strerror or str(error)))
        finally:
            for fd in (self._streams.stdin, self._streams.stdout, self._streams.stderr):
                os.close(fd)

    def _over(self, ending: ProcessEnd) -> None:
        looked = self._loop.run_in_executor(None, self._around.after)
        looked.add_done_callback(lambda done: self._ended(replace(ending, changes=done.result())))
