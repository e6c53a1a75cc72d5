"""A process and all below it, as the kernel lists them. Standard library only: the launcher needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator

_ENDED = (b"Z", b"X")
_THREADS_AT = 17
"""Of the words after the name in `/proc/PID/stat`."""


def descendants(pid: int) -> Iterator[tuple[int, int]]:
    """(process, its threads that have not ended) of all below this one; a zombie has none.

    A process that ends or is adopted meanwhile may be missed.
    """
    waiting = children(pid)
    while waiting:
        current = waiting.pop()
        state, threads = _state(current)
        if not (state in _ENDED and threads == 1):
            waiting.extend(children(current, threads))
        yield current, threads - (state in _ENDED)


def children(pid: int, threads: int | None = None) -> list[int]:
    """The oldest first; none of one that has ended. `threads`: how many it has, where that is known."""
    found: list[int] = []
    try:
        for thread in [str(pid)] if threads == 1 else os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as listed:
                found.extend(map(int, listed.read().split()))
    except OSError:
        # It has ended while we looked.
        pass
    return found


def _state(pid: int) -> tuple[bytes, int]:
    """(the letter, how many threads); those of one that is gone are those of a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b") ")[2].split()
    except OSError:
        return b"X", 1
    return words[0], int(words[_THREADS_AT])
