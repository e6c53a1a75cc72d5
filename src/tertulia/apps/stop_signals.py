"""SIGINT and SIGTERM: the first asks for an orderly end, the second is obeyed as by any program."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

_HEARD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_stop_signal(stop: Callable[[], object]) -> Generator[None]:
    """Have the running loop call `stop` at the first of them, once. Main thread only."""
    loop = asyncio.get_running_loop()

    def heard(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        loop.call_soon_threadsafe(stop)

    # Not loop.add_signal_handler: its callback waits for the loop, and a loop that hangs in a write to a full pipe
    # would swallow the second signal like the first.
    before = {number: signal.signal(number, heard) for number in _HEARD}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
