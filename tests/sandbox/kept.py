"""The processes above a command, for tests: which they are, and which of them still run."""

from __future__ import annotations

import os
from pathlib import Path

from tertulia.sandbox.launcher.launched_process import LauncherClient
from tertulia.sandbox.process_tree import children


def above(launcher: LauncherClient) -> tuple[int, int]:
    """(guardian, launcher); to be asked once of each."""
    assert launcher._gone is not None
    guardian, below = os.read(launcher._gone, 100).split()
    return int(guardian), int(below)


def is_running(pid: int) -> bool:
    """Whether it is there and no zombie: whoever buries those is none of ours."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b") ")[2][:1] not in (b"Z", b"X")


def keeper_of(launcher: int, tag: str) -> int:
    """The child of this launcher below which the process with this text among its arguments runs."""
    while True:
        # One that is just being executed has no arguments at all.
        for keeper in children(launcher):
            if any(_has(pid, tag) for pid in children(keeper)):
                return keeper


def _has(pid: int, tag: str) -> bool:
    try:
        return tag.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
