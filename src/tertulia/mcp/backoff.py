"""How long to leave a server alone that fails: longer each time, and never more than a minute."""

from __future__ import annotations

from tertulia.events.clock import Clock

FIRST_S = 0.5
LONGEST_S = 60.0
PATIENCE = 8
"""After so many failures in a row only somebody who wants something of the server has it tried again."""


class Backoff:
    """Counts the failures in a row. A life that lasted longer than the longest wait begins the count anew."""

    __slots__ = ("_alive_since", "_clock", "_until", "failures")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic()
        self._alive_since: float | None = None
        self.failures = 0

    def started(self) -> None:
        """It runs. Whether that is worth anything is seen when it ends: one may die right after each start."""
        self._alive_since = self._clock.monotonic()

    def failed(self) -> None:
        """It did not start, or it ended by itself."""
        now = self._clock.monotonic()
        if self._alive_since is not None and now - self._alive_since > LONGEST_S:
            self.failures = 0
        self._alive_since = None
        # The exponent is bounded, or a server that nobody repairs would some day overflow it.
        self._until = now + min(LONGEST_S, FIRST_S * 2 ** min(self.failures, 10))
        self.failures += 1

    def waive(self) -> None:
        """A person asks for it: the next try need not wait. If it fails too, the one after that waits longer."""
        self._until = self._clock.monotonic()

    @property
    def hopeless(self) -> bool:
        """Whether it is of no use to go on trying unasked."""
        return self.failures > PATIENCE

    def left_s(self) -> float:
        """Until the next try is allowed; 0.0: now."""
        return max(0.0, self._until - self._clock.monotonic())
