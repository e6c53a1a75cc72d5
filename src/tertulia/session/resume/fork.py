"""A new session out of a stored one: a conversation's history up to a point becomes its root. Nothing is run.

It is written by the usual rules, record by record, each with the time that it had: what expires does so when it would
have, and what is not stored there is not stored here either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from msgspec.structs import replace

from tertulia.errors import BusyError, InternalError, NotFoundError, StorageError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock, SystemClock
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.protocol.events import ConversationOpened, SessionConfigured
from tertulia.protocol.ids import ConversationId, ItemId, SessionId, new_conversation_id, new_session_id
from tertulia.protocol.records import MCP_PINS, ItemsRecord, NoteRecord, TermsRecord
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files, remove_session
from tertulia.session import describe
from tertulia.session.conversations import ROOT
from tertulia.session.resume.rebuild import mend_segments
from tertulia.session.resume.recorded_state import RecordedConversation, RecordedSegment, RecordedState, first_items
from tertulia.session.resume.store_choice import create_record
from tertulia.session.resume.terms_codec import RecordedTerms, read_terms
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings
from tertulia.version import __version__


async def fork_session(
    environment: Environment,
    settings: Settings,
    clock: Clock,
    session_id: str,
    *,
    conversation_id: str = ROOT,
    at: ItemId | int | None = None,
    upto: int | None = None,
) -> SessionId:
    """The id of the new session. NotFound for what is not there, StorageError for what cannot be read.

    `at` is an item, the end of a round (the first is 1), or now. `upto`: as it was when that record was written, also
    where its history was rewritten since; its rights and its policy are those of now. It ends before a call that is
    open there.
    """
    past, then = await asyncio.to_thread(_read_states, environment.home, session_id, clock, upto)
    conversation = _find(past, session_id, conversation_id)
    assert conversation.agreed is not None, "it was found by that"
    if then is not None:
        conversation.pieces = then.get(conversation.id, [])
    if upto is not None and all(piece.seed for piece in conversation.pieces):
        raise NotFoundError(f"nothing had been said at record {upto} that a fork could begin with")
    pieces = _pieces_up_to(conversation, at)
    fork = _SessionFork(conversation.agreed, conversation.agreed_at, conversation.notes.get(MCP_PINS), clock)
    # The copy keeps the times: nothing is stored longer because it was copied.
    try:
        await fork.write(pieces, conversation if at is None and upto is None else None, environment, settings)
    except asyncio.CancelledError:
        # The caller never learns its id: what is written of it by now is removed.
        with suppress(NotFoundError, BusyError):
            await asyncio.to_thread(remove_session, environment.home, fork.session_id)
        raise
    return fork.session_id


def read_recorded_state(home: Path, session_id: str, clock: Clock | None = None) -> RecordedState:
    """All that is known of a stored session, read without owning it, and without what has expired. Blocks."""
    with closing(SqliteReader(find_files(home, session_id).db, clock or SystemClock())) as reader:
        return RecordedState().read(RowReader().lines(reader.rows()))


def _read_states(
    home: Path, session_id: str, clock: Clock, upto: int | None
) -> tuple[RecordedState, dict[ConversationId, list[RecordedSegment]] | None]:
    """All that is known now, and what the histories were at a record; None where they are those of now. Blocks."""
    if upto is None:
        return read_recorded_state(home, session_id, clock), None
    past, then = RecordedState(), None
    with closing(SqliteReader(find_files(home, session_id).db, clock)) as reader:
        for line in RowReader().lines(reader.rows()):
            if then is None and line.n > upto:
                then = {conversation.id: list(conversation.pieces) for conversation in past.conversations.values()}
            past.read((line,))
    return past, then


def _find(past: RecordedState, session_id: str, conversation_id: str) -> RecordedConversation:
    _, root_id = past.identity()
    wanted = root_id if conversation_id == ROOT else conversation_id
    for conversation in past.conversations.values():
        if conversation.id == wanted and conversation.agreed is not None:
            return conversation
    raise NotFoundError(f"there is no conversation {conversation_id[:64]!r} in session {session_id}")


def _pieces_up_to(conversation: RecordedConversation, at: ItemId | int | None) -> list[RecordedSegment]:
    pieces = conversation.pieces
    try:
        store = _history_of(pieces)
    except InternalError:
        if not conversation.may_expire:
            raise StorageError(
                f"records of conversation {conversation.id} are lost; resume the session, which mends it, "
                "and fork it then"
            ) from None
        # Whole records have expired: what is left is repaired as it is when the session is resumed.
        pieces = mend_segments(pieces)
        store = _history_of(pieces)
    return first_items(store.fork(at).totals.item_count, pieces)


def _history_of(pieces: Iterable[RecordedSegment]) -> HistoryStore:
    store = HistoryStore(HistoryLimits())
    for piece in pieces:
        store.append(piece.items, pinned=piece.pinned)
    return store


class _RecordedClock:
    """A clock that shows when the record that is copied was written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.moment: float | None = None

    def now(self) -> float:
        return self._clock.now() if self.moment is None else self.moment

    def monotonic(self) -> float:
        return self._clock.monotonic()


class _SessionFork:
    """The session that the fork creates."""

    def __init__(self, record: TermsRecord, agreed_at: float, pins: NoteRecord | None, clock: Clock) -> None:
        self.session_id = new_session_id()
        self._root_id = new_conversation_id()
        self._agreed = record
        self._agreed_at = agreed_at
        self._pins = pins
        self._terms: RecordedTerms = read_terms(record)
        self._clock = _RecordedClock(clock)

    async def write(
        self,
        pieces: list[RecordedSegment],
        conversation: RecordedConversation | None,
        environment: Environment,
        settings: Settings,
    ) -> None:
        """Write all of it, or nothing that a reader would find. The plan of `conversation` goes along."""
        own = replace(settings, storage_policy=self._agreed.storage)
        journal = create_record(own, self.session_id, self._clock, environment, now=SystemClock())
        bus = EventBus(self.session_id, self._clock, journal)
        try:
            bus.publish(self._configured(own))
            self._clock.moment = self._agreed_at
            journal.keep(self._agreement())
            if self._pins is not None:
                journal.keep(replace(self._pins, conversation_id=self._root_id))
            for piece in pieces:
                self._clock.moment = piece.ts
                journal.keep(ItemsRecord(self._root_id, piece.items, piece.pinned, piece.seed))
            scope = EventScope("", self._root_id)
            self._clock.moment = self._agreed_at
            bus.publish(ConversationOpened(None, self._terms.title, self._terms.model, self._terms.backend), scope)
            if conversation is not None and conversation.plan is not None:
                self._clock.moment = conversation.plan_at
                bus.publish(conversation.plan, scope)
            self._clock.moment = None
            await bus.flush()
        finally:
            bus.close()
            await journal.close()

    def _configured(self, settings: Settings) -> SessionConfigured:
        policy = describe.policy(settings.rights)
        # Not the session's model but the conversation's: it is the root now.
        return SessionConfigured(self._root_id, describe.PROTOCOL_VERSION, __version__, self._terms.model, policy)

    def _agreement(self) -> TermsRecord:
        place = {**self._agreed.place, "parent_id": None, "depth": 0, "because": "session"}
        return replace(self._agreed, conversation_id=self._root_id, place=place)
