"""Handles SIGINT and SIGTERM: the first asks for an orderly end, a second one ends the process at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tertulia.events.clock import Clock, SystemClock

INTERRUPTED = 130
"""The exit code of a verb that a signal stopped."""
_HANDLED = (signal.SIGINT, signal.SIGTERM)
_ECHO_S = 0.1
"""`timeout` sends its signal to the program and then to its group: one that follows so soon is the same one."""


@contextmanager
def on_stop_signal(stop: Callable[[], object], clock: Clock | None = None) -> Generator[None]:
    """Have the running loop call `stop` once, at the first signal. Main thread only."""
    # Imported here, because every verb imports this file, and the broker's relay, which starts often, needs no loop.
    import asyncio

    loop, clock = asyncio.get_running_loop(), clock or SystemClock()
    first: float | None = None

    def handle(number: int, frame: object) -> None:
        nonlocal first
        if first is None:
            first = clock.monotonic()
            loop.call_soon_threadsafe(stop)
        elif clock.monotonic() - first >= _ECHO_S:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(number)

    # Not loop.add_signal_handler: its callback waits for the loop, and a loop that hangs in a write to a full pipe
    # would swallow the second signal like the first.
    before = {number: signal.signal(number, handle) for number in _HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
