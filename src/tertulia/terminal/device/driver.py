"""Textual's terminal driver with two changes: mouse movement is reported only while a button is down, and it sets the
title.
"""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver

_MOUSE_MODES = (1000, 1002, 1006)
"""Buttons, movement with a button down, positions beyond column 223. Not 1003, which reports every movement."""


class TerminalDriver(LinuxDriver):
    """The driver of the screen. Restores the window's title at the end."""

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
