"""The store of this machine: one SQLite file a session, written by one thread, all waiting jobs in a batch."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from tertulia.errors import BusyError, ClosedError, StorageError
from tertulia.events.clock import Clock
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.job_runner import Append, Callback, Claim, Close, Enforce, Job, JobRunner, Sweep
from tertulia.rollout.sqlite.owned_file import Durability, OwnedFile
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.store import OnDone, Row, SweepResult, TtlAction


class LoopWaker:
    """Wakes the loop from the writer's thread, through an eventfd. Made and answered on the loop's thread.

    Raises OSError, AttributeError or NotImplementedError where there can be none. `ring` must not be called after
    `close`: the descriptor may be another file's by then.
    """

    __slots__ = ("_answer", "_fd", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[], None]) -> None:
        self._loop = loop
        self._answer = answer
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            loop.add_reader(self._fd, self._on_ring)
        except BaseException:
            os.close(self._fd)
            raise

    def ring(self) -> None:
        """Have it answered soon, once for all that rang before. From any thread; never blocks or raises."""
        try:
            os.eventfd_write(self._fd, 1)
        except OSError:
            # No system is known where it fails; a caller that waits for ever would be worse than the slow way.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer)

    def close(self) -> None:
        """On the loop's thread, or when the loop is gone."""
        # A closed loop has no readers to remove.
        with suppress(RuntimeError):
            self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _on_ring(self) -> None:
        with suppress(OSError):
            os.eventfd_read(self._fd)
        self._answer()


class WriterThread:
    """Starts its thread with the first job and ends it with the last, which is a `Close`.

    Answers are given on the loop that the first job came from, all of one batch in one wake-up.
    """

    def __init__(self, file: OwnedFile, name: str) -> None:
        self._file = file
        self._name = name
        self._runner = JobRunner(file)
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._answers: deque[Callback] = deque()
        """Answers to be given, in order. The thread adds, the loop takes."""
        self._waker: LoopWaker | None = None
        self._started = False
        self._closing = False
        self._broken: StorageError | None = None

    def put(self, job: Job) -> None:
        """Have it done after all others. Raises Closed after a `Close`."""
        if self._closing:
            raise ClosedError(f"the record {self._name} is closed")
        self._closing = isinstance(job, Close)
        if self._broken is not None:
            asyncio.get_running_loop().call_soon(job.done, self._broken)
            return
        if self._started:
            self._jobs.put(job)
            return
        loop = asyncio.get_running_loop()
        if isinstance(job, Close):
            loop.call_soon(job.done, None)
            return
        try:
            self._start(loop)
        except RuntimeError:
            reason = "the system gives no more threads; end other programs, or raise the limit (`ulimit -u`)"
            refusal = StorageError(f"no thread can be started to write {self._name}: {reason}", kind="memory")
            loop.call_soon(job.done, refusal)
        else:
            self._jobs.put(job)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        # It is not joined: a disk that hangs must not keep the process.
        name = f"tertulia writer {self._name}"
        threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()
        self._started = True
        # Where there can be none, the loop has a way of its own, which takes longer.
        with suppress(AttributeError, OSError, NotImplementedError):
            self._waker = LoopWaker(loop, partial(self._give, loop))

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        open, jobs = True, list[Job]()
        try:
            while open:
                jobs = self._take()
                answers = self._runner.carry_out(jobs)
                open, jobs = not isinstance(jobs[-1], Close), []
                self._answers += answers
                # The receivers may be gone by then; this thread must not keep them alive.
                answers.clear()
                if open and self._waker is not None:
                    self._waker.ring()
                else:
                    self._tell(loop, self._give if open else self._give_last)
                self._file.checkpoint_if_grown()
        finally:
            if open:
                # A bug, which the thread's own hook reports. No caller may wait for ever because of it.
                self._fail(jobs, loop)

    def _fail(self, jobs: list[Job], loop: asyncio.AbstractEventLoop) -> None:
        self._broken = StorageError(f"the writer of {self._name} broke down; what it has not confirmed may be lost")
        while not self._jobs.empty():
            jobs.append(self._jobs.get())
        self._answers += [partial(job.done, self._broken) for job in jobs]
        self._tell(loop, self._give_last)

    def _take(self) -> list[Job]:
        queue = self._jobs
        jobs = [queue.get()]
        # Only this thread takes from it: what was there is still there.
        while not queue.empty():
            jobs.append(queue.get())
        return jobs

    # ── answering ────────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self, loop: asyncio.AbstractEventLoop, give: Callable[[asyncio.AbstractEventLoop], None]) -> None:
        try:
            loop.call_soon_threadsafe(give, loop)
        except RuntimeError:
            # The loop is gone, and with it all receivers.
            self._close_waker()

    def _give(self, loop: asyncio.AbstractEventLoop) -> None:
        answers = self._answers
        try:
            while answers:
                answers.popleft()()
        finally:
            if answers:
                # One callback raised: the loop reports that, and the others are still called.
                loop.call_soon(self._give, loop)

    def _give_last(self, loop: asyncio.AbstractEventLoop) -> None:
        # The thread has rung for the last time: only now may it be put away.
        self._close_waker()
        self._give(loop)

    def _close_waker(self) -> None:
        waker, self._waker = self._waker, None
        if waker is not None:
            waker.close()


class SqliteStore:
    """A RolloutStore in `<home>/sessions/<id>.db`. Nothing is made on the disk before the first use.

    Raises InvalidParams for an id that is no UUID.
    """

    def __init__(self, home: Path, session_id: str, clock: Clock, durability: Durability = "normal") -> None:
        files = session_files(home, session_id)
        self._place = str(files.db)
        self._writer = WriterThread(OwnedFile(files, clock, durability), session_id)

    @property
    def place(self) -> str:
        """The path of the file."""
        return self._place

    def claim(self, done: Callable[[StorageError | BusyError | None], None]) -> None:
        """Become the owner before anything is appended: a resumed session does so before it reads.

        BusyError where another process is; an append that finds the session owned says the same as a StorageError.
        """
        self._writer.put(Claim(done))

    def append(self, rows: Sequence[Row], attempt: int, done: OnDone) -> None:
        """Commit the rows, all or none."""
        for row in rows:
            row.check()
        self._writer.put(Append(rows, attempt, done))

    def enforce(
        self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str], attempt: int, done: OnDone
    ) -> None:
        """Make everything stored of a conversation obey a stricter policy."""
        self._writer.put(Enforce(conversation, policy, skeleton, attempt, done))

    def sweep(self, now: float, action: TtlAction, done: Callable[[SweepResult | StorageError], None]) -> None:
        """Remove what has expired by `now`."""
        self._writer.put(Sweep(now, action, done))

    def close(self, done: OnDone) -> None:
        """Give up ownership of the session."""
        self._writer.put(Close(done))
