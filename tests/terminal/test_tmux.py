"""The real program in a real terminal: sizes, signals, streams, and output that wants to be obeyed."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys

import pytest

from tests.deadlines import HANG_S
from tests.terminal.real_terminal import Tmux

HOSTILE = "before \x1b]2;pwned\x07\x1b]52;c;cHduZWQ=\x07\x1b[2J\x1b[?1049l after"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


def test_hostile_output_and_a_storm_of_sizes_leave_the_terminal_as_it_was(tmux: Tmux) -> None:
    title = tmux.run("display-message", "-p", "#{pane_title}")
    tmux.start(HOSTILE)
    tmux.until("message")
    tmux.type("hello", "Enter")
    tmux.until("after")
    assert "⟨U+001B⟩]52" in tmux.screen
    for width, height in [(80, 24), (30, 8), (1, 1), (200, 60), (24, 6), (23, 5), (61, 17), (1, 1), (100, 30)] * 3:
        tmux.run("resize-window", "-x", str(width), "-y", str(height))
    tmux.run("resize-window", "-x", "20", "-y", "5")
    tmux.until("no room")
    tmux.run("resize-window", "-x", "80", "-y", "24")
    tmux.until("after")
    assert "pwned" not in tmux.run("display-message", "-p", "#{pane_title}")
    assert tmux.run("show-buffer") == ""
    tmux.type("C-c")
    tmux.until("once more")
    tmux.type("C-c")
    left = tmux.until("CODE 0")
    assert "› hello" in left
    assert "To go on: tertulia resume" in left
    assert tmux.run("display-message", "-p", "#{pane_title}") == title
    tmux.assert_usable()


@pytest.mark.parametrize("signal", ["TERM", "HUP"])
def test_a_signal_closes_the_session_and_leaves_a_usable_terminal(tmux: Tmux, signal: str) -> None:
    tmux.start("Hello.")
    tmux.until("message")
    tmux.type("hi", "Enter")
    tmux.until("Hello.")
    subprocess.run(["kill", f"-{signal}", str(tmux.child())], check=True)
    tmux.until("CODE 130")
    tmux.assert_usable()


def test_a_screen_that_could_not_be_seen_is_refused_with_a_sentence(tmux: Tmux) -> None:
    tmux.start("Hello.", more="2>err.txt")
    tmux.until("CODE 2")
    assert (tmux.folder / "err.txt").read_text() == (
        "tertulia: standard error is no terminal (2>file?), and the screen needs it: leave it, or use `tertulia exec`\n"
    )
    tmux.start("Hello.", more="<&-")
    tmux.until("standard input is no terminal")
    tmux.assert_usable()


def test_after_ctrl_z_all_of_the_screen_is_drawn_again(tmux: Tmux) -> None:
    tmux.start("The answer.")
    tmux.until("message   / commands")
    tmux.type("hello", "Enter")
    tmux.until("The answer.")
    tmux.type("C-z")
    tmux.until("Stopped")
    tmux.type("fg", "Enter")
    tmux.until("The answer.")
    tmux.until("workspace-write")
    tmux.type("C-c", "C-c")
    tmux.until("To go on:")


def test_a_terminal_that_is_gone_ends_the_program_and_its_session(tmux: Tmux) -> None:
    """Nothing can be written then, not even what restores the terminal: the program must not wait for that."""
    (tmux.folder / "script.json").write_text(json.dumps({"replies": ["Hello."]}))
    program = f"exec {sys.executable} -m tests.terminal.program scripted/script.json"
    tmux.run("respawn-pane", "-k", "-c", str(tmux.folder), program)
    tmux.until("message")
    tmux.type("hi", "Enter")
    tmux.until("Hello.")
    process = int(tmux.run("display-message", "-p", "#{pane_pid}"))
    watched = os.pidfd_open(process)
    try:
        tmux.run("kill-server")
        ended, _, _ = select.select([watched], [], [], HANG_S)
        assert ended, "the program still runs"
    finally:
        os.close(watched)


def test_a_code_block_is_copied_to_the_clipboard_of_the_terminal(tmux: Tmux) -> None:
    """Issue 22, done when: a stranger copies a code block. OSC 52, seen by a real terminal, without gutters."""
    tmux.run("set", "-g", "set-clipboard", "on")
    tmux.start("Here:\n\n```python\ndef total(items):\n    return sum(items)\n```\n\nThat is all.")
    tmux.until("message   / commands")
    tmux.type("show me", "Enter")
    tmux.until("That is all.")
    tmux.until("✓ done")
    tmux.type("Tab")
    tmux.type("Y")
    tmux.until("copied")
    assert tmux.clipboard() == "def total(items):\n    return sum(items)"
    tmux.type("C-c", "C-c")
    tmux.until("To go on:")
