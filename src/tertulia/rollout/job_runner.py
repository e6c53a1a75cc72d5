"""The jobs of a store, and the order in which they are done: appends together, failures by attempt.

The part of the contract that all stores share; each store commits in its own way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from tertulia.errors import BusyError, StorageError
from tertulia.protocol.storage import StoragePolicy
from tertulia.rollout.store import OnDone, Row, SweepResult, TtlAction

Callback = Callable[[], object]
"""A `done` with what it is to be told."""


class Claim(msgspec.Struct, frozen=True):
    """Become the owner now, rather than with the first append."""

    done: Callable[[StorageError | BusyError | None], None]


class Append(msgspec.Struct, frozen=True):
    """A job that carries out `RolloutStore.append`."""

    rows: Sequence[Row]
    attempt: int
    done: OnDone


class Enforce(msgspec.Struct, frozen=True):
    """A job that carries out `RolloutStore.enforce`."""

    conversation: int
    policy: StoragePolicy
    skeleton: Sequence[str]
    attempt: int
    done: OnDone


class Sweep(msgspec.Struct, frozen=True):
    """A job that carries out `RolloutStore.sweep`."""

    now: float
    action: TtlAction
    done: Callable[[SweepResult | StorageError], None]


class Close(msgspec.Struct, frozen=True):
    """A job that carries out `RolloutStore.close`."""

    done: OnDone


Job = Claim | Append | Enforce | Sweep | Close


class RecordStorage(Protocol):
    """Where records are kept. Blocks; raises StorageError, or BusyError where another process owns them."""

    def claim(self) -> None:
        """Become the owner, if we are not."""
        ...

    def commit(self, rows: Sequence[Row]) -> None:
        """Add them, all or none."""
        ...

    def enforce(self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str]) -> None:
        """Erase what a stricter policy forbids."""
        ...

    def sweep(self, now: float, action: TtlAction) -> SweepResult:
        """Erase what has expired by `now`."""
        ...

    def close(self) -> None:
        """Give up ownership, whatever it raises."""
        ...


class JobRunner:
    """Runs jobs on a `RecordStorage`, and remembers which attempts have failed."""

    def __init__(self, keeper: RecordStorage) -> None:
        self._keeper = keeper
        self._failed: tuple[int, StorageError] | None = None

    def carry_out(self, jobs: Iterable[Job]) -> deque[Callback]:
        """Do them all, in order; the answers to give, in that order."""
        answers: deque[Callback] = deque()
        together: list[Append] = []
        for job in jobs:
            if isinstance(job, Append):
                together.append(job)
                continue
            self._append(together, answers)
            together = []
            answers.append(self._single(job))
        self._append(together, answers)
        return answers

    def takes(self, attempt: int) -> bool:
        """Whether no job of this attempt, or of a later one, has failed."""
        return self._failed is None or attempt > self._failed[0]

    def _append(self, jobs: Sequence[Append], answers: deque[Callback]) -> None:
        verdicts = [self._verdict(job.attempt) for job in jobs]
        fresh = [job for job, verdict in zip(jobs, verdicts, strict=True) if verdict is None]
        if fresh:
            rows = fresh[0].rows if len(fresh) == 1 else [row for job in fresh for row in job.rows]
            error = _failure(partial(self._keeper.commit, rows))
            if error is not None:
                self._failed = (max(job.attempt for job in fresh), error)
                verdicts = [verdict or error for verdict in verdicts]
        for job, verdict in zip(jobs, verdicts, strict=True):
            answers.append(partial(job.done, verdict))

    def _verdict(self, attempt: int) -> StorageError | None:
        return self._failed[1] if self._failed is not None and attempt <= self._failed[0] else None

    def _single(self, job: Claim | Enforce | Sweep | Close) -> Callback:
        if isinstance(job, Claim):
            return partial(job.done, _refusal(self._keeper.claim))
        if isinstance(job, Enforce):
            return partial(job.done, self._enforce(job))
        if isinstance(job, Sweep):
            swept: list[SweepResult] = []
            error = _failure(lambda: swept.append(self._keeper.sweep(job.now, job.action)))
            return partial(job.done, error or swept[0])
        return partial(job.done, _failure(self._keeper.close))

    def _enforce(self, job: Enforce) -> StorageError | None:
        error = self._verdict(job.attempt)
        if error is None:
            error = _failure(lambda: self._keeper.enforce(job.conversation, job.policy, job.skeleton))
            if error is not None:
                self._failed = (job.attempt, error)
        return error


def _refusal(act: Callable[[], None]) -> StorageError | BusyError | None:
    try:
        act()
    except (StorageError, BusyError) as error:
        return error
    return None


def _failure(act: Callable[[], None]) -> StorageError | None:
    refusal = _refusal(act)
    return StorageError(refusal.message, **refusal.detail) if isinstance(refusal, BusyError) else refusal
