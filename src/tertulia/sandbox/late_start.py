"""A command that begins when something that blocks is done, and is over when something else is: both off the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from tertulia.errors import SandboxError, SandboxUnavailableError
from tertulia.sandbox.runner import Change
from tertulia.sandbox.tier import Ended, Ending, Spawned, Streams

_BY_SIGKILL = 128 + 9


class Around(Protocol):
    """What is done before a command and after it."""

    def before(self) -> None:
        """Blocks. SandboxError where it must not begin; then `after` is called all the same."""
        ...

    def after(self) -> tuple[Change, ...]:
        """Blocks. Nothing of the command runs any more."""
        ...


class LateStart:
    """Implements `Spawned`."""

    def __init__(
        self, around: Around, start: Callable[[Streams, Ended], Spawned], streams: Streams, ended: Ended
    ) -> None:
        """`start` raises before anything runs, as `Tier.spawn` does."""
        self._around, self._start, self._ended = around, start, ended
        self._loop = asyncio.get_running_loop()
        self._spawned: Spawned | None = None
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
                self._over(Ending(_BY_SIGKILL))
            else:
                self._spawned = self._start(self._streams, self._over)
        except (SandboxError, SandboxUnavailableError) as error:
            self._over(Ending(1, began=False, reason=error.message))
        except OSError as error:
            self._over(Ending(1, began=False, reason=error.strerror or str(error)))
        finally:
            for fd in (self._streams.stdin, self._streams.stdout, self._streams.stderr):
                os.close(fd)

    def _over(self, ending: Ending) -> None:
        looked = self._loop.run_in_executor(None, self._around.after)
        looked.add_done_callback(lambda done: self._ended(replace(ending, changes=done.result())))
