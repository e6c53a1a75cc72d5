"""The one place that starts coroutines, each with an owner that ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from tertulia.policy.log_redaction import log_text

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Nursery:
    """Owns background tasks. A failure is logged and does not affect the other tasks."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run a coroutine as a task, which is dropped when it ends."""
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self, timeout_s: float) -> int:
        """Cancel all tasks and wait for at most so long; returns how many did not end and were abandoned."""
        caller = {asyncio.current_task()}
        tasks = self._tasks - caller
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        return len(self._tasks - caller)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        try:
            error = task.exception()
        except asyncio.CancelledError:
            # The exception is read even so: until then the task holds its traceback, and that holds the task.
            return
        if error is not None:
            _log.error("a background task failed: %s: %s", task.get_name(), log_text(error))
