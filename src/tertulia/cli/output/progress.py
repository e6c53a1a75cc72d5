"""How far long work has come: a bar that a terminal shows on standard error, and nothing anywhere else."""

from __future__ import annotations

from types import TracebackType

from tertulia.cli.output.terminal import TerminalOutput
from tertulia.events.clock import Clock, SystemClock

_QUIET_S = 0.5
"""Work that is done sooner shows no bar."""
_BETWEEN_S = 0.1
_WIDTH = 24


class ProgressBar:
    """One line of a terminal, from half a second after the work began to its end; then it is cleared."""

    def __init__(self, notes: TerminalOutput, work: str, *, clock: Clock | None = None) -> None:
        """`work` is what is done, for people."""
        self._notes = notes
        self._work = work
        self._clock = clock or SystemClock()
        self._next = self._clock.monotonic() + _QUIET_S
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        """So many of all are done."""
        now = self._clock.monotonic()
        if now < self._next or total <= 0:
            return
        self._next = now + _BETWEEN_S
        self._drawn = True
        share = min(1.0, done / total)
        bar = "█" * int(_WIDTH * share)
        self._notes.rewrite((self._work, "bold"), f" {bar:░<{_WIDTH}} {share:4.0%} of {total:,}")

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._notes.rewrite()
