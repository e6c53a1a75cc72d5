"""The journal of a session over a store: each record by the strictest policy of its sources, in order, in batches.

Events are committed together when a caller waits, or after a short delay. Everything here runs on the loop's
thread and nothing waits. What is written when, under which policy, and what is done again after a failure is decided
here; how a row looks is the codec's matter, where it lies the store's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from tertulia.errors import ClosedError, StorageError, StoragePolicyViolationError, TertuliaError
from tertulia.events.clock import Clock
from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.records import CanvasRecord, ModelRequestRecord, PlanRecord, Record, TermsRecord
from tertulia.protocol.storage import Full, NoStorage, StoragePolicy, strictest, strictness
from tertulia.rollout.format.codec import Codec
from tertulia.rollout.format.headers import SKELETON
from tertulia.rollout.format.record_state import RecordState
from tertulia.rollout.store import RolloutStore, Row

_Written = asyncio.Future[None]
_NOTHING = NoStorage()
_LINGER_S = 0.002
"""For how long events may wait for others before they are committed: a commit costs as much for one as for ten."""
_skeleton = frozenset(SKELETON)
_WITH_STORAGE = (ModelRequestRecord, CanvasRecord, PlanRecord)
"""Records that may have a stricter policy than their conversation."""


class _PendingRecord:
    """An entry that is not stored yet."""

    __slots__ = ("conversation", "policy", "ts", "what", "written")

    def __init__(
        self, what: Event | Record | None, conversation: ConversationId | None, policy: StoragePolicy, ts: float,
        written: _Written | None,
    ) -> None:  # fmt: skip
        self.what = what
        """None for a caller that only waits for what was before."""
        self.conversation = conversation
        self.policy = policy
        """Its storage policy, which can become stricter until it is committed."""
        self.ts = ts
        self.written = written


class _StoreCall:
    """One call of the store that is not done yet."""

    __slots__ = ("entries", "erases", "first")

    def __init__(
        self, first: int, entries: list[_PendingRecord], erases: tuple[ConversationId, StoragePolicy] | None
    ) -> None:
        self.first = first
        """Rows from this number on are its own or later."""
        self.entries = entries
        self.erases = erases


class Recorder:
    """See `Journal` for its contract.

    After a failure the events of all that was under way are gone; its records are tried again, before anything new,
    with the next write, `keep`, `settle` or `close`. A pending record follows a policy that is set meanwhile. Of a
    conversation without a policy only the skeleton is stored. Session-wide events follow `storage`.
    """

    def __init__(
        self,
        store: RolloutStore,
        clock: Clock,
        redact: Callable[[bytes], bytes],
        *,
        storage: StoragePolicy | None = None,
        known: RecordState | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._codec = Codec(redact, known)
        self._session_policy = storage or Full()
        self._policies: dict[ConversationId, StoragePolicy] = {}
        if known is not None:
            self._policies = {conversation: state.storage for conversation, state in known.conversations.items()}
        self._attempt = 1
        self._batch: list[_PendingRecord] = []
        self._to_erase: dict[ConversationId, StoragePolicy] = {}
        self._under_way: deque[_StoreCall] = deque()
        self._due: asyncio.Handle | None = None
        self._refusal: StoragePolicyViolationError | None = None
        self._closed: asyncio.Future[StorageError | None] | None = None
        self._settled: Callable[[], None] = _ignore

    @property
    def store(self) -> RolloutStore:
        """The store that it writes to."""
        return self._store

    def write(self, event: Event, storage: StoragePolicy | None = None) -> _Written | None:
        """Begin to commit one durable event."""
        if self._closed is not None:
            return _failed(ClosedError("the session's record is closed"))
        policy = self._policy(event.conversation_id, storage)
        stored = not isinstance(policy, NoStorage) or event.type in _skeleton
        if not stored and not self._batch and not self._under_way and not self._to_erase:
            return None
        written: _Written = asyncio.get_running_loop().create_future()
        what = event if stored else None
        self._batch.append(_PendingRecord(what, event.conversation_id, policy, 0.0, written))
        self._commit_soon()
        return written

    def keep(self, record: Record) -> None:
        """Take a record and commit it with the next event."""
        if self._closed is not None:
            return
        conversation = record.conversation_id
        if isinstance(record, TermsRecord):
            self._agree(record)
        policy = self._policy(conversation, record.storage if isinstance(record, _WITH_STORAGE) else None)
        self._batch.append(_PendingRecord(record, conversation, policy, self._clock.now(), None))
        if not isinstance(record, ModelRequestRecord):
            self._commit_soon()

    async def settle(self) -> None:
        """Return when all that was kept so far is committed; raises the error if it could not be."""
        if self._batch or self._under_way or self._to_erase:
            written: _Written = asyncio.get_running_loop().create_future()
            self._batch.append(_PendingRecord(None, None, _NOTHING, 0.0, written))
            self._commit()
            await written

    async def close(self) -> None:
        """Commit what is left and close; raises a StorageError where the stored file is gone (R1)."""
        if self._closed is None:
            self._commit()
            closed = self._closed = asyncio.get_running_loop().create_future()
            self._store.close(closed.set_result)
        error = await asyncio.shield(self._closed)
        if error is not None and error.detail.get("kind") == "lost":
            raise error

    # ── policies ─────────────────────────────────────────────────────────────────────────────────────────────

    def _policy(self, conversation: ConversationId | None, storage: StoragePolicy | None) -> StoragePolicy:
        own = self._session_policy if conversation is None else self._policies.get(conversation, _NOTHING)
        return own if storage is None or storage == own else strictest(own, storage)

    def _agree(self, record: TermsRecord) -> None:
        """A stricter policy holds for earlier records too, stored or not. A wider one holds from now on."""
        conversation, policy = record.conversation_id, record.storage
        former = self._policies.get(conversation)
        self._policies[conversation] = policy
        if former is None or strictness(policy) >= strictness(former):
            return
        for entries in (*(act.entries for act in self._under_way), self._batch):
            for entry in entries:
                if entry.conversation == conversation:
                    entry.policy = strictest(entry.policy, policy)
        pending = self._to_erase.get(conversation, policy)
        self._to_erase[conversation] = strictest(pending, policy)

    # ── committing ───────────────────────────────────────────────────────────────────────────────────────────

    def _commit_soon(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_LINGER_S, self._on_due)

    def watch(self, settled: Callable[[], None]) -> bool:
        """Call it each time futures have completed."""
        self._settled = settled
        return True

    def hurry(self) -> None:
        """Commit now what was collected, because a caller waits."""
        if self._due is not None:
            self._due.cancel()
            self._on_due()

    def _on_due(self) -> None:
        self._due = None
        if self._closed is None:
            self._commit()

    def _commit(self) -> None:
        """Hand the batch to the store. Erasing goes first: what is in the batch obeys the new policy already."""
        if self._refusal is not None:
            return
        to_erase, self._to_erase = self._to_erase, {}
        for conversation, policy in to_erase.items():
            self._erase(conversation, policy)
        if self._to_erase:
            # Erasing failed at once. Nothing new may be stored beside what should have been erased.
            return
        entries, self._batch = self._batch, []
        if not entries:
            return
        first = self._codec.last_n + 1
        rows: list[Row] = []
        for entry in entries:
            rows += self._rows(entry)
        if rows:
            act = _StoreCall(first, entries, None)
            self._under_way.append(act)
            try:
                self._store.append(rows, self._attempt, lambda error: self._done(act, error))
            except StoragePolicyViolationError as error:
                self._refuse(act, error)
        elif self._under_way:
            self._under_way[-1].entries += entries
        else:
            self._complete(entries)

    def _erase(self, conversation: ConversationId, policy: StoragePolicy) -> None:
        number = self._codec.written.number(conversation)
        self._codec.written.erased(conversation)
        if number is not None:
            act = _StoreCall(self._codec.last_n + 1, [], (conversation, policy))
            self._under_way.append(act)
            self._store.enforce(number, policy, SKELETON, self._attempt, lambda error: self._done(act, error))

    def _rows(self, entry: _PendingRecord) -> Sequence[Row]:
        what = entry.what
        if what is None:
            return ()
        if isinstance(what, Event):
            return self._codec.event(what, entry.policy)
        return self._codec.record(what, entry.policy, entry.ts)

    def _done(self, act: _StoreCall, error: TertuliaError | None) -> None:
        if act not in self._under_way:
            return
        if error is not None:
            self._fail(error)
            return
        self._under_way.remove(act)
        self._complete(act.entries)
        self._give_up_refused()

    def _refuse(self, act: _StoreCall, error: StoragePolicyViolationError) -> None:
        """The store refused a text that its policy forbids. Earlier rows are still good, so this fails in its turn."""
        self._under_way.remove(act)
        self._codec.written.forget(act.first)
        self._batch = act.entries + self._batch
        self._refusal = error
        self._give_up_refused()

    def _give_up_refused(self) -> None:
        if self._refusal is not None and not self._under_way:
            self._fail(self._refusal)

    def _complete(self, entries: Sequence[_PendingRecord]) -> None:
        for entry in entries:
            if entry.written is not None and not entry.written.done():
                entry.written.set_result(None)
        self._settled()

    def _fail(self, error: TertuliaError) -> None:
        """Nothing of the batches in progress was committed, nor will it be in this attempt."""
        acts, self._under_way = self._under_way, deque()
        self._attempt += 1
        self._refusal = None
        if acts:
            self._codec.written.forget(acts[0].first)
        for act in acts:
            if act.erases is not None:
                conversation, policy = act.erases
                self._to_erase[conversation] = strictest(policy, self._to_erase.get(conversation, policy))
        entries = [entry for act in acts for entry in act.entries] + self._batch
        self._batch = [entry for entry in entries if entry.written is None]
        for entry in entries:
            if entry.written is not None and not entry.written.done():
                entry.written.set_exception(error)
        self._settled()


def _ignore() -> None:
    """Stands in for a watcher where there is none."""


def _failed(error: TertuliaError) -> _Written:
    written: _Written = asyncio.get_running_loop().create_future()
    written.set_exception(error)
    return written
