"""`tertulia attach ID` in a real terminal, with an `exec` in another process."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time

import pytest

from tests.terminal.conftest import tmux
from tests.terminal.real_terminal import Tmux

__all__ = ["tmux"]
SOCKETS = "~/.local/share/tertulia/sockets/*-*-*-*-*.sock"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


def test_a_session_of_another_process_is_shown_and_answered(tmux: Tmux) -> None:
    """Issue 23, 1, S001-33: `tertulia attach` with the beginning of an id, over the session's socket."""
    os.mkfifo(tmux.folder / "gate")
    commands = (["cat", "gate"], ["touch", "made"])
    replies = [{"tool_calls": [{"name": "shell", "arguments": {"command": command}}]} for command in commands]
    (tmux.folder / "script.json").write_text(json.dumps({"replies": [*replies, "it is done"]}))
    program = f"{sys.executable} -m tertulia"
    tmux.type(f"{program} exec -qm scripted/script.json -a untrusted --no-stdin go >out 2>&1 </dev/null &", "Enter")
    tmux.type(f"for n in $(seq 2000); do ls {SOCKETS} 2>/dev/null && break; sleep 0.05; done; clear", "Enter")
    tmux.type("ID=$(cd ~/.local/share/tertulia/sockets; ls | cut -c1-8 | grep -v -- - | head -1)", "Enter")
    tmux.type(f"{program} attach $ID; echo CODE $?", "Enter")
    tmux.until("cat gate  runs")
    os.close(os.open(tmux.folder / "gate", os.O_WRONLY))
    tmux.until("asks to run a command")
    assert not (tmux.folder / "made").exists()
    tmux.type("F6")
    tmux.until("▌ y yes, once")
    while "the session has ended" not in tmux.screen:
        # A key that comes right after the question counts as typed by accident.
        tmux.type("y")
        time.sleep(0.2)
    assert "it is done" in tmux.until("allowed once by tertulia terminal")
    assert (tmux.folder / "made").exists()
    tmux.type("C-c", "C-c")
    tmux.until("CODE 0")
    assert "it is done" in (tmux.folder / "out").read_text()
    assert not list((tmux.folder.parent / "home/.local/share/tertulia/sockets").iterdir())
