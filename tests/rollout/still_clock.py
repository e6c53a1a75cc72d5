"""A clock for the store's own tests, which need nothing of a session."""

from __future__ import annotations


class FakeClock:
    """Time that stands still until you move it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def set_wall(self, now: float) -> None:
        self._now = now
