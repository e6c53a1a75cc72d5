"""The threads that write all sessions of an event loop: a few, whatever the number of sessions.

The jobs of a session are carried out in order, by one thread at a time; sessions take turns. One thread does the work
as long as it gets on: a commit that does not wait for the disk is over before another thread could help. Others help
where a commit waits for the disk (durability "full"), and where nothing has moved for a moment, so that a session whose
disk is slow holds up no other. A thread that has nothing to do sleeps, and is not woken by any timer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from tertulia.errors import ClosedError, StorageError
from tertulia.rollout.job_runner import Callback, Close, Job, JobRunner
from tertulia.rollout.sqlite.loop_waker import LoopWaker
from tertulia.rollout.sqlite.owned_file import OwnedFile

MOST_HELPERS = 7
"""Threads besides the first. So many sessions can wait for a disk that hangs before the others have to wait, too."""
STALL_S = 0.05
"""After so long without a job begun another thread helps."""

_TOLD_TOGETHER = 8

_pools: dict[asyncio.AbstractEventLoop, WriterPool] = {}


class SessionWriter:
    """The jobs of one session, in order. Threads are found with the first job, and left with the last, a `Close`."""

    __slots__ = ("_broken", "_closing", "_file", "_jobs", "_lock", "_name", "_pool", "_runner", "_waiting",
                 "waits_for_disk")  # fmt: skip

    def __init__(self, file: OwnedFile, name: str, *, waits_for_disk: bool = False) -> None:
        self._file = file
        self._name = name
        self._runner = JobRunner(file)
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._waiting = False
        """Whether the pool has it, or will have it: it must not get it twice."""
        self._pool: WriterPool | None = None
        self._closing = False
        self._broken: StorageError | None = None
        self.waits_for_disk = waits_for_disk

    def put(self, job: Job) -> None:
        """Have it done after all others. Raises ClosedError after a `Close`. On the loop's thread."""
        if self._closing:
            raise ClosedError(f"the record {self._name} is closed")
        self._closing = isinstance(job, Close)
        pool = self._pool or self._enter(job)
        if pool is None:
            return
        with self._lock:
            broken, waited = self._broken, self._waiting
            if broken is None:
                self._jobs.append(job)
                self._waiting = True
        if broken is not None:
            asyncio.get_running_loop().call_soon(job.done, broken)
        elif not waited:
            pool.schedule(self)

    def _enter(self, job: Job) -> WriterPool | None:
        """Find the pool with the first job; None where that is answered already."""
        loop = asyncio.get_running_loop()
        if isinstance(job, Close):
            loop.call_soon(job.done, None)
            return None
        try:
            self._pool = WriterPool.enter(loop)
        except RuntimeError:
            reason = "the system gives no more threads; end other programs, or raise the limit (`ulimit -u`)"
            refusal = StorageError(f"no thread can be started to write {self._name}: {reason}", kind="memory")
            loop.call_soon(job.done, refusal)
        return self._pool

    # ── on a thread of the pool ──────────────────────────────────────────────────────────────────────────────

    def run(self) -> bool:
        """Carry out all jobs that wait; returns whether the last of all was among them."""
        assert self._pool is not None
        with self._lock:
            jobs, self._jobs = self._jobs, []
        answers = deque[Callback]()
        try:
            answers = self._runner.carry_out(jobs)
        finally:
            if not answers:
                # A bug, which the thread's own hook reports. No caller may wait for ever because of it.
                self._fail(jobs, self._pool)
        is_last = isinstance(jobs[-1], Close)
        self._pool.add(answers, is_last=is_last)
        return is_last

    def rest(self) -> bool:
        """Do what no caller waits for; whether jobs have come meanwhile."""
        self._file.checkpoint_if_grown()
        with self._lock:
            self._waiting = bool(self._jobs)
            return self._waiting

    def _fail(self, jobs: list[Job], pool: WriterPool) -> None:
        broken = StorageError(f"the writer of {self._name} broke down; what it has not confirmed may be lost")
        with self._lock:
            self._broken = broken
            jobs += self._jobs
        pool.add(deque(partial(job.done, broken) for job in jobs), is_last=True)
        pool.tell(is_last=True)


class WriterPool:
    """The threads of one loop. They begin with its first session, and end when the last one is closed.

    What sessions put in one pass of the loop is handed over together, and answers are given together, on the loop's
    thread: a thread that has to be woken costs more than a commit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """RuntimeError where there can be no thread."""
        self._loop = loop
        self._lock = threading.Lock()
        self._sessions = 0
        self._pending: list[SessionWriter] = []
        """Sessions that have put jobs in this pass of the loop."""
        self._ready: deque[SessionWriter] = deque()
        """Sessions whose jobs wait for a thread, in the order they came."""
        self._work: SimpleQueue[bool] = SimpleQueue()
        """Wakes the first thread: there is work. False ends it."""
        self._help: SimpleQueue[bool] = SimpleQueue()
        """Wakes a helper in the same way; False ends one."""
        self._helpers = 0
        self._free_helpers = 0
        self._answers: deque[Callback] = deque()
        """Answers to be given, in order. Threads add, the loop takes."""
        self._is_told = False
        self._begun = 0
        """How many turns of sessions were begun, about."""
        self._is_busy = False
        self._look: asyncio.TimerHandle | None = None
        self._waker: LoopWaker | None = None
        _start(self._run_first)
        # Where there can be none, the loop has a way of its own, which takes longer.
        with suppress(AttributeError, OSError, NotImplementedError):
            self._waker = LoopWaker(loop, self._give)

    @classmethod
    def enter(cls, loop: asyncio.AbstractEventLoop) -> WriterPool:
        """The pool of the loop, with one session more. RuntimeError where there can be no thread."""
        pool = _pools.get(loop)
        if pool is None:
            pool = _pools[loop] = cls(loop)
        with pool._lock:
            pool._sessions += 1
        return pool

    # ── on the loop ──────────────────────────────────────────────────────────────────────────────────────────

    def schedule(self, session: SessionWriter) -> None:
        """Have its jobs carried out, in its turn."""
        self._pending.append(session)
        if self._sessions == 1:
            self._hand_over()
        elif len(self._pending) == 1:
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        pending, self._pending = self._pending, []
        was_busy = self._is_busy
        self._ready += pending
        self._work.put(True)
        for _ in [session for session in pending if session.waits_for_disk][not was_busy :]:
            self._call_helper()
        if self._look is None and (was_busy or len(pending) > 1):
            self._look = self._loop.call_later(STALL_S, self._look_after, self._begun)

    def _look_after(self, begun: int) -> None:
        """Nothing that is slow may hold up the others."""
        self._look = None
        if self._answers:
            self._give()
        if not self._ready:
            return
        if self._begun == begun:
            self._call_helper()
        self._look = self._loop.call_later(STALL_S, self._look_after, self._begun)

    def _call_helper(self) -> None:
        with self._lock:
            if self._free_helpers:
                self._free_helpers -= 1
            elif self._helpers < MOST_HELPERS:
                try:
                    _start(self._run_helper)
                except RuntimeError:
                    # Without another thread it takes longer.
                    return
                self._helpers += 1
            else:
                return
        self._help.put(True)

    def _give(self) -> None:
        self._is_told = False
        answers = self._answers
        try:
            while answers:
                answers.popleft()()
        finally:
            if answers:
                # One callback raised: the loop reports that, and the others are still called.
                self._loop.call_soon(self._give)

    def _leave(self) -> None:
        """One session less. Where the loop is gone, on the thread that wrote it."""
        with self._lock:
            self._sessions -= 1
            if self._sessions:
                return
            waker, self._waker = self._waker, None
            if _pools.get(self._loop) is self:
                del _pools[self._loop]
        if self._look is not None:
            self._look.cancel()
        # Every session was closed and answered: no thread has anything to do, or to tell.
        self._work.put(False)
        for _ in range(self._helpers):
            self._help.put(False)
        if waker is not None:
            waker.close()

    # ── on the threads ───────────────────────────────────────────────────────────────────────────────────────

    def _run_first(self) -> None:
        goes_on = True
        try:
            while goes_on := self._work.get():
                self._is_busy = True
                self._write_all()
                self._is_busy = False
        finally:
            if goes_on:
                # A bug: the thread ends with it, and another one takes its place.
                self._is_busy = False
                _start(self._run_first)
                self._work.put(True)

    def _run_helper(self) -> None:
        goes_on = True
        try:
            while goes_on := self._help.get():
                self._write_all()
                with self._lock:
                    self._free_helpers += 1
        finally:
            if goes_on:
                with self._lock:
                    self._helpers -= 1

    def _write_all(self) -> None:
        """Write the sessions that wait, each in its turn."""
        untold = 0
        while self._ready:
            try:
                session = self._ready.popleft()
            except IndexError:
                # Another thread was faster.
                break
            self._begun += 1
            is_last = session.run()
            untold += 1
            if is_last or session.waits_for_disk or untold >= _TOLD_TOGETHER or not self._ready:
                self.tell(is_last=is_last)
                untold = 0
            if not is_last and session.rest():
                self._ready.append(session)
        if untold:
            self.tell()

    def add(self, answers: deque[Callback], *, is_last: bool) -> None:
        """Take answers for the loop. `is_last`: the session leaves with them."""
        if is_last:
            answers.append(self._leave)
        self._answers += answers
        # The receivers may be gone soon; this thread must not keep them alive.
        answers.clear()

    def tell(self, *, is_last: bool = False) -> None:
        """Have the loop give the answers. `is_last`: a session leaves with them."""
        with self._lock:
            if self._waker is not None and not is_last:
                if not self._is_told:
                    self._is_told = True
                    self._waker.ring()
                return
        try:
            self._loop.call_soon_threadsafe(self._give)
        except RuntimeError:
            # The loop is gone, and with it all receivers. Only who leaves matters.
            answers, self._answers = self._answers, deque()
            for _ in range(sum(answer == self._leave for answer in answers)):
                self._leave()


def _start(work: Callable[[], None]) -> None:
    # It is not joined: a disk that hangs must not keep the process.
    threading.Thread(target=work, name="tertulia writer", daemon=True).start()
