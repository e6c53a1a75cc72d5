"""What bash really does with a script: the programs it starts, seen by strace from outside."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tertulia.policy.commands.command_analysis import safe_environment
from tests.deadlines import HANG_S

NEEDED = ("strace", "bash", "git", "timeout")
needs_strace = pytest.mark.skipif(
    any(shutil.which(program) is None for program in NEEDED), reason=f"needs {', '.join(NEEDED)}"
)

_EXECVE = re.compile(r'execve\("((?:[^"\\]|\\.)*)", \[((?:"(?:[^"\\]|\\.)*"(?:, )?)*)\]')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _text(literal: str) -> str:
    """C's escapes are Python's, in bytes."""
    return ast.literal_eval("b" + literal).decode("utf-8", "surrogateescape")


class TracedBash:
    """A throw-away directory with something to read, a repository that wants to harm, and programs nobody knows."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.files = place / "files"
        self.programs = place / "programs"
        for folder in (self.files / "sub", self.programs):
            folder.mkdir(parents=True)
        (self.files / "a.txt").write_text("one\ntwo\ntwo\n")
        (self.files / "sub" / "b.txt").write_text("three\n")
        # Not on any list; and impostors, to be found by whoever looks into the current directory.
        for program in (self.programs / "evil", self.files / "evil", self.files / "ls", self.files / "sub" / "cat"):
            program.write_text("#!/bin/sh\nexit 0\n")
            program.chmod(0o755)
        shutil.copy("/bin/true", self.programs / "show")
        self._make_repository()

    def _make_repository(self) -> None:
        def git(*words: str) -> None:
            subprocess.run(["git", *words], cwd=self.files, check=True, capture_output=True, env=self.environment)

        git("init", "-q")
        git("add", "a.txt", "sub/b.txt")
        git("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", "first")
        (self.files / "a.txt").write_text("one\ntwo\nthree\n")
        evil = str(self.programs / "evil")
        for setting in ("core.fsmonitor", "core.pager", "pager.log", "gpg.program", "core.editor", "core.sshCommand"):
            git("config", setting, evil)
        git("config", "log.showSignature", "true")
        git("config", "pretty.evil", "%G?")
        git("config", "format.pretty", "%G?")
        hook = self.files / ".git" / "hooks" / "post-index-change"
        hook.parent.mkdir(exist_ok=True)
        shutil.copy(evil, hook)
        (self.place / "rc").write_text("evil\n")

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"/usr/bin:/bin:{self.programs}", "HOME": str(self.place), "LC_ALL": "C.UTF-8"}

    @property
    def traps(self) -> dict[str, str]:
        """What an environment can do to a reader."""
        return {
            "PATH": f"{self.files}:.:{self.environment['PATH']}",
            "BASH_ENV": str(self.place / "rc"),
            "BASH_FUNC_cat%%": "() { evil; }",
            "GIT_EXTERNAL_DIFF": "evil",
        }

    def started_by(self, scripts: Sequence[str], *, safely: bool = True) -> list[tuple[str, list[str]]]:
        """Run each script in a bash of its own; (path, arguments) of every program that they started."""
        trace = self.place / "trace"
        driver = 'for script in "$@"; do timeout 2 bash -c "$script"; done'
        command = ["strace", "-f", "-qq", "-s", "100000", "-e", "trace=execve", "-e", "signal=none", "-o", str(trace)]
        hostile = self.environment | self.traps
        environment = safe_environment(hostile, [str(self.files)]) if safely else hostile
        subprocess.run(
            [*command, "bash", "-c", driver, "driver", *scripts],
            cwd=self.files,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=HANG_S,
            check=False,
        )
        calls = _EXECVE.findall(trace.read_text(encoding="utf-8", errors="surrogateescape"))
        started = [(_text(f'"{path}"'), [_text(word) for word in _STRING.findall(words)]) for path, words in calls]
        return _without_the_driver(started, scripts)

    def digest(self) -> str:
        """Of every name, mode and byte."""
        whole = hashlib.sha256()
        for folder, folders, files in os.walk(self.files):
            folders.sort()
            for name in sorted(files):
                path = Path(folder, name)
                whole.update(f"{path}\0{path.stat().st_mode}\0".encode() + path.read_bytes())
            whole.update(f"{folder}\0{folders}\0".encode())
        return whole.hexdigest()


def _without_the_driver(
    started: Sequence[tuple[str, list[str]]], scripts: Sequence[str]
) -> list[tuple[str, list[str]]]:
    """Each script costs one `timeout` and, wherever it looks for it, a bash; any other bash is the script's doing."""
    ours: list[list[str]] = [
        words for script in scripts for words in (["timeout", "2", "bash", "-c", script], ["bash", "-c", script])
    ]
    rest = [(path, words) for path, words in started if words not in ours]
    assert rest, "strace saw nothing"
    assert rest[0][1][:2] == ["bash", "-c"], "the driver comes first"
    return rest[1:]
