"""The interface of a store: the records of one session in order, and no more of them than their policy allows.

A store knows rows, not conversations: what is a header and what is a body was decided by the recorder before. It does
not encode, redact or interpret either of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import msgspec

from tertulia.errors import BusyError, StorageError, StoragePolicyViolationError
from tertulia.protocol.storage import HeadersOnly, NoStorage, StoragePolicy, Ttl

TtlAction = Literal["headers_only", "delete"]
_TEXTLESS = (HeadersOnly, NoStorage)


class LongBody:
    """A body that is encoded and loses its secrets when it is stored: that takes a while. Never shown."""

    __slots__ = ("_encode", "_value")

    def __init__(self, value: Any, encode: Callable[[Any], bytes | None]) -> None:
        """`value` may not change any more."""
        self._value = value
        self._encode = encode

    def redacted(self) -> bytes | None:
        """As it may be stored; None where it may not. Blocks: not to be called on the loop's thread."""
        return self._encode(self._value)


class RowHead(msgspec.Struct, frozen=True, gc=False):
    """What a record is, without its text."""

    n: int
    """Its place. Given out by the recorder, growing, never twice; gaps are allowed."""
    kind: str
    """`event`, or the name of a kind of record (see `rollout/format/codec.py`)."""
    type: str
    """The event's type, the item's tag; empty where the kind says it all."""
    ts: float
    """Wall time in seconds; the age of a record is counted from it."""
    seq: int | None
    """The number of a durable event."""
    conversation: int
    """The `n` of the row that has the conversation's id; 0 for the session itself."""
    task: int
    """The `n` of the row that has the ids of its task, perhaps its own; 0 for none."""
    header: bytes
    """JSON. Never text of a conversation."""


class Row(RowHead, frozen=True, gc=False):
    """One record on its way to the store."""

    body: bytes | LongBody | None
    """JSON, or None where the policy forbids it or there is nothing to say. A store writes `stored_body`."""
    policy: StoragePolicy
    """The strictest of its sources."""
    source: int = 0
    """The `n` of the earlier row, of the same conversation, that has what this one does not repeat; 0 for none."""

    @property
    def stored_body(self) -> bytes | None:
        """The body without secrets. Blocks where it is long."""
        return self.body.redacted() if isinstance(self.body, LongBody) else self.body

    @property
    def expires(self) -> float | None:
        """When its body has to be gone."""
        return self.ts + self.policy.seconds if isinstance(self.policy, Ttl) else None

    def check(self) -> None:
        """Raise StoragePolicyViolation for a body that the policy forbids."""
        if self.body is not None and isinstance(self.policy, _TEXTLESS):
            raise StoragePolicyViolationError(f"a {self.kind} record may not be stored with its text here")


class StoredRow(RowHead, frozen=True, gc=False):
    """One record as it was read back. What its checksum does not vouch for is not read: it is `damaged`."""

    body: bytes | None
    damaged: bool = False
    """The header could not be trusted (both are empty then), or the body (it is None then)."""
    source: int = 0


def stays_as_header(kind: str, type: str) -> bool:
    """Whether the header of a record outlives its text wherever records are deleted whole.

    Without the beginning of a session or a conversation it could not be resumed; without the end of a task its
    message, sent again under the same id, would run again. Of a task's beginning others take their ids, of a prompt
    their digests.
    """
    return kind in STAYING_KINDS or type in STAYING_TYPES


LASTING = ("session_configured", "conversation_opened", "task_complete", "turn_aborted")
"""Events whose rows stay, and after which the head of a file is brought up to date."""
STAYING_KINDS = ("agreed", "prompt")
STAYING_TYPES = (*LASTING, "task_started")


class SweepResult(msgspec.Struct, frozen=True):
    """The result of a sweep."""

    bodies: int = 0
    """How many texts were removed, their headers kept."""
    rows: int = 0
    """How many records were removed whole."""
    next_due: float | None = None
    """When the next body expires."""


OnDone = Callable[[StorageError | None], None]


class RolloutStore(Protocol):
    """The records of one session, and the right to add to them: there is one owner at a time.

    `append`, `enforce`, `sweep` and `close` are carried out in the order they were called. They never block the
    caller: each returns at once and calls `done` exactly once, on the loop's thread, in that order; `append` perhaps
    before it returns. None means committed: what was appended survives the death of the process (and, with durability
    "full", of the machine), what was erased can be found nowhere in the store's files, journals included.

    An error means that nothing of that call happened; of an erasure, that some of it may be left, and the next one
    takes it up. Everything of the same `attempt`, or an earlier one, that
    was not done yet then fails with it; rows are appended again under a higher `attempt`. A store whose
    disk failed to flush stays failed: it must never acknowledge again. One that was full goes on when there is room.
    """

    def claim(self, done: Callable[[StorageError | BusyError | None], None]) -> None:
        """Become the owner before anything is appended: a resumed session does so before it reads.

        BusyError where another process is; an append that finds the session owned says the same as a StorageError.
        """
        ...

    @property
    def place(self) -> str:
        """What to name in errors: a file, a table."""
        ...

    @property
    def progress(self) -> int:
        """A number that grows as long as the store gets on with its own jobs, or with those of others before them."""
        ...

    def append(self, rows: Sequence[Row], attempt: int, done: OnDone) -> None:
        """Commit the rows, all or none. Raises StoragePolicyViolation, and keeps none, where `check` refuses a row."""
        ...

    def enforce(
        self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str], attempt: int, done: OnDone
    ) -> None:
        """Make everything stored of a conversation obey a stricter policy.

        headers_only: no bodies. ttl: no body older than that, now or later. none: only rows whose type is in
        `skeleton`, without bodies. The row that named the conversation counts as its own, and stays.
        """
        ...

    def sweep(self, now: float, action: TtlAction, done: Callable[[SweepResult | StorageError], None]) -> None:
        """Remove what has expired by `now`, or by the newest record's time if that is later: clocks may go back."""
        ...

    def close(self, done: OnDone) -> None:
        """Give up ownership. Nothing may be called after it."""
        ...


class RolloutReader(Protocol):
    """Reading a session's records, by its owner or by another process, also while they are written."""

    def rows(self, after: int = 0, *, brief: bool = False) -> Iterator[StoredRow]:
        """Records whose n is larger, in order of n, as of now. StorageError where they cannot be read at all.

        Briefly, those may be left out that only repeat or measure what others say: words of the model as events,
        token counts, digests of requests.
        """
        ...

    def ends(self) -> tuple[int, int]:
        """The last n, and the last number of an event; 0 for none."""
        ...

    def close(self) -> None:
        """Close the store: nothing can be read after it."""
        ...


def allows_body(policy: StoragePolicy) -> bool:
    """Whether text may be stored under it."""
    return not isinstance(policy, _TEXTLESS)
