"""Measures a command's use of resources from time to time, in a thread, until a limit is exceeded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from tertulia.sandbox.limits.usage import UsageMeter
from tertulia.sandbox.runner import LimitName


class LimitWatch:
    """Calls back once, with the limit that was exceeded."""

    __slots__ = ("_exceeded", "_loop", "_meter", "_stopped", "_timer")

    def __init__(self, meter: UsageMeter, exceeded: Callable[[LimitName], None]) -> None:
        self._meter = meter
        self._exceeded = exceeded
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._timer = self._loop.call_later(meter.pause_s, self._look)

    def stop(self) -> None:
        """Stop looking. Calling it twice has no effect."""
        self._stopped = True
        self._timer.cancel()

    def _look(self) -> None:
        # In a thread: of a command with thousands of processes one look takes longer than others should wait.
        self._loop.run_in_executor(None, self._meter.look).add_done_callback(self._looked)

    def _looked(self, look: asyncio.Future[str | None]) -> None:
        if self._stopped or look.cancelled():
            return
        limit = look.result()
        if limit is not None:
            self._exceeded(cast(LimitName, limit))
        else:
            self._timer = self._loop.call_later(self._meter.pause_s, self._look)
