"""Children that have everything imported: they live the reference session, or hold a dead one to its word.

Run as a program, it forks one for every line `ACT FOLDER PART DURABILITY` on standard input, says its number, waits
for a byte, lets it go and says how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pkgutil
import resource
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, cast

from tests.deadlines import HANG_S

ROOT = Path(__file__).parents[2]
DEADLINE_S = HANG_S
_PR_SET_PTRACER = 0x59616D61


class Children:
    """The other end: starts the program, and asks it for children."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.durability.children"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip

    def begin(self, act: str, folder: Path, part: str = "whole", durability: str = "normal") -> int:
        """A child that waits; its process id."""
        folder.mkdir(exist_ok=True)
        cast(IO[bytes], self._process.stdin).write(f"{act}\t{folder}\t{part}\t{durability}\n".encode())
        return int(cast(IO[bytes], self._process.stdout).readline())

    def go(self) -> None:
        """Let it begin."""
        cast(IO[bytes], self._process.stdin).write(b"g")

    def ended(self) -> int:
        """Wait for its end; what `waitpid` said."""
        return int(cast(IO[bytes], self._process.stdout).readline())

    def run(self, act: str, folder: Path, part: str = "whole", durability: str = "normal", *strace: str) -> int:
        """One, from beginning to end, traced if anything is to be done to it."""
        pid = self.begin(act, folder, part, durability)
        with traced(pid, strace):
            self.go()
            return self.ended()

    def check(self, folder: Path, act: str = "check", part: str = "whole") -> str | None:
        """What is wrong with what is left in a folder; None for nothing."""
        if self.run(act, folder, part) == 0:
            return None
        verdict = folder / "verdict"
        return verdict.read_text() if verdict.exists() else "the check died"

    def close(self) -> None:
        """No more of them."""
        cast(IO[bytes], self._process.stdin).close()
        cast(IO[bytes], self._process.stdout).close()
        self._process.wait(HANG_S)


@contextlib.contextmanager
def traced(pid: int, arguments: Sequence[str]) -> Iterator[None]:
    """Have something done to the calls of a process and all its threads."""
    if not arguments:
        yield
        return
    # Where no log is asked for, what it writes of each call goes nowhere. In its errors, which are read at the end,
    # more than a pipe holds would stop it, and the child with it.
    log = () if "-o" in arguments else ("-o", os.devnull)
    with subprocess.Popen(["strace", "-f", "-p", str(pid), *log, *arguments], stderr=subprocess.PIPE) as strace:
        stderr = cast(IO[bytes], strace.stderr)
        assert b"attached" in (line := stderr.readline()), line
        yield
        stderr.read()


def _child(act: str, folder: Path, part: str, durability: str) -> None:
    from tertulia.rollout.sqlite import writer_pool
    from tests.durability import afterlife, going_on, reference, storm, storm_check

    # Whoever is told our number may trace us, where only parents could.
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["TERTULIA_HOME"] = str(folder / "home")
    # Not in the project, whose thousands of files a session would look at.
    os.chdir(folder)
    # Traced, every disk is slow; here it counts as a quick one, so that the loop commits what it would commit there.
    writer_pool.SLOW_FLUSH_S = HANG_S
    life = reference.Life(folder) if act == "live" else None
    os.write(1, b"%d\n" % os.getpid())
    os.read(0, 1)
    try:
        match act:
            case "live":
                assert life is not None
                work = reference.live(life, part, durability)
            case "storm":
                work = storm.live(folder, part, int(durability))
            case "go-on":
                work = going_on.live(folder, int(part))
            case "go-on-check":
                work = going_on.check(folder)
            case "storm-check":
                work = storm_check.check(folder, part)
            case _:
                work = afterlife.check(folder)
        asyncio.run(asyncio.wait_for(work, DEADLINE_S))
    except BaseException:
        (folder / "verdict").write_text(traceback.format_exc())
        raise


def main() -> None:
    """Serve standard input."""
    import tertulia
    import tests.durability.afterlife
    import tests.durability.going_on
    import tests.durability.storm_check  # noqa: F401
    from tertulia.prompt.request import full_instructions

    # A call that fails while a module is looked for says nothing about what is stored.
    for module in pkgutil.walk_packages(tertulia.__path__, "tertulia."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    from tertulia.prompt.request import builtin_text

    for text in ("prompt", "code", "patch", "editor", "provider", "apply_patch", "compact"):
        builtin_text(text)
    # Read once a process, from the package: no part of what is stored.
    full_instructions(None, frozenset(), "")
    while line := _line():
        act, folder, part, durability = line.split("\t")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _child(act, Path(folder), part, durability)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        os.write(1, b"%d\n" % status)


def _line() -> str:
    # Nothing is buffered: the next byte belongs to the child.
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return ""
        line += byte
    return line.decode().strip("\n")


if __name__ == "__main__":
    main()
