"""A loop whose time passes only when nothing else is left to do, and then at once: no test waits, none is early."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTime(selectors.DefaultSelector):
    """Instead of waiting, it lets the time pass."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everybody waits, and nobody will ever come"
            self.seconds += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The clock of the loop, and of whoever asks it."""

    def __init__(self) -> None:
        self._now = VirtualTime()
        super().__init__(self._now)

    def time(self) -> float:
        return self._now.seconds


class LoopClock:
    """The time of the loop that runs."""

    def now(self) -> float:
        return 1_000_000.0 + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def run(work: Coroutine[Any, Any, T]) -> T:
    """To its end, however long that takes in there."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
