"""Logs, what is left behind, and the editor."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from tertulia.terminal.device.clipboard import copy_by_program
from tertulia.terminal.device.farewell import farewell
from tertulia.terminal.device.log_file import ScreenLog
from tertulia.view.board import Board
from tests.terminal.played_port import BEGIN, answered, played, wrote


def board_of(*steps: dict[str, object]) -> Board:
    board = Board()
    for event in played(*steps):
        board.take(event)
    return board


def test_the_last_exchange_and_the_way_to_go_on_are_left_behind() -> None:
    board = board_of(
        *BEGIN, *wrote("root", "First?", "t1"), *answered("root", "One.", "t1"), *wrote("root", "Then?", "t2")
    )
    assert farewell(board, stored=True) == "› Then?\n\n1,280 tokens\nTo go on: tertulia resume session\n"
    board = board_of(*BEGIN, *wrote("root", "First?", "t1"), *answered("root", "One\x1b[31m.", "t1"))
    assert farewell(board, stored=False) == "› First?\n\nOne⟨U+001B⟩[31m.\n\n1,280 tokens\n"


def test_of_a_long_answer_the_end_is_left_behind_and_of_no_message_nothing() -> None:
    long = "\n".join(f"line {number}" for number in range(50))
    left = farewell(board_of(*BEGIN, *wrote("root", "Go.", "t1"), *answered("root", long, "t1")), stored=True)
    assert "… 30 lines before\nline 30" in left
    assert farewell(board_of(*BEGIN), stored=True) == ""


def test_what_is_logged_waits_for_its_file_and_goes_nowhere_else(
    tmp_path: Path, capsys: object, caplog: object
) -> None:
    before = logging.getLogger().handlers[:]
    with ScreenLog() as log:
        logging.getLogger("tertulia.test").warning("early")
        log.write_to(tmp_path / "logs")
        logging.getLogger("tertulia.test").warning("late")
        assert log.path is not None
    text = log.path.read_text()
    assert text.index("early") < text.index("late")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert logging.getLogger().handlers == before


def test_a_program_of_the_desktop_takes_what_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UI.md 4.7: OSC 52, else a clipboard program; one that fails is passed over."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    for name, script in {"wl-copy": "exit 1", "xclip": f"cat > {tmp_path}/copied"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o700)
    assert copy_by_program("def f():\n    return 1")
    assert (tmp_path / "copied").read_text() == "def f():\n    return 1"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert not copy_by_program("x")
