"""Holding a command to limits that the kernel does not hold for us, on the loop: by looking from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from tertulia.sandbox.runner import LimitName
from tertulia.sandbox.usage import Meter


class ProcessWatch:
    """Calls back once, with the limit that was exceeded."""

    __slots__ = ("_exceeded", "_meter", "_timer")

    def __init__(self, meter: Meter, exceeded: Callable[[LimitName], None]) -> None:
        self._meter = meter
        self._exceeded = exceeded
        self._timer = asyncio.get_running_loop().call_later(meter.pause_s, self._look)

    def stop(self) -> None:
        """Again is nothing."""
        self._timer.cancel()

    def _look(self) -> None:
        limit = self._meter.look()
        if limit is not None:
            self._exceeded(cast(LimitName, limit))
        else:
            self._timer = asyncio.get_running_loop().call_later(self._meter.pause_s, self._look)
