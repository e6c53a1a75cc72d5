"""Whether the user's own git may be at work in a repository, so that what has changed there may be its doing.

A git in the sandbox does not count: it has given up gaining rights, for good, which no process can take back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

_LET_GO_S = 0.5
_PAUSE_S = 0.02


def is_users_git_in(root: str, store: str) -> bool:
    """Blocks, shortly: a lock in the store that somebody lets go of is one of a git that runs.

    One that stays, and that no such git is seen to hold, was left behind: nobody writes, and a command could leave one.
    """
    return _is_seen(root) or (bool(locks := _locks(store)) and _let_go(store, locks)) or _is_seen(root)


def _let_go(store: str, locks: set[str]) -> bool:
    for _ in range(round(_LET_GO_S / _PAUSE_S)):
        _pause()
        if locks - _locks(store):
            return True
    return False


def _pause() -> None:
    threading.Event().wait(_PAUSE_S)


def _locks(store: str) -> set[str]:
    try:
        return {name for name in os.listdir(store) if name.endswith(".lock")}
    except OSError:
        return set()


def _is_seen(root: str) -> bool:
    ours = _has_given_up("self")
    for process in _processes():
        # Where we have given it up ourselves, nothing tells one from the other.
        if _is_git(process) and (ours or not _has_given_up(process)) and _works_in(process, root):
            return True
    return False


def _processes() -> Iterator[str]:
    return (name for name in os.listdir("/proc") if name.isdigit())


def _is_git(process: str) -> bool:
    name = _text(f"/proc/{process}/comm").rstrip("\n")
    return name == "git" or name.startswith("git-")


def _has_given_up(process: str) -> bool:
    return "\nNoNewPrivs:\t1\n" in _text(f"/proc/{process}/status")


def _works_in(process: str, root: str) -> bool:
    """By its directory, or by a path that it was told."""
    try:
        where = os.readlink(f"/proc/{process}/cwd")
    except OSError:
        # Gone, or another user's.
        return False
    below = f"{root.rstrip('/')}/"
    return f"{where}/".startswith(below) or root in _text(f"/proc/{process}/cmdline")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
