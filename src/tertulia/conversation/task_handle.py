"""The handle of a running task: by it the task is stopped, in bounded time."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, Protocol

from tertulia.protocol.events import AbortReason
from tertulia.protocol.ids import ItemId, TaskId


class UnfinishedAnswer(Protocol):
    """An answer that is being written: what of it has come."""

    @property
    def item_id(self) -> ItemId: ...
    @property
    def text(self) -> str: ...


class AnswerWriter(Protocol):
    """The task as one that writes an answer."""

    @property
    def partial(self) -> UnfinishedAnswer | None: ...


class TaskHandle:
    """Stops a task once, for one reason, in bounded time.

    `abort` cancels the task's coroutine; one that does not end within the grace is abandoned: `stopped` has a result
    all the same, and the caller that waits for it goes on without the coroutine.
    """

    __slots__ = (
        "_job", "_timer", "abandoned", "ended", "grace_s", "reason", "started_at", "status", "stopped", "task_id",
        "writer",
    )  # fmt: skip

    def __init__(self, task_id: TaskId, started_at: float) -> None:
        self.task_id = task_id
        self.started_at = started_at
        self.status: Literal["running", "done", "cancelled"] = "running"
        self.reason: AbortReason | None = None
        """Why it was stopped; the first reason stands."""
        self.grace_s = 0.0
        """How long it was given to stop."""
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has a result when the task's coroutine has ended, or the grace is over and it has not."""
        self.abandoned = False
        """Whether it did not stop in time."""
        self.ended = asyncio.Event()
        self.writer: AnswerWriter | None = None
        """While it runs; it knows the conversation, which knows this handle, so the end takes it away."""
        self._job: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more; its end may not be published yet."""
        return self.status != "running" or (self._job is not None and self._job.done())

    def attach(self, job: asyncio.Task[Any]) -> None:
        """The coroutine that runs it. An abort that came before is carried out now."""
        self._job = job
        # The coroutine calls `stop` in its last step; one that is cancelled before its first step has none.
        job.add_done_callback(self._job_ended)
        if self.reason is not None:
            job.cancel()

    def abort(self, reason: AbortReason, grace_s: float) -> bool:
        """Ask it to stop; whether this was the first to ask. A shorter grace than an earlier one is honoured."""
        if self.over:
            return False
        first = self.reason is None
        if first:
            self.reason = reason
            if self._job is not None:
                self._job.cancel()
        deadline = asyncio.get_running_loop().time() + grace_s
        if self._timer is None or deadline < self._timer.when():
            self._cancel_timer()
            self.grace_s = grace_s
            self._timer = asyncio.get_running_loop().call_at(deadline, self._force)
        return first

    def stop(self) -> None:
        """Called in the last step of the coroutine: wakes the waiting caller in the next pass of the loop."""
        if not self.stopped.done():
            self.stopped.set_result(None)

    def end(self) -> None:
        """Mark the task as ended; later aborts have no effect."""
        self.status = "cancelled" if self.reason is not None else "done"
        self._job = self.writer = None
        self._cancel_timer()
        self.stop()
        self.ended.set()

    def _job_ended(self, _: asyncio.Task[Any]) -> None:
        self.stop()

    def _force(self) -> None:
        if not self.stopped.done():
            self.abandoned = True
            self.stopped.set_result(None)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
