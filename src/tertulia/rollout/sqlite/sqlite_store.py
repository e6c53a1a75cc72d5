"""The store of this machine: one SQLite file a session.

It is written by the threads that all sessions of a loop share; what is brief, and waits for nothing, on the loop's own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tertulia.errors import BusyError, ClosedError, StorageError
from tertulia.events.clock import Clock
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.job_runner import Append, Callback, Claim, Close, Enforce, Job, JobRunner, Sweep
from tertulia.rollout.sqlite.owned_file import Durability, OwnedFile
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.sqlite.table import is_brief
from tertulia.rollout.sqlite.writer_pool import WriterPool, count_sleeps
from tertulia.rollout.store import OnDone, Row, SweepResult, TtlAction


class SessionWriter:
    """The jobs of one session, in order. Threads are found with the first job, and left with the last, a `Close`."""

    __slots__ = ("_broken", "_closing", "_file", "_handed", "_is_durable", "_jobs", "_lock", "_name", "_pool",
                 "_runner", "_waiting")  # fmt: skip

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
        self._is_durable = waits_for_disk
        self._handed = 0
        """Jobs that a thread has, or whose answers are not given yet."""

    def put(self, job: Job) -> None:
        """Have it done after all others. Raises ClosedError after a `Close`. On the loop's thread."""
        if self._closing:
            raise ClosedError(f"the record {self._name} is closed")
        self._closing = isinstance(job, Close)
        pool = self._pool or self._enter(job)
        if pool is None or (isinstance(job, Append) and self._commit_here(job, pool)):
            return
        self._handed += 1
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

    def _commit_here(self, job: Append, pool: WriterPool) -> bool:
        """Commit on the loop's thread what takes less time than to wake another one; whether that was done.

        Not where an earlier job is with a thread or not answered yet, and not soon after the disk was slow.
        """
        if self._handed or self._broken is not None or not self._runner.takes(job.attempt) or not is_brief(job.rows):
            return False
        began = pool.now()
        slow_until = max(pool.disk_slow_until, pool.flush_slow_until if self._is_durable else 0.0)
        if began < slow_until or not self.take_turn():
            return False
        is_done, sleeps = None, count_sleeps()
        try:
            is_done = self._file.commit_at_once(job.rows)
        finally:
            # No job comes meanwhile: they come from this thread.
            self._waiting = False
            if is_done is None:
                self._fail([job], pool)
        pool.note_commit(self, began, sleeps)
        if self._is_durable:
            pool.note_flush(began)
        if is_done:
            job.done(None)
        return bool(is_done)

    def _note_answers(self, count: int) -> None:
        self._handed -= count

    @property
    def progress(self) -> int:
        """How many turns the sessions of its pool have had, about."""
        return 0 if self._pool is None else self._pool.turns

    # ── on a thread of the pool ──────────────────────────────────────────────────────────────────────────────

    @property
    def is_open(self) -> bool:
        """Whether it holds descriptors of the session's files."""
        return self._file.is_open

    @property
    def waits_for_disk(self) -> bool:
        """Whether its next turn does: a file that is closed is flushed."""
        return self._is_durable or self._closing

    def take_turn(self) -> bool:
        """Whether a turn can be had for it, because it waits for none."""
        with self._lock:
            waited, self._waiting = self._waiting, True
            return not waited

    def let_go(self) -> None:
        """Close the session's files, in its turn, until there are jobs again."""
        self._file.let_go()

    def run(self) -> bool:
        """Carry out all jobs that wait; returns whether the last of all was among them."""
        assert self._pool is not None
        with self._lock:
            jobs, self._jobs = self._jobs, []
        if not jobs:
            # A turn to let its files go.
            self.let_go()
            return False
        answers, began, only_added = deque[Callback](), self._pool.now(), self._file.journal.only_grows
        try:
            answers = self._runner.carry_out(jobs)
        finally:
            if not answers:
                # A bug, which the thread's own hook reports. No caller may wait for ever because of it.
                self._fail(jobs, self._pool)
        is_last = isinstance(jobs[-1], Close)
        if self._is_durable and only_added and not is_last:
            self._pool.note_flush(began)
        answers.append(partial(self._note_answers, len(jobs)))
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


class SqliteStore:
    """A RolloutStore in `<home>/sessions/<id>.db`. Nothing is made on the disk before the first use.

    Raises InvalidParams for an id that is no UUID.
    """

    def __init__(self, home: Path, session_id: str, clock: Clock, durability: Durability = "normal") -> None:
        files = session_files(home, session_id)
        self._place = str(files.db)
        file = OwnedFile(files, clock, durability)
        self._writer = SessionWriter(file, session_id, waits_for_disk=durability == "full")

    @property
    def place(self) -> str:
        """The path of the file."""
        return self._place

    @property
    def progress(self) -> int:
        """Grows as long as the threads that write it get on."""
        return self._writer.progress

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
