"""How long a test waits for what must come, and how long something took that was promised in seconds."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

HANG_S = 100.0
"""On a machine with much other work only a hang takes longer.
Below the `timeout` of pytest, so that a wait that fails says what it waited for."""

_PRESSURE = Path("/proc/pressure/cpu")
_PRESSURE_PERIOD_S = 2.0
"""How old the numbers of the kernel may be."""


class QuietTime:
    """Counts the seconds from its making in which every process of this machine that wanted a processor had one.

    On an idle machine these are all seconds, so that a promise in seconds is held to the letter there. Where other
    programs take the processors none are left, and the test proves only that what it waits for ends before `HANG_S`.
    Without the kernel's numbers (before Linux 4.20, or switched off) no second counts.
    """

    def __init__(self) -> None:
        self._began, self._waited = monotonic(), _waited_s()

    @property
    def seconds(self) -> float:
        """Never more than have passed."""
        if self._waited is None or (waited := _waited_s()) is None:
            return 0.0
        disturbed = waited - self._waited
        # What the kernel has not counted yet.
        unknown = _PRESSURE_PERIOD_S if disturbed > 0 else 0.0
        return max(0.0, monotonic() - self._began - disturbed - unknown)


def _waited_s() -> float | None:
    """How long, since the machine was started, some process was ready to run and had no processor."""
    try:
        some = _PRESSURE.read_text().splitlines()[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / 1e6
