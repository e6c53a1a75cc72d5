"""Counting a command's processes from outside, where the kernel counts for nobody: root without a control group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tertulia.sandbox.process_tree import count_tasks

_PERIOD_S = 0.1


class ProcessWatch:
    """Looks ten times a second and calls back once, when there are more than allowed."""

    __slots__ = ("_exceeded", "_limit", "_others", "_pid", "_timer")

    def __init__(self, pid: int, limit: int, exceeded: Callable[[], None]) -> None:
        self._pid = pid
        self._limit = limit
        self._exceeded = exceeded
        self._others = _tasks_of_the_machine()
        self._timer = asyncio.get_running_loop().call_later(_PERIOD_S, self._look)

    def stop(self) -> None:
        """Again is nothing."""
        self._timer.cancel()

    def _look(self) -> None:
        # One small file says whether a real count, which reads several for each process, can be worth it.
        if _tasks_of_the_machine() - self._others >= self._limit and count_tasks(self._pid, self._limit) > self._limit:
            self._exceeded()
        else:
            self._timer = asyncio.get_running_loop().call_later(_PERIOD_S, self._look)


def _tasks_of_the_machine() -> int:
    with open("/proc/loadavg", encoding="ascii") as averages:
        return int(averages.read().split()[3].partition("/")[2])
