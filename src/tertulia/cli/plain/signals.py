"""Signals at a plain terminal: Ctrl-C reaches the main thread, also while readline waits for a key."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNAL_AGAIN_S = 0.1


class LeaveSignal(BaseException):
    """SIGTERM, or the terminal is gone. Not an Exception: nothing on the way may catch it."""


class Signals:
    """Raises KeyboardInterrupt at SIGINT and, once, `LeaveSignal` at SIGTERM or when the terminal is gone.

    In the main thread, also while readline waits for a key: a signal that comes just before it waits does not wake it,
    so a thread sends one again until it was taken.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._closing = threading.Event()
        self._taken = 0
        self._left = False
        self._holds = False
        self._missed: BaseException | None = None

    def __enter__(self) -> Signals:
        for number in (self._reading, self._writing):
            os.set_blocking(number, number == self._reading)
        self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(target=self._send_again, name="signals", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._writing)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: object) -> None:
        self._taken += 1
        if number != signal.SIGINT and self._left:
            return
        self._left = self._left or number != signal.SIGINT
        error = KeyboardInterrupt() if number == signal.SIGINT else LeaveSignal()
        if not self._holds:
            raise error
        self._missed = error

    @contextmanager
    def held(self) -> Generator[None]:
        """What comes in this block is raised at its end: the block is done whole."""
        self._missed, self._holds = None, True
        try:
            yield
        finally:
            self._holds = False
        if self._missed is not None:
            raise self._missed

    def _send_again(self) -> None:
        main, seen, echoes = threading.main_thread().ident or 0, 0, 0
        while number := os.read(self._reading, 1):
            if echoes:
                # What is sent again is written here too.
                echoes -= 1
                continue
            while not self._closing.wait(_SIGNAL_AGAIN_S) and self._taken <= seen:
                signal.pthread_kill(main, number[0])
                echoes += 1
            seen += 1
        os.close(self._reading)
