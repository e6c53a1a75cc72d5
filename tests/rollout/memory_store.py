"""A store in memory, by the contract of `store`, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from tertulia.errors import BusyError, ClosedError, StorageError
from tertulia.events.clock import Clock
from tertulia.protocol.storage import Full, NoStorage, StoragePolicy, Ttl
from tertulia.rollout.job_runner import Append, Claim, Close, Enforce, Job, JobRunner, Sweep
from tertulia.rollout.store import OnDone, Row, StoredRow, SweepResult, TtlAction, stays_as_header


class MemoryRecords:
    """The rows of a store in memory; they outlive the store, as a file does."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.expires: dict[int, float] = {}
        self.owned = False
        self.trouble: StorageError | None = None
        """What every commit and erasure fails with, as long as it stands here. One of kind `flush` stays for ever."""


class MemoryStore:
    """A RolloutStore. What is asked for is done in the loop's next round, all of it together."""

    def __init__(self, records: MemoryRecords, clock: Clock) -> None:
        self._runner = JobRunner(_MemoryRecordStorage(records, clock))
        self._jobs: list[Job] = []
        self._closing = False

    @property
    def progress(self) -> int:
        return 0

    @property
    def place(self) -> str:
        """The word `memory`, as there is no file."""
        return "memory"

    def claim(self, done: Callable[[StorageError | BusyError | None], None]) -> None:
        """Become the owner before anything is appended."""
        self._put(Claim(done))

    def append(self, rows: Sequence[Row], attempt: int, done: OnDone) -> None:
        """Commit the rows, all or none."""
        for row in rows:
            row.check()
        self._put(Append(rows, attempt, done))

    def enforce(
        self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str], attempt: int, done: OnDone
    ) -> None:
        """Make everything stored of a conversation obey a stricter policy."""
        self._put(Enforce(conversation, policy, skeleton, attempt, done))

    def sweep(self, now: float, action: TtlAction, done: Callable[[SweepResult | StorageError], None]) -> None:
        """Remove what has expired by `now`."""
        self._put(Sweep(now, action, done))

    def close(self, done: OnDone) -> None:
        """Give up ownership of the records."""
        self._put(Close(done))

    def _put(self, job: Job) -> None:
        if self._closing:
            raise ClosedError("the record in memory is closed")
        self._closing = isinstance(job, Close)
        self._jobs.append(job)
        if len(self._jobs) == 1:
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        jobs, self._jobs = self._jobs, []
        loop = asyncio.get_running_loop()
        for answer in self._runner.carry_out(jobs):
            loop.call_soon(answer)


class MemoryReader:
    """A RolloutReader of records in memory."""

    def __init__(self, records: MemoryRecords) -> None:
        self._records = records

    def ends(self) -> tuple[int, int]:
        """The last n, and the last number of an event; 0 for none."""
        rows = self._records.rows
        return max(rows, default=0), max((row.seq or 0 for row in rows.values()), default=0)

    def rows(self, after: int = 0, *, brief: bool = False) -> Iterator[StoredRow]:
        """Records whose n is larger, in order of n, as of now."""
        for n, row in sorted(self._records.rows.items()):
            if n > after:
                place = (n, row.kind, row.type, row.ts, row.seq, row.conversation, row.task)
                yield StoredRow(*place, row.header, row.stored_body, source=row.source)

    def close(self) -> None:
        """Nothing to let go of."""


class _MemoryRecordStorage:
    def __init__(self, records: MemoryRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._mine = False
        self._broken: StorageError | None = None

    def claim(self) -> None:
        if not self._mine and self._records.owned:
            raise BusyError("the record in memory is in use; watch it with --follow, or wait until it is closed")
        self._mine = self._records.owned = True

    def commit(self, rows: Sequence[Row]) -> None:
        self._begin()
        new = {row.n: row for row in rows}
        if new.keys() & self._records.rows.keys():
            raise StorageError("memory: a record has the number of another", kind="io")
        self._records.rows |= new
        self._records.expires |= {n: row.expires for n, row in new.items() if row.expires is not None}

    def enforce(self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str]) -> None:
        self._begin()
        mine = [row for row in self._records.rows.values() if conversation in (row.conversation, row.n)]
        if isinstance(policy, Ttl):
            expires, now = self._records.expires, self._latest(self._clock.now())
            texts = [row for row in mine if row.body is not None]
            for row in texts:
                end = row.ts + policy.seconds
                expires[row.n] = min(expires.get(row.n, end), end)
            self._strip(row for row in texts if expires[row.n] <= now)
        elif not isinstance(policy, Full):
            self._strip(mine)
            if isinstance(policy, NoStorage):
                self._drop(row for row in mine if row.n != conversation and row.type not in skeleton)

    def sweep(self, now: float, action: TtlAction) -> SweepResult:
        self._begin()
        now = self._latest(now)
        due = [row for n, row in self._records.rows.items() if self._records.expires.get(n, now + 1) <= now]
        if action == "delete":
            headers = [row for row in due if stays_as_header(row.kind, row.type)]
            bodies, rows = self._strip(headers), self._drop(row for row in due if row not in headers)
            for row in headers:
                del self._records.expires[row.n]
            return SweepResult(bodies, rows, min(self._records.expires.values(), default=None))
        bodies = self._strip(due)
        left = [at for n, at in self._records.expires.items() if self._records.rows[n].body is not None]
        return SweepResult(bodies=bodies, next_due=min(left, default=None))

    def close(self) -> None:
        if self._mine:
            self._mine = self._records.owned = False

    def _begin(self) -> None:
        self.claim()
        trouble = self._broken or self._records.trouble
        if trouble is not None:
            self._broken = trouble if trouble.detail.get("kind") == "flush" else None
            raise trouble

    def _latest(self, now: float) -> float:
        return max(now, max((row.ts for row in self._records.rows.values()), default=now))

    def _strip(self, rows: Iterable[Row]) -> int:
        stripped = {row.n: replace(row, body=None) for row in rows if row.body is not None}
        self._records.rows |= stripped
        return len(stripped)

    def _drop(self, rows: Iterable[Row]) -> int:
        gone = [row.n for row in rows]
        for n in gone:
            del self._records.rows[n]
            self._records.expires.pop(n, None)
        return len(gone)
