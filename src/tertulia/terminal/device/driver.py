"""Textual's terminal driver with three changes: mouse movement is reported only while a button is down, it sets the
title, and a terminal that is gone ends the program.
"""

from __future__ import annotations

import os
import signal
from typing import IO, Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

_MOUSE_MODES = (1000, 1002, 1006)
"""Buttons, movement with a button down, positions beyond column 223. Not 1003, which reports every movement."""


def hang_up() -> None:
    """Tell this process that its terminal is gone."""
    os.kill(os.getpid(), signal.SIGHUP)


class LosableTerminal:
    """A terminal that is written to until it is gone; what is written after that is dropped.

    Textual writes in a thread, and lets the loop wait for room in its queue: without this the thread would end with the
    first error, and the loop would wait for ever.
    """

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal
        self._is_gone = False

    def write(self, text: str) -> int:
        """Write it, or drop it."""
        return self._attempt(self._terminal.write, text)

    def flush(self) -> None:
        """Send what was written, if there still is a terminal."""
        self._attempt(self._terminal.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)

    def _attempt(self, act: Any, *values: Any) -> Any:
        if not self._is_gone:
            try:
                return act(*values)
            except OSError:
                # Its window was closed, or the connection to it is lost. The system may have said so, or not yet.
                self._is_gone = True
                hang_up()
        return 0


class TerminalDriver(LinuxDriver):
    """The driver of the screen. Restores the window's title at the end."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)  # pyright: ignore[reportUnknownMemberType]
        self._file: Any = LosableTerminal(self._file)

    def _enable_mouse_support(self) -> None:
        if self._mouse:
            self.write("".join(f"\x1b[?{mode}h" for mode in _MOUSE_MODES))
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("".join(f"\x1b[?{mode}l" for mode in _MOUSE_MODES))
            self.flush()

    def _enable_mouse_pixels(self) -> None:
        """Cells are enough for everything that can be clicked here."""

    def leave_mouse_to_terminal(self) -> None:
        """Leave text selection to the terminal from now on."""
        self._disable_mouse_support()
        self._mouse = False

    def start_application_mode(self) -> None:
        """Take the terminal, and remember its title."""
        super().start_application_mode()
        self.write("\x1b[22;2t")

    def stop_application_mode(self) -> None:
        """Give the terminal back, with the title that it had."""
        self.write("\x1b[23;2t")
        super().stop_application_mode()

    def set_title(self, title: str) -> None:
        """Set the window title; only texts of the program, never those of a model."""
        self.send(f"\x1b]2;{title}\x07")

    def send(self, codes: str) -> None:
        """Send control codes to the terminal, unless another program has it."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self.write(codes)
            self.flush()
