"""Running the program: in this process, or as a person would, in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.cli.main import main
from tests.deadlines import HANG_S
from tests.forked import PIPES, ForkedProgram

SOURCE = Path(__file__).parent.parent.parent / "src"
DEADLINE_S = HANG_S
NEVER_MS = 3_600_000


class Ran:
    """What a command line came to."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON, a value a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """A directory of its own, with nobody's settings in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def run(self, *arguments: str) -> Ran:
        """In this process."""
        self._capsys.readouterr()
        code = main(arguments)
        out, err = self._capsys.readouterr()
        return Ran(code, out, err)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """In a process of its own; whoever starts it waits for it."""
        variables = options.pop("env", {})
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), **variables}
        if options.keys() <= PIPES.keys() and not any(name.startswith("PYTHON") for name in variables):
            return ForkedProgram(arguments, cwd=self.folder, env=environment, **{**PIPES, **options})
        command = [sys.executable, "-m", "tertulia", *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=environment, **{**PIPES, **options})

    def spawn(self, *arguments: str, input: bytes = b"", **options: Any) -> Ran:
        """In a process of its own, to its end."""
        with self.start(*arguments, **options) as process:
            out, err = process.communicate(input, timeout=DEADLINE_S)
        return Ran(process.returncode, (out or b"").decode(), (err or b"").decode())

    def script(self, *replies: Any, repeat: bool = False) -> str:
        """A script of these replies, as a model's name."""
        (self.folder / "script.json").write_text(json.dumps({"replies": replies, "repeat": repeat}))
        return "scripted/script.json"
