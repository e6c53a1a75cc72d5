"""Running the scribe under `strace`, killed or lied to at a chosen call, and holding what is left to its word."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import pytest

from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.store import StoredRow
from tests.deadlines import HANG_S
from tests.rollout.scribe import NOW, ROWS, SESSION_ID, body, record
from tests.rollout.still_clock import FakeClock

ROOT = Path(__file__).parents[2]
STORAGE = (
    *("pwrite64", "write", "ftruncate", "fallocate", "fsync", "fdatasync", "openat", "rename", "unlink", "mkdir"),
    *("chmod", "fchmod"),
)
"""Every call that changes something on the disk, or must come before one that does."""


def strace_works() -> str | None:
    """Why not, or None."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    ran = subprocess.run(["strace", "-qq", "true"], capture_output=True, text=True, timeout=HANG_S, check=False)
    return None if ran.returncode == 0 else f"strace cannot trace here: {ran.stderr.strip()[:200]}"


class Zygote:
    """A scribe that has everything imported, ready to fork."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.rollout.scribe"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )

    def run(self, folder: Path, durability: str, *strace: str, limit: int = 0) -> int:
        """One run with these arguments to strace, or untraced with none; the status that `waitpid` gave."""
        pid = self.begin(folder, durability, limit=limit)
        with self._traced(pid, strace):
            self.go()
            return self.ended()

    def begin(self, folder: Path, durability: str, *, limit: int = 0) -> int:
        """A child that waits; its process id."""
        folder.mkdir()
        self._say(f"{folder}\t{durability}\t{limit}\n".encode())
        return int(self._hear())

    def go(self) -> None:
        """Let the child begin."""
        self._say(b"g")

    def ended(self) -> int:
        """Wait for its end."""
        return int(self._hear())

    def close(self) -> None:
        """No more of them."""
        cast(IO[bytes], self._process.stdin).close()
        cast(IO[bytes], self._process.stdout).close()
        self._process.wait(HANG_S)

    def _say(self, data: bytes) -> None:
        cast(IO[bytes], self._process.stdin).write(data)

    def _hear(self) -> bytes:
        return cast(IO[bytes], self._process.stdout).readline()

    @contextlib.contextmanager
    def _traced(self, pid: int, arguments: Sequence[str]) -> Iterator[None]:
        if not arguments:
            yield
            return
        command = ["strace", "-f", "-p", str(pid), *arguments]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as strace:
            stderr = cast(IO[bytes], strace.stderr)
            assert b"attached" in (line := stderr.readline()), line
            yield
            stderr.read()


def counted(zygote: Zygote, folder: Path, durability: str) -> dict[str, int]:
    """How often a reference run makes each call, in the thread that makes it most."""
    log = folder / "log"
    run = folder / "reference"
    assert zygote.run(run, durability, "-e", f"trace={','.join(STORAGE)}", "-o", str(log)) == 0
    calls = Counter(re.findall(r"^(\d+)\s+(\w+)\(", log.read_text(), re.MULTILINE))
    most: dict[str, int] = {}
    for (_, name), times in calls.items():
        most[name] = max(most.get(name, 0), times)
    return most


def scribe_log(folder: Path) -> list[str]:
    """What the scribe heard."""
    path = folder / "told"
    return path.read_text().splitlines() if path.exists() else []


def acknowledged(folder: Path) -> set[int]:
    """The records it was told are safe."""
    acknowledged_numbers: set[int] = set()
    for line in scribe_log(folder):
        if found := re.fullmatch(r"(kept|last) (\d+)", line):
            acknowledged_numbers |= {int(found[2]) + place for place in range(ROWS if found[1] == "kept" else 1)}
    return acknowledged_numbers


def hold_to_its_word(folder: Path) -> list[StoredRow]:
    """Nothing acknowledged is lost, nothing is damaged, nothing is there that was never written, and one can go on."""
    files = session_files(folder / "home", SESSION_ID)
    acknowledged_numbers = acknowledged(folder)
    if not files.db.exists():
        assert not scribe_log(folder) or scribe_log(folder)[0].startswith("failed claim"), (
            "the file of a claimed session is gone"
        )
        return []
    found = _read(files.db)
    by_n = {row.n: row for row in found}
    assert acknowledged_numbers <= by_n.keys(), f"lost: {sorted(acknowledged_numbers - by_n.keys())}"
    for row in found:
        original = record(row.n)
        assert not row.damaged
        assert (row.header, row.conversation, row.ts) == (original.header, original.conversation, original.ts)
        assert row.body in (None, body(row.n))
        assert row.body is not None or row.conversation == 2 or row.n % 3 == 0, f"the body of {row.n} is gone"
    if "erased" in scribe_log(folder):
        _nowhere(
            folder,
            [row.n for row in found if row.conversation == 2 and row.n not in _after_erasure(acknowledged_numbers)],
        )
    _goes_on(folder, found)
    return found


def _after_erasure(acknowledged_numbers: set[int]) -> set[int]:
    return {max(acknowledged_numbers, default=0)}


def _goes_on(folder: Path, found: list[StoredRow]) -> None:
    """The next owner can append, and leaves nothing of what was erased."""
    files = session_files(folder / "home", SESSION_ID)
    file = OwnedFile(files, FakeClock(NOW))
    file.commit([record(1000)])
    file.close()
    again = _read(files.db)
    assert [row.n for row in again] == [*(row.n for row in found), 1000]
    assert [path.name for path in files.db.parent.iterdir() if path.suffix in (".new", ".lock")] == []
    _nowhere(folder, [row.n for row in again if row.body is None])


def _nowhere(folder: Path, erased: list[int]) -> None:
    """E3: what was erased stands in no file."""
    content = b"".join(path.read_bytes() for path in sorted((folder / "home").rglob("*")) if path.is_file())
    assert [n for n in erased if b"canary %d " % n in content] == []


def _read(file: Path) -> list[StoredRow]:
    reader = SqliteReader(file)
    try:
        return list(reader.rows())
    finally:
        reader.close()


needs_strace = pytest.mark.skipif(bool(reason := strace_works()), reason=reason or "")
