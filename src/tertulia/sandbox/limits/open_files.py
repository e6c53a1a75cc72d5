"""How many files this process may have open: in our own programs as many as the system allows.

A session at work needs three, and a client one; files of idle sessions are closed. Children get back the limit that
there was: programs that use `select` break when their descriptors have large numbers. Library code never raises it:
that process belongs to its user.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from tertulia.errors import LimitError

if TYPE_CHECKING or sys.platform != "win32":
    import resource

RESERVE = 64
"""Kept for what runs: a command, a checkpoint or a connection needs some for a moment."""
_A_SESSION = 8
"""What one needs when it begins: its record, a lock, and what it opens and closes on the way."""
_MOST = 1_048_576
"""Where the system says that there is no limit; more is refused by kernels that do have one."""

_before: int | None = None


def raise_limit() -> None:
    """Let this process open as many files as it may; remembers what the limit was. For the start of a program."""
    global _before  # noqa: PLW0603
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    # Where even that is refused it stays as it was, and `check_free_files` counts with it.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        _before = soft


def limit_before() -> int | None:
    """The soft limit that this program began with; None where it was not raised."""
    return _before


def restore_child_limit(pid: int) -> None:
    """Give a child the limit that this process was started with. A child that has ended already is left alone."""
    if _before is not None and sys.platform == "linux":
        with suppress(OSError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            soft = _before if hard == resource.RLIM_INFINITY else min(_before, hard)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def check_free_files() -> None:
    """LimitError where another session would leave too few files for those that run."""
    if sys.platform == "win32":
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = _count_open()
    if soft != resource.RLIM_INFINITY and used + _A_SESSION + RESERVE > soft:
        raise LimitError(
            f"no more sessions can be opened: {used:,} of {soft:,} files of this process are in use, and {RESERVE} are "
            "kept for the sessions that run; close some, or raise the limit (`ulimit -n`, LimitNOFILE of a service)",
            used=used,
            limit=soft,
        )


def _count_open() -> int:
    """How many files are open, as the system says; 0 where it does not say."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(folder))
    return 0
