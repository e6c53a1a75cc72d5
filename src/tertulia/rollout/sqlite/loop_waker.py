"""Wakes the event loop from another thread, at less cost than the loop's own way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress


class LoopWaker:
    """Wakes the loop from any thread, through an eventfd. Made and answered on the loop's thread.

    Raises OSError, AttributeError or NotImplementedError where there can be none. `ring` must not be called after
    `close`: the descriptor may be another file's by then.
    """

    __slots__ = ("_answer", "_fd", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[], None]) -> None:
        self._loop = loop
        self._answer = answer
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            loop.add_reader(self._fd, self._on_ring)
        except BaseException:
            os.close(self._fd)
            raise

    def ring(self) -> None:
        """Have it answered soon, once for all that rang before. From any thread; never blocks or raises."""
        try:
            os.eventfd_write(self._fd, 1)
        except OSError:
            # No system is known where it fails; a caller that waits for ever would be worse than the slow way.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer)

    def close(self) -> None:
        """On the loop's thread, or when the loop is gone."""
        # A closed loop has no readers to remove.
        with suppress(RuntimeError):
            self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _on_ring(self) -> None:
        with suppress(OSError):
            os.eventfd_read(self._fd)
        self._answer()
