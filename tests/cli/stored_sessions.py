"""Sessions that were stored by the program itself, for the verbs that read them."""

from __future__ import annotations

import codecs
import os
import pty
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tertulia.rollout.sqlite.ownership import Ownership
from tertulia.rollout.sqlite.session_files import SessionFiles
from tests.cli.running import DEADLINE_S, Shell

DELEGATING = (
    {"tool_calls": [{"name": "conv_create", "arguments": {"user_instruction": "Review a.py", "title": "reviewer"}}]},
    "Looks right.",
    "The reviewer says it looks right.",
)


def home(shell: Shell) -> Path:
    return shell.folder.parent / "home" / ".local" / "share" / "tertulia"


def run_session(shell: Shell, *replies: Any, text: str = "hello", flags: tuple[str, ...] = ()) -> str:
    """The id of a new session in which somebody said something."""
    ran = shell.run("exec", "--json", "-m", shell.script(*(replies or ("Good morning.",)), repeat=True), *flags, text)
    assert ran.code == 0, ran.err
    return ran.lines[0]["thread_id"]


def ids(shell: Shell) -> set[str]:
    """Of all that are stored."""
    return {line["session_id"] for line in shell.run("sessions", "ls", "--all", "--json").lines}


@contextmanager
def held(shell: Shell, session_id: str) -> Iterator[None]:
    """As if another process had it."""
    owner = Ownership.take(SessionFiles(home(shell), session_id))
    try:
        yield
    finally:
        owner.release()


class Screen:
    """A terminal on which the program runs."""

    def __init__(self, shell: Shell, *arguments: str, stdin: int | None = None) -> None:
        self._primary, secondary = pty.openpty()
        streams = {"stdin": secondary if stdin is None else stdin, "stdout": secondary, "stderr": secondary}
        env = {"TERM": "xterm", "NO_COLOR": "1"}
        self.process = shell.start(*arguments, env=env, start_new_session=True, **streams)
        os.close(secondary)
        self.seen = ""
        # A character may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._reached = 0

    def until(self, text: str) -> str:
        """Everything that was shown, as soon as this is among what has come since the last thing waited for."""
        while (found := self.seen.find(text, self._reached)) < 0:
            ready, _, _ = select.select([self._primary], [], [], DEADLINE_S)
            if not ready:
                self.process.kill()
                self.close()
                raise AssertionError(f"{text!r} did not come:\n{self.seen}")
            self.seen += self._decoder.decode(os.read(self._primary, 65_536))
        self._reached = found + len(text)
        return self.seen

    def type(self, text: str) -> None:
        os.write(self._primary, text.encode())

    def close(self) -> int:
        """Wait for the end of the program; its exit code."""
        with self.process:
            code = self.process.wait(DEADLINE_S)
        os.close(self._primary)
        return code
