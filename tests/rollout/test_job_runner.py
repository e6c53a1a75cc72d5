"""Jobs in order, appends together; see test_store.py for what that means to a store's users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tertulia.errors import BusyError, StorageError
from tertulia.protocol.storage import Full, StoragePolicy
from tertulia.rollout.job_runner import Append, Claim, Close, Enforce, Job, JobRunner, Sweep
from tertulia.rollout.store import Row, SweepResult, TtlAction
from tests.rollout.stages import row


class Notebook:
    """A keeper that notes what it is asked for, and fails where it is told to."""

    def __init__(self) -> None:
        self.noted: list[Any] = []
        self.error: StorageError | BusyError | None = None

    def _note(self, *what: Any) -> None:
        if self.error is not None:
            raise self.error
        self.noted.append(what)

    def claim(self) -> None:
        self._note("claim")

    def commit(self, rows: Iterable[Row]) -> None:
        self._note("commit", *(row.n for row in rows))

    def enforce(self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str]) -> None:
        self._note("enforce", conversation)

    def sweep(self, now: float, action: TtlAction) -> SweepResult:
        self._note("sweep", action)
        return SweepResult(bodies=3)

    def close(self) -> None:
        self._note("close")


def carry_out(runner: JobRunner, jobs: list[Job]) -> None:
    for answer in runner.carry_out(jobs):
        answer()


def test_appends_that_stand_together_are_one_commit() -> None:
    """Group commit: everything queued is one transaction."""
    notebook, heard = Notebook(), []
    carry_out(
        JobRunner(notebook),
        [
            Claim(heard.append),
            Append([row(1)], 0, heard.append),
            Append([row(2), row(3)], 1, heard.append),
            Enforce(7, Full(), (), 1, heard.append),
            Append([row(4)], 1, heard.append),
            Sweep(0.0, "delete", heard.append),
            Close(heard.append),
        ],
    )
    assert notebook.noted == [
        ("claim",), ("commit", 1, 2, 3), ("enforce", 7), ("commit", 4), ("sweep", "delete"), ("close",),
    ]  # fmt: skip
    assert heard == [None, None, None, None, None, SweepResult(bodies=3), None]


def test_a_stale_attempt_among_fresh_ones_is_refused_alone() -> None:
    notebook, heard = Notebook(), []
    runner = JobRunner(notebook)
    notebook.error = StorageError("x: full", kind="full")
    carry_out(runner, [Append([row(1)], 3, heard.append)])
    notebook.error = None
    carry_out(runner, [Append([row(2)], 3, heard.append), Append([row(3)], 4, heard.append)])
    assert [getattr(answer, "message", None) for answer in heard] == ["x: full", "x: full", None]
    assert notebook.noted == [("commit", 3)]


def test_an_owner_in_the_way_is_busy_to_who_asks_and_a_storage_error_to_who_writes() -> None:
    notebook, heard = Notebook(), []
    notebook.error = BusyError("in use", pid=5)
    carry_out(
        JobRunner(notebook),
        [Claim(heard.append), Append([row(1)], 0, heard.append), Sweep(0.0, "delete", heard.append)],
    )
    assert [type(answer) for answer in heard] == [BusyError, StorageError, StorageError]
    assert {answer.message for answer in heard} == {"in use"}
    assert heard[1].detail == {"pid": 5}


def test_a_mistake_of_ours_is_not_taken_for_the_disk_s() -> None:
    class Mistaken(Notebook):
        def close(self) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        JobRunner(Mistaken()).carry_out([Close(lambda error: None)])
