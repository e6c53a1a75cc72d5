"""The threads that write all sessions of an event loop: a few, whatever the number of sessions.

The jobs of a session are carried out in order, by one thread at a time; sessions take turns. One thread does the work
as long as it gets on: a commit that does not wait for the disk is over before another thread could help. Others help
where a commit waits for the disk (durability "full"), and where nothing has moved for a moment, so that a session whose
disk is slow holds up no other. A thread that has nothing to do sleeps, and where all sessions are idle no timer runs.

Only so many sessions have their files open as the limit of descriptors allows; those that were used least recently let
theirs go, stay owned, and open them again with their next job. So do all but a few that have been idle for seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from tertulia.rollout.job_runner import Callback

if TYPE_CHECKING or sys.platform != "win32":
    import resource

MOST_HELPERS = 7
"""Threads besides the first. So many sessions can wait for a disk that hangs before the others have to wait, too."""
STALL_S = 0.05
"""After so long without a job begun another thread helps."""

SLOW_S, SLOW_FLUSH_S, SLOW_FOR = 0.05, 0.002, 20
"""Where a commit on the loop's thread took longer than the first, or one with a flush, on any thread, longer than the
second, threads commit for so many times as long: at most a twentieth of the loop's time is lost to a slow disk."""

_looks = count()
LEAST_OPEN, MOST_OPEN = 8, 1024
"""Between these lies how many sessions have their files open at once. One takes 200 KB."""
IDLE_OPEN, IDLE_S = 64, 5.0
"""So many keep them open when they have not been used for so long."""
_TOLD_TOGETHER = 8

_pools: dict[asyncio.AbstractEventLoop, WriterPool] = {}


class LoopWaker:
    """Wakes the loop from any thread, through an eventfd. Made and answered on the loop's thread.

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


class PooledSession(Protocol):
    """A session as its pool sees it. All but the first two are called in its turn, on a thread of the pool."""

    @property
    def waits_for_disk(self) -> bool:
        """Whether its next turn does, so that another thread is worth its price."""
        ...

    def take_turn(self) -> bool:
        """Whether a turn can be had for it, because it waits for none."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether it holds descriptors of the session's files."""
        ...

    def run(self) -> bool:
        """Carry out all jobs that wait, or let the files go; returns whether the last of all jobs was among them."""
        ...

    def rest(self) -> bool:
        """Do what no caller waits for; whether jobs have come meanwhile."""
        ...

    def let_go(self) -> None:
        """Close the session's files until there are jobs again."""
        ...


class WriterPool:
    """The threads of one loop. They begin with its first session, and end when the last one is closed.

    What sessions put in one pass of the loop is handed over together, and answers are given together, on the loop's
    thread: a thread that has to be woken costs more than a commit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """RuntimeError where there can be no thread."""
        self._loop = loop
        self.now = loop.time
        self._lock = threading.Lock()
        self._sessions = 0
        self._pending: list[PooledSession] = []
        """Sessions that have put jobs in this pass of the loop."""
        self._ready: deque[PooledSession] = deque()
        """Sessions whose jobs wait for a thread, in the order they came."""
        self._work: SimpleQueue[bool] = SimpleQueue()
        """Wakes the first thread: there is work. False ends it."""
        self._help: SimpleQueue[bool] = SimpleQueue()
        """Wakes a helper in the same way; False ends one."""
        self._open: dict[PooledSession, float] = {}
        """Sessions whose files are open, and when each was used; the one that was used last stands at the end."""
        self._idle_look: asyncio.TimerHandle | None = None
        self._most_open = _most_open()
        self._helpers = 0
        self._free_helpers = 0
        self._answers: deque[Callback] = deque()
        """Answers to be given, in order. Threads add, the loop takes."""
        self._is_woken = False
        self.turns = 0
        """How many sessions had a turn, about."""
        self._is_busy = False
        self.disk_slow_until = 0.0
        """Until then, by `now`, threads commit everything."""
        self.flush_slow_until = 0.0
        """Until then, they commit what waits for the disk."""
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

    def schedule(self, session: PooledSession) -> None:
        """Have its jobs carried out, in its turn."""
        self._pending.append(session)
        if self._sessions == 1:
            self._hand_over()
        elif len(self._pending) == 1:
            self._loop.call_soon(self._hand_over)

    def note_commit(self, session: PooledSession, began: float, sleeps: int) -> None:
        """It committed without a thread, in a turn that was taken for it. `sleeps`: `count_sleeps` when it began."""
        now = self.now()
        # Where it never slept, other programs had the processor meanwhile, and the disk was not slow.
        if now - began > SLOW_S and count_sleeps() > sleeps:
            self.disk_slow_until = now + (now - began) * SLOW_FOR
        with self._lock:
            if self._open.pop(session, None) is not None:
                self._open[session] = now

    def note_flush(self, began: float) -> None:
        """A commit has waited for the disk, on whatever thread: what is slow on one is slow on another."""
        took = (now := self.now()) - began
        if took > SLOW_FLUSH_S:
            self.flush_slow_until = max(self.flush_slow_until, now + took * SLOW_FOR)

    def _hand_over(self) -> None:
        pending, self._pending = self._pending, []
        was_busy = self._is_busy
        self._ready += pending
        self._work.put(True)
        for _ in [session for session in pending if session.waits_for_disk][not was_busy :]:
            self._call_helper()
        if self._look is None and (was_busy or len(pending) > 1):
            self._look = self._loop.call_later(STALL_S, self._look_after, self.turns)

    def _look_after(self, begun: int) -> None:
        """Nothing that is slow may hold up the others."""
        self._look = None
        if self._answers:
            self._give()
        if not self._ready:
            return
        if self.turns == begun:
            self._call_helper()
        self._look = self._loop.call_later(STALL_S, self._look_after, self.turns)

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

    def _let_idle_go(self) -> None:
        """Have the files closed that were not used for a while, until few enough are open. Then nothing is planned."""
        self._idle_look = None
        before = self._loop.time() - IDLE_S
        with self._lock:
            oldest = list(islice(self._open.items(), max(0, len(self._open) - IDLE_OPEN)))
            idle = [session for session, used in oldest if used <= before and session.take_turn()]
            for session in idle:
                del self._open[session]
        if idle:
            self._ready += idle
            self._work.put(True)
        self._plan_to_let_go()

    def _plan_to_let_go(self) -> None:
        if self._idle_look is None and len(self._open) > IDLE_OPEN:
            self._idle_look = self._loop.call_later(IDLE_S, self._let_idle_go)

    def _give(self) -> None:
        self._is_woken = False
        self._plan_to_let_go()
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
            _pools.pop(self._loop, None)
        for timer in (self._look, self._idle_look):
            if timer is not None:
                timer.cancel()
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
        while True:
            try:
                session = self._ready.popleft()
            except IndexError:
                break
            self.turns += 1
            is_last = session.run()
            # Before the loop is told: it plans by what is open.
            excess = None if is_last else self._note_use(session)
            untold += 1
            if is_last or session.waits_for_disk or untold >= _TOLD_TOGETHER or not self._ready:
                self.tell(is_last=is_last)
                untold = 0
            if excess is session:
                session.let_go()
            elif excess is not None:
                # Before others that would open more.
                self._ready.appendleft(excess)
            if not is_last and session.rest():
                self._ready.append(session)
        if untold:
            # Another thread has taken the one after it.
            self.tell()

    def _note_use(self, session: PooledSession) -> PooledSession | None:
        """Where more files are open than may be: whose to close, those that were used least recently.

        Where these wait for a turn themselves, all are at work: then it is the session's own, for they would be closed
        and opened in a circle.
        """
        with self._lock:
            self._open.pop(session, None)
            if not session.is_open:
                return None
            self._open[session] = self._loop.time()
            if len(self._open) <= self._most_open:
                return None
            oldest = next(iter(self._open))
            if oldest is session or not oldest.take_turn():
                oldest = session
            del self._open[oldest]
            return oldest

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
                if not self._is_woken:
                    self._is_woken = True
                    self._waker.ring()
                return
        try:
            self._loop.call_soon_threadsafe(self._give)
        except RuntimeError:
            # The loop is gone, and with it all receivers. Only who leaves matters.
            answers, self._answers = self._answers, deque()
            for _ in range(sum(answer == self._leave for answer in answers)):
                self._leave()


def count_sleeps() -> int:
    """How often this thread has waited for something other than the processor."""
    # Not known of a thread elsewhere: it counts as having waited.
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw if sys.platform == "linux" else next(_looks)


def _most_open() -> int:
    """How many sessions may have their files open: three descriptors each, and most of a limit is for other things."""
    if sys.platform == "win32":
        return MOST_OPEN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if soft == resource.RLIM_INFINITY else max(LEAST_OPEN, min(MOST_OPEN, soft // 8))


def _start(work: Callable[[], None]) -> None:
    # It is not joined: a disk that hangs must not keep the process.
    threading.Thread(target=work, name="tertulia writer", daemon=True).start()
