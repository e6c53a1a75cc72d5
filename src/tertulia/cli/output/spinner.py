"""A sign on a terminal that the program waits: a line of its own, which is gone before anything else is printed."""

from __future__ import annotations

import asyncio

from tertulia.cli.output.terminal import TerminalOutput

DELAY_S = 0.4
"""Of silence before it shows: what comes sooner is not preceded by a flicker."""
_STEP_S = 0.1
_FRAMES = "|/-\\"


class Spinner:
    """Turns while something is awaited."""

    def __init__(self, out: TerminalOutput) -> None:
        """`out` can print a line over."""
        self._out = out
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._frame = 0
        self._is_drawn = False

    def start(self) -> None:
        """Show it after a moment, if nothing is printed meanwhile. Needs a running loop. Idempotent."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            self._timer = loop.call_later(DELAY_S, self._turn)

    def stop(self) -> None:
        """Clear the line, and show it no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_drawn:
            self._is_drawn = False
            self._out.rewrite()

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._frame = (self._frame + 1) % len(_FRAMES)
        self._out.rewrite((f"{_FRAMES[self._frame]} {loop.time() - self._since:.0f} s", "dim"))
        self._is_drawn = True
        self._timer = loop.call_later(_STEP_S, self._turn)
