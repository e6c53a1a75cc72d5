"""Decides when a sandbox is prepared: after a command, for the next one with the same confinement."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tertulia.errors import SandboxError
from tertulia.sandbox.prepared.prepared_sandbox import PreparedSandbox, Shape
from tertulia.sandbox.runner import Command
from tertulia.sandbox.tier import OnProcessEnd, ProcessEnd

MOST = 8
"""Of this process: further sessions start their commands without."""
_PAUSE_S = 0.002
"""After a command: first its caller goes on."""
_MOST_FAILURES = 2
_LONGEST = 100_000
"""Bytes of a command. What may be too long for the kernel goes the usual way, which says so before anything runs."""

_slots = threading.BoundedSemaphore(MOST)

Prepare = Callable[[Command, Callable[[], None]], PreparedSandbox]


class SandboxPreparation:
    """Of one tier: at most one sandbox waits. On one loop at a time."""

    def __init__(self, prepare: Prepare) -> None:
        """`prepare` makes one for a command, and has the other argument called when that waits no longer."""
        self._prepare = prepare
        self._waiting: PreparedSandbox | None = None
        self._there: set[PreparedSandbox] = set()
        """The one that waits, and those that are about to end."""
        self._failures = 0
        """Of those that were never ready: where they cannot be had they are not tried again and again."""
        self._timer: asyncio.TimerHandle | None = None

    def find(self, command: Command, shape: Shape) -> PreparedSandbox | None:
        """One that can serve this command at once."""
        waiting = self._waiting
        if waiting is None or not waiting.is_ready or waiting.shape != shape or not can_be_prepared(command):
            return None
        if waiting.is_stale():
            self._dismiss(waiting)
            return None
        return waiting

    def around(self, command: Command, ended: OnProcessEnd) -> OnProcessEnd:
        """Note that a command begins; returns a function to call when it has ended."""
        # It comes first: there is no processor to spare now.
        self._stop_timer()

        def has_ended(ending: ProcessEnd) -> None:
            if ending.began and self._failures < _MOST_FAILURES and can_be_prepared(command):
                self._stop_timer()
                self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._prepare_for, command)
            ended(ending)

        return has_ended

    def close(self) -> None:
        """End the one that waits; returns when none is left."""
        self._stop_timer()
        self._waiting = None
        for prepared in tuple(self._there):
            prepared.close()

    def _prepare_for(self, command: Command) -> None:
        waiting = self._waiting
        if waiting is not None:
            if waiting.is_for(command) and not waiting.is_stale():
                return
            self._dismiss(waiting)
        if not _slots.acquire(blocking=False):
            return
        try:
            self._waiting = prepared = self._prepare(command, lambda: self._over(prepared))
            self._there.add(prepared)
        except (OSError, SandboxError):
            # A root is gone, or there is nothing left to start it with: the next command will say so.
            _slots.release()

    def _over(self, prepared: PreparedSandbox) -> None:
        _slots.release()
        self._there.discard(prepared)
        if self._waiting is prepared:
            self._waiting = None
            self._failures += not prepared.is_ready

    def _dismiss(self, waiting: PreparedSandbox) -> None:
        self._waiting = None
        waiting.dismiss()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def can_be_prepared(command: Command) -> bool:
    """Whether it needs neither a terminal nor our own streams, and is not very long."""
    words = (*command.argv, *command.environment, *command.environment.values())
    return command.terminal is None and not command.inherit_stdio and sum(map(len, words)) < _LONGEST
