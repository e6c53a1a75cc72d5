"""What is counted of an MCP server as long as the pool has it: starts, how long calls took, the last error."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

import msgspec

from tertulia.errors import McpError
from tertulia.events.clock import Clock

T = TypeVar("T")

KEPT_CALLS = 256
"""The most call durations that are kept of one server: the last ones."""


class ServerStatistics:
    """The counts of one server. A call adds one number; everything else is computed when a client asks."""

    __slots__ = ("_clock", "durations_s", "last_error_at", "starts")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.starts = 0
        """How often it became ready after it was started."""
        self.durations_s: deque[float] = deque(maxlen=KEPT_CALLS)
        """Of the last calls that the server answered."""
        self.last_error_at: float | None = None
        """When a start, a listing or a call failed, or the server ended by itself; seconds since 1970."""

    async def measured(self, call: Awaitable[T]) -> T:
        """The result of a call, whose duration is kept; of one that fails only the time of the error."""
        began = self._clock.monotonic()
        try:
            result = await call
        except McpError:
            self.note_error()
            raise
        self.durations_s.append(self._clock.monotonic() - began)
        return result

    def note_error(self) -> None:
        """Something of the server failed just now."""
        self.last_error_at = self._clock.now()


class ServerFigures(msgspec.Struct, frozen=True):
    """The counts of all processes that run for one configured server, taken together."""

    restarts: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    last_error_at: float | None = None


def figures_of(statistics: Iterable[ServerStatistics]) -> ServerFigures:
    """Restarts are added up, durations are put together, and the latest error counts."""
    counted = list(statistics)
    durations = sorted(duration for one in counted for duration in one.durations_s)
    return ServerFigures(
        restarts=sum(max(0, one.starts - 1) for one in counted),
        p50_ms=_percentile_ms(durations, 0.50),
        p95_ms=_percentile_ms(durations, 0.95),
        last_error_at=max((one.last_error_at for one in counted if one.last_error_at is not None), default=None),
    )


def _percentile_ms(ordered_s: Sequence[float], share: float) -> float | None:
    """The least duration that so large a share of all does not exceed."""
    if not ordered_s:
        return None
    return round(ordered_s[math.ceil(share * len(ordered_s)) - 1] * 1000, 1)
