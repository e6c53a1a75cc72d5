"""A person at a new machine: an empty home, a project, the installed program, and a terminal to sit at."""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.deadlines import HANG_S
from tests.forked import run_program

ROOT = Path(__file__).parent.parent.parent
PROMPT = "› "
"""Of the chat."""


class Done:
    """What a command line came to. There is never a traceback."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        assert "Traceback" not in err, err


class Terminal:
    """A pseudo-terminal with a program on it, and what it has shown."""

    def __init__(self, primary: int, process: subprocess.Popen[bytes]) -> None:
        self._primary = primary
        self.process = process
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._reached = 0

    def waits_for(self, text: str) -> str:
        """What came up to and with this text, after what was waited for before."""
        while (found := self.seen.find(text, self._reached)) < 0:
            ready, _, _ = select.select([self._primary], [], [], HANG_S)
            piece = self._read() if ready else b""
            assert piece, f"{text!r} did not come:\n{self.seen}"
            self.seen += self._decoder.decode(piece)
        before, self._reached = self.seen[self._reached : found + len(text)], found + len(text)
        return before

    def types(self, text: str) -> None:
        os.write(self._primary, text.encode())

    def ends(self) -> int:
        """The exit code, once all that it prints is read."""
        while piece := self._read():
            self.seen += self._decoder.decode(piece)
        return self.process.wait(HANG_S)

    def _read(self) -> bytes:
        try:
            return os.read(self._primary, 65_536)
        except OSError:
            # How Linux says that the other side is closed.
            return b""


class Person:
    """Whose home and project lie in a folder of a test."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.config = self.home / ".config" / "tertulia" / "config.toml"
        self.before: tuple[str, ...] = ()
        """What stands before each command line: a machine of another kind."""
        self.variables = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "NO_COLOR": "1",
        }

    def exports(self, **variables: str) -> None:
        """Set them, for all that follows."""
        self.variables |= variables

    def writes(self, name: str, text: str) -> Path:
        """A file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configures(self, text: str) -> None:
        """The whole of config.toml."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text)

    def runs(self, *line: str, input: str = "", timeout_s: float = HANG_S) -> Done:
        """A command line to its end, with no terminal."""
        ran = subprocess.run(
            [*self.before, *line],
            cwd=self.project,
            env=self.variables,
            input=input.encode(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        return Done(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def tertulia(self, *arguments: str, input: str = "") -> Done:
        """The same for the program."""
        if self.before or "PYTHONPATH" in self.variables:
            return self.runs("tertulia", *arguments, input=input)
        ran = run_program(*arguments, cwd=self.project, env=self.variables, input=input)
        return Done(ran.returncode, ran.stdout, ran.stderr)

    @contextmanager
    def sits_at(self, *arguments: str) -> Iterator[Terminal]:
        """`tertulia ARGUMENTS` on a terminal of its own."""
        primary, secondary = pty.openpty()
        line: Sequence[str] = [*self.before, "tertulia", *arguments]
        with subprocess.Popen(
            line,
            cwd=self.project,
            env=self.variables,
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            start_new_session=True,
        ) as process:
            os.close(secondary)
            try:
                yield Terminal(primary, process)
            finally:
                process.kill()
                os.close(primary)
