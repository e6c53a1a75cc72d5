"""A process and all below it, as the kernel lists them. Standard library only: the launcher needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator


def descendants(pid: int) -> Iterator[tuple[int, int]]:
    """(process, how many threads it has) of all below this one. Who ends or is adopted meanwhile may be missed."""
    waiting = _children(pid)[0]
    while waiting:
        current = waiting.pop()
        children, threads = _children(current)
        waiting.extend(children)
        yield current, threads


def children(pid: int) -> list[int]:
    """The oldest first; none of one that has ended."""
    return _children(pid)[0]


def count_tasks(pid: int, enough: int) -> int:
    """Threads of all below this process; stops as soon as they are more than `enough`."""
    counted = 0
    for _, threads in descendants(pid):
        counted += threads
        if counted > enough:
            break
    return counted


def _children(pid: int) -> tuple[list[int], int]:
    children: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as listed:
                children.extend(map(int, listed.read().split()))
    except OSError:
        # It has ended while we looked.
        return children, 0
    return children, len(threads)
