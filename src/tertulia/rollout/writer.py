"""The thread in which a store's jobs are carried out, all that are waiting at a time."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from queue import SimpleQueue

from tertulia.errors import Closed, StorageError
from tertulia.rollout.jobs import Answer, Close, Foreman, Job
from tertulia.rollout.owned_file import OwnedFile


class Writer:
    """Starts its thread with the first job and ends it with the last, which is a `Close`.

    Answers are given on the loop that the first job came from, all of one batch in one wake-up.
    """

    def __init__(self, file: OwnedFile, name: str) -> None:
        self._file = file
        self._name = name
        self._foreman = Foreman(file)
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._started = False
        self._closing = False

    def put(self, job: Job) -> None:
        """Have it done after all others. Raises Closed after a `Close`."""
        if self._closing:
            raise Closed(f"the record {self._name} is closed")
        self._closing = isinstance(job, Close)
        if self._started:
            self._jobs.put(job)
            return
        loop = asyncio.get_running_loop()
        if isinstance(job, Close):
            loop.call_soon(job.done, None)
            return
        try:
            self._start(loop)
        except RuntimeError as error:
            refusal = StorageError(f"no thread can be started to write {self._name}: {error}", kind="memory")
            loop.call_soon(job.done, refusal)
        else:
            self._jobs.put(job)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        # Nobody joins it: a disk that hangs must not keep the process.
        name = f"tertulia writer {self._name}"
        threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()
        self._started = True

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        open = True
        while open:
            jobs = self._take()
            open = not isinstance(jobs[-1], Close)
            answers = self._foreman.carry_out(jobs)
            # The loop may be gone, and with it everybody who wanted to know.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_give, loop, answers)
            self._file.checkpoint_if_grown()

    def _take(self) -> list[Job]:
        queue = self._jobs
        jobs = [queue.get()]
        # Nobody else takes from it: what was there is still there.
        while not queue.empty():
            jobs.append(queue.get())
        return jobs


def _give(loop: asyncio.AbstractEventLoop, answers: deque[Answer]) -> None:
    try:
        while answers:
            answers.popleft()()
    finally:
        if answers:
            # One of them raised: that is between it and the loop, the others are still told.
            loop.call_soon(_give, loop, answers)
