"""The injected clock, and timestamps: the only module that reads the machine's time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for people, monotonic time for measuring. Deadlines and expiries use the monotonic one only."""

    def now(self) -> float:
        """Seconds since 1970, UTC. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment. Never goes back."""
        ...


class SystemClock:
    """The clock of this machine."""

    __slots__ = ()

    def now(self) -> float:
        """Seconds since 1970, UTC, by the system clock."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since an unspecified moment; never goes back."""
        return time.monotonic()


class Timestamps:
    """RFC 3339 timestamps with milliseconds, cached: formatted at most once for each millisecond."""

    __slots__ = ("_clock", "_millisecond", "_prefix", "_second", "_text")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._millisecond: int | None = None
        self._second: int | None = None
        self._text = self._prefix = ""

    def __call__(self) -> str:
        """The timestamp of the present moment."""
        return self.at(self._clock.now())

    def at(self, seconds: float) -> str:
        """The timestamp of a moment, in seconds since 1970."""
        millisecond = int(seconds * 1000)
        if millisecond != self._millisecond:
            second, rest = divmod(millisecond, 1000)
            if second != self._second:
                self._second = second
                self._prefix = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._millisecond = millisecond
            self._text = f"{self._prefix}.{rest:03d}Z"
        return self._text
