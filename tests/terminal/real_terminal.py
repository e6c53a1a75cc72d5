"""The real program in a real terminal, which is tmux."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.deadlines import HANG_S

ROOT = Path(__file__).parent.parent.parent
_PAUSE_S = 0.7
"""So long a person looks before a key is an answer: more than the panel wants."""


class Tmux:
    """A shell in a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux.sock")
        self.folder = folder / "work"
        self.folder.mkdir()
        environment = {
            "HOME": str(folder / "home"),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "EDITOR": "true",
        }
        self._environment = environment
        self.run(
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "30",
            "-c",
            str(self.folder),
            "env PS1='READY$ ' bash --norc --noprofile -i",
        )
        self.until("READY$")

    def run(self, *words: str) -> str:
        """A command of tmux."""
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *words]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=HANG_S, check=False
        )
        return done.stdout

    def type(self, *keys: str) -> None:
        """Press these keys, by their names or as text."""
        self.run("send-keys", *keys)

    def start(self, *replies: object, more: str = "") -> None:
        """Start the program with these replies."""
        (self.folder / "script.json").write_text(json.dumps({"replies": replies}))
        self.type(f"{sys.executable} -m tests.terminal.program scripted/script.json {more}; echo CODE $?", "Enter")

    @property
    def screen(self) -> str:
        """What is seen."""
        return self.run("capture-pane", "-p")

    def until(self, text: str) -> str:
        """Wait until this is seen."""
        deadline = time.monotonic() + HANG_S
        while text not in (screen := self.screen):
            if time.monotonic() > deadline:
                pytest.fail(f"{text!r} is not seen:\n{screen}")
            time.sleep(0.05)
        return screen

    def clipboard(self) -> str:
        """What the program has put into the clipboard of the terminal, which may take a moment."""
        deadline = time.monotonic() + HANG_S
        while not (copied := self.run("show-buffer")) and time.monotonic() < deadline:
            time.sleep(0.05)
        return copied

    def child(self) -> int:
        """The process of the program."""
        shell = self.run("display-message", "-p", "#{pane_pid}").strip()
        found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout.split()
        return int(found[0])

    def assert_usable(self) -> None:
        """What is typed is seen, and a command runs."""
        self.type("stty -a | grep -c ' echo '; echo US''ABLE", "Enter")
        assert "\n1\nUSABLE" in self.until("USABLE")
        assert self.run("display-message", "-p", "#{alternate_on}#{mouse_any_flag}").strip() == "00"

    def answer(self, key: str, text: str) -> str:
        """Go to the question, look at it, press its key, and wait for what comes of it."""
        self.type("F6")
        select.select([], [], [], _PAUSE_S)
        self.type(key)
        return self.until(text)
