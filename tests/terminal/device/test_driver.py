"""The driver of the screen when the terminal is gone."""

from __future__ import annotations

import os
import pty
from contextlib import suppress
from threading import Thread

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from tertulia.terminal.device import driver
from tertulia.terminal.device.driver import LosableTerminal
from tests.deadlines import HANG_S


def test_writing_to_a_terminal_that_is_gone_never_waits_and_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A22: the loop of the program goes on, so that signals and the end of the session are not held up."""
    calls: list[str] = []
    monkeypatch.setattr(driver, "hang_up", lambda: calls.append("hung up"))
    primary, secondary = pty.openpty()
    terminal = os.fdopen(secondary, "w")
    lost = LosableTerminal(terminal)
    assert lost.fileno() == secondary
    os.close(primary)
    writer = WriterThread(lost)  # pyright: ignore[reportArgumentType]
    writer.start()

    def write_much() -> None:
        for _ in range(3 * MAX_QUEUED_WRITES):
            writer.write("text")

    screen = Thread(target=write_much, daemon=True)
    screen.start()
    screen.join(HANG_S)
    assert not screen.is_alive(), "the screen waits for a terminal that is gone"
    writer.stop()
    with suppress(OSError):
        terminal.close()
    assert calls == ["hung up"]
