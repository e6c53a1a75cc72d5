"""The event bus of a session: stamps each event, has the journal commit it, and delivers it to every subscription.

Not thread-safe, by design: everything here runs on the event loop's thread, and only `flush` waits. Subscribers cannot
harm the bus or each other: their code runs in their own tasks, a slow one falls behind without delaying the others (see
`subscription`), and an abandoned one is cleaned up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from tertulia.errors import ClosedError, InternalError, InvalidParamsError, TertuliaError
from tertulia.events.clock import Clock, Timestamps
from tertulia.events.journal import Journal
from tertulia.events.metrics import COUNTED, Metrics
from tertulia.events.ring import Ring, event_weight
from tertulia.events.subscription import FilteredMailbox, Mailbox, Subscription, visible_in
from tertulia.protocol.events import ErrorEvent, Event, EventData
from tertulia.protocol.ids import ConversationId, SessionId, TaskId
from tertulia.protocol.storage import StoragePolicy

CleanTexts = Sequence[tuple[str, str]]
"""Pairs of a long text and its redacted form, which may be published."""


class EventScope(msgspec.Struct, frozen=True):
    """Which submission, conversation and task an event is about. Made once a task, used for all its events."""

    sub_id: str
    """The submission that caused the event; if empty, the event carries the session's id instead."""
    conversation_id: ConversationId | None = None
    task_id: TaskId | None = None
    trace_id: str | None = None
    span_id: str | None = None


class EventBus:
    """Delivers every event to every subscription, in one order, once it is committed.

    Durable events are numbered without gaps: from 1 in a new session, from the last number on in a resumed one. An
    event that the journal has not committed yet is held, and so is every event published after it, passing ones too:
    no subscriber gets an event that a crash could undo, and none gets events out of order. The bus does not bound how
    much is held: publishers flush before they go on.

    When the journal fails, the event and all held after it are never delivered, their numbers are used again, `flush`
    raises, and every subscription, whatever its filter, gets an `error` without a number (for a subscription that is
    behind it counts as a dropped delta). Events published afterwards are written as usual.
    """

    def __init__(
        self,
        session_id: SessionId,
        clock: Clock,
        journal: Journal,
        *,
        epoch: int = 0,
        last_seq: int = 0,
        ring_events: int = 10_000,
        ring_bytes: int = 64 * 1024 * 1024,
        clean: Callable[[EventData], EventData] | None = None,
        clean_text: Callable[[str], Awaitable[str]] | None = None,
        knows_tool: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """`clean` redacts an event before it is stamped; `clean_text` redacts a long text of an event, in steps.

        `knows_tool`: see `Metrics`.
        """
        self._session_id = session_id
        self._epoch = epoch
        self._now = Timestamps(clock)
        self._journal = journal
        self._session = EventScope(session_id)
        self._ring = Ring(ring_events, ring_bytes, last_seq)
        self._numbered = last_seq
        # Each with its weight: weighing a large event takes a while, and many may be committed in one step of the loop.
        self._held: deque[tuple[Event, asyncio.Future[None] | None, int]] = deque()
        # Each waiting flush with the event that it waits for, in the order of the held events.
        self._flushes: deque[tuple[Event, asyncio.Future[None]]] = deque()
        self._unheard: TertuliaError | None = None
        # Tuples, replaced and never changed: delivery iterates over them while subscriptions are added and removed.
        self._boxes: dict[ConversationId | None, tuple[Mailbox, ...]] = {}
        self._background: set[Mailbox] = set()
        self._passing_wanted = False
        # Garbage collection adds to it too, from any thread.
        self._gone: deque[Mailbox] = deque()
        self._closed = False
        self._told_at_once = journal.watch(self._settle)
        self._clean = clean
        self._clean_text = clean_text
        self.metrics = Metrics(knows_tool)
        """Counts delivered events only: an event that the journal could not commit is not counted."""

    @property
    def session_id(self) -> SessionId:
        """The session that the events belong to."""
        return self._session_id

    @property
    def last_seq(self) -> int:
        """The number of the last durable event that was committed and delivered; 0 before the first."""
        return self._ring.last

    @property
    def followed(self) -> bool:
        """Whether there is any subscription of a client."""
        self._sweep()
        return any(box not in self._background for boxes in self._boxes.values() for box in boxes)

    def publish(
        self,
        data: EventData,
        scope: EventScope | None = None,
        storage: StoragePolicy | None = None,
        clean_texts: CleanTexts = (),
    ) -> Event:
        """Stamp an event, write it to the journal if it is durable, and deliver it once it is committed. Never waits.

        `storage`: the strictest policy of the event's sources, where that may be stricter than its conversation's.
        `clean_texts`: long texts that may be in the event, with what `clean_text` returned for them.
        Subscribers cannot make it fail. Raises `ClosedError` after `close`. `flush` tells whether it was committed.
        """
        if self._closed:
            raise ClosedError("the session's event bus is closed")
        if self._held and ((written := self._held[0][1]) is None or written.done()):
            # A failed write that was not noticed yet must give its numbers back before the next one is given out.
            self._settle()
        if self._clean is not None:
            data = _cleaned(data, self._clean, clean_texts)
        event = self._stamp(data, scope or self._session, self._numbered + 1 if data.durable else None)
        future = None
        if data.durable:
            future = self._journal.write(event, storage)
            self._numbered += 1
        weight = event_weight(data) if data.durable else 0
        if future is None and not self._held:
            self._deliver(event, weight)
        else:
            self._held.append((event, future, weight))
            if future is not None and (future.done() or not self._told_at_once):
                future.add_done_callback(self._on_written)
        return event

    def publish_passing(self, data: EventData, scope: EventScope) -> None:
        """Publish a passing event; it is stamped only if a subscription wants it or an event is held."""
        if self._passing_wanted or self._held or self._closed:
            self.publish(data, scope)
        elif self._clean is not None:
            # A secret may begin in this delta and end in a later one that is delivered.
            self._clean(data)

    async def clean_text(self, text: str) -> str:
        """The text as it may be published, redacted in steps: redaction within `publish` would block the loop."""
        return text if self._clean_text is None else await self._clean_text(text)

    async def flush(self) -> None:
        """Return when everything published so far is committed and delivered.

        If a write of it failed, raises the journal's error: as it came if it is an `TertuliaError`, else an
        `InternalError` caused by it. A failure is raised by every flush that waits for a lost event; if the last of
        those events had no flush waiting for it, then by the next flush too, once.
        """
        if self._held:
            # The journal may complete at once what needs no commit, or what cannot be committed.
            self._journal.hurry()
        if self._unheard is not None:
            error, self._unheard = self._unheard, None
            raise error
        if self._held:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._flushes.append((self._held[-1][0], reached))
            await reached

    def subscribe(
        self,
        *,
        after: int | None = None,
        conversation: ConversationId | None = None,
        limit: int = 1000,
        background: bool = False,
        passing: bool = True,
        types: frozenset[str] | None = None,
    ) -> Subscription:
        """Listen from now on, or from the durable event after number `after` on, without gap or repetition.

        With `conversation`, only to the events of that conversation and the approvals that it waits for; events of the
        session as a whole belong to no conversation and are left out. An event that was published earlier and is still
        held is delivered too. If `after` is older than the ring, the subscription starts with a `subscriber_lagged`
        that has the range of missing events. `after` is valid only in the epoch it comes from: a number beyond the last
        event is refused with `InvalidParamsError`. `limit` bounds the queue of a slow reader. `background`: no client
        reads, and it does not count as `followed`. Without `passing` only durable events come, with `types` only those
        of these types; a `subscriber_lagged`, and the error of a journal, come in any case. Raises `ClosedError` after
        `close`.
        """
        if self._closed:
            raise ClosedError("the session's event bus is closed")
        last = self._ring.last
        if after is not None and not 0 <= after <= last:
            raise InvalidParamsError(
                f"after must be between 0 and {last}, the last event of this epoch", after=after, epoch=self._epoch
            )
        if limit < 1:
            raise InvalidParamsError("limit must be at least 1", limit=limit)
        self._sweep()
        cursor = last if after is None else after
        place = self._ring, cursor, conversation, limit, self._notice, self._gone.append
        is_whole = passing and types is None
        box = Mailbox(*place) if is_whole else FilteredMailbox(*place, passing=passing, types=types)
        self._boxes[conversation] = (*self._boxes.get(conversation, ()), box)
        self._passing_wanted = self._passing_wanted or passing
        if background:
            self._background.add(box)
        return Subscription(box)

    def recent_events(self, after: int) -> tuple[int, tuple[Event, ...]]:
        """(the number of the oldest durable event in the ring, the events in the ring that are newer than `after`)."""
        return self._ring.first, tuple(self._ring.after(after))

    def close(self) -> None:
        """Accept no more events; each subscription ends when its reader has taken what is queued. Idempotent.

        Flush first: events that are held now are still written, but not delivered.
        """
        self._closed = True
        for box in self._everybody():
            box.end()
        self._boxes = {}
        self.metrics.end()

    # ── stamping ─────────────────────────────────────────────────────────────────────────────────────────────

    def _stamp(self, data: EventData, scope: EventScope, seq: int | None) -> Event:
        return Event(
            self._epoch,
            seq,
            self._now(),
            data.type,
            self._session_id,
            scope.sub_id or self._session_id,
            scope.conversation_id,
            scope.task_id,
            scope.trace_id,
            scope.span_id,
            data,
        )

    def _notice(self, data: EventData) -> Event:
        return self._stamp(data, self._session, None)

    # ── holding back until committed ─────────────────────────────────────────────────────────────────────────

    def _on_written(self, future: asyncio.Future[None]) -> None:
        _retrieve_exception(future)
        self._settle()

    def _settle(self) -> None:
        """Deliver the held events that are committed, in order, up to the first that is not."""
        committed: list[tuple[Event, int]] = []
        error = None
        while self._held and error is None:
            event, written, weight = self._held[0]
            if written is not None and not written.done():
                break
            error = None if written is None else _failure(written)
            if error is None:
                self._held.popleft()
                committed.append((event, weight))
                self._reach(event)
        # Flushes wake before subscribers: a subscriber that gets the begin of a tool call finds it running.
        if not self._closed:
            for event, weight in committed:
                self._deliver(event, weight)
        if error is not None:
            self._give_up(error)

    def _reach(self, event: Event) -> None:
        while self._flushes and self._flushes[0][0] is event:
            _, reached = self._flushes.popleft()
            if not reached.done():
                reached.set_result(None)

    def _give_up(self, error: TertuliaError) -> None:
        """Drop all held events, give their numbers back, and send the error to every subscription and waiting flush."""
        last, _, _ = self._held[-1]
        for _, written, _ in self._held:
            _retrieve_exception(written)
        self._held.clear()
        self._numbered = self._ring.last
        self._unheard = error
        for event, reached in self._flushes:
            if not reached.done():
                reached.set_exception(error)
                if event is last:
                    self._unheard = None
        self._flushes.clear()
        notice = self._notice(ErrorEvent(error.code, error.message))
        for box in self._everybody():
            # Whatever the reader listens to.
            Mailbox.put(box, notice)

    # ── delivery ─────────────────────────────────────────────────────────────────────────────────────────────

    def _deliver(self, event: Event, weight: int) -> None:
        if event.type in COUNTED:
            self.metrics.count(event)
        if self._gone:
            self._sweep()
        for box in self._boxes.get(None, ()):
            box.put(event)
        for conversation in visible_in(event):
            for box in self._boxes.get(conversation, ()):
                box.put(event)
        if event.seq is not None:
            self._ring.add(event, weight)

    def _everybody(self) -> list[Mailbox]:
        self._sweep()
        return [box for boxes in self._boxes.values() for box in boxes]

    def _sweep(self) -> None:
        """Remove the mailboxes of subscriptions that are gone."""
        gone: set[Mailbox] = set()
        while self._gone:
            gone.add(self._gone.popleft())
        self._ring.behind -= gone
        self._background -= gone
        for conversation in {box.conversation for box in gone}:
            stay = tuple(box for box in self._boxes.get(conversation, ()) if box not in gone)
            if stay:
                self._boxes[conversation] = stay
            else:
                self._boxes.pop(conversation, None)
        if gone:
            self._passing_wanted = any(box.passing for boxes in self._boxes.values() for box in boxes)


def _cleaned(data: EventData, clean: Callable[[EventData], EventData], clean_texts: CleanTexts) -> EventData:
    if not clean_texts:
        return clean(data)
    texts = {name: text for name in data.__struct_fields__ if isinstance(text := getattr(data, name), str)}
    found = {name: new for name, text in texts.items() for old, new in clean_texts if old == text}
    return replace(clean(replace(data, **dict.fromkeys(found, ""))), **found) if found else clean(data)


def _retrieve_exception(future: asyncio.Future[None] | None) -> None:
    """Retrieve the exception, so that asyncio does not report it as never retrieved."""
    if future is not None and future.done() and not future.cancelled():
        future.exception()


def _failure(future: asyncio.Future[None]) -> TertuliaError | None:
    if future.cancelled():
        return InternalError("the journal was stopped before it had written everything")
    cause = future.exception()
    if cause is None or isinstance(cause, TertuliaError):
        return cause
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else cause
    error = InternalError(f"the journal could not write: {reason}")
    error.__cause__ = cause
    return error
