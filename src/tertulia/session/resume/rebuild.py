"""Rebuilds conversations from a record: terms within what is allowed now, history as it was.

It only makes them. `close_open` closes their open calls and reports what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tertulia.conversation.native_session import STALE, NativeSession, native_session_from
from tertulia.conversation.state import ConversationState, Lineage, history_limits
from tertulia.conversation.terms import Agent, ConversationContext, Terms, tool_preferences
from tertulia.conversation.user_message import not_stored_message, seeds
from tertulia.errors import InternalError, TertuliaError
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal
from tertulia.history.sanitiser import mend, turns
from tertulia.history.segment import is_message
from tertulia.history.store import HistoryStore
from tertulia.models.wire import Wire
from tertulia.policy.rights import Narrowing, meet
from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.items import Item, ToolCall, ToolOutput
from tertulia.protocol.records import MCP_PINS, NATIVE_SESSION
from tertulia.protocol.storage import Full, StoragePolicy
from tertulia.protocol.worktree import OwnWorktree, WorktreeChild
from tertulia.session.resume.recorded_state import RecordedConversation, RecordedSegment, RecordedState
from tertulia.session.resume.terms_codec import (
    RecordedPins,
    RecordedTerms,
    keep_recorded_rights,
    read_terms,
    terms_record,
)
from tertulia.session.terms import TermsResolver

_DAMAGED = "the record of this call's result is damaged"


class UnstoredHistory(msgspec.Struct, frozen=True):
    """What a record holds of a history of which no text was stored, and which begins again (R3)."""

    open_calls: tuple[ToolCall, ...]
    """Calls of the record without an output: each gets one there, though no model will see it."""
    seeds: tuple[int, ...]
    """The places of the segments that are repeated."""
    segments: int
    """How many segments the record holds."""
    stand_ins: tuple[Item, ...]
    """The message that stands in for all of it."""


class RestoredConversation(msgspec.Struct, frozen=True):
    """A conversation that was rebuilt, and what has to be reported about it."""

    conversation: ConversationState
    narrowed: tuple[Narrowing, ...] = ()
    missing: int = 0
    """How many of its texts are not there."""
    forgotten: UnstoredHistory | None = None
    warnings: tuple[str, ...] = ()


class ConversationRestorer:
    """Rebuilds the conversations of one session."""

    def __init__(
        self,
        past: RecordedState,
        terms_resolver: TermsResolver,
        clock: Clock,
        journal: Journal,
        find_worktree: Callable[[ConversationId], OwnWorktree | None] = lambda _: None,
    ) -> None:
        """`find_worktree`: what our folder still knows of one that was not stored with the session."""
        self._find_worktree = find_worktree
        self._past = past
        self._terms_resolver = terms_resolver
        self._clock = clock
        self._journal = journal
        self._places: dict[ConversationId, Lineage] = {}
        self._pins = RecordedPins()
        self.closed_children: list[tuple[ConversationId | None, WorktreeChild]] = []
        """Closed conversations that had a worktree, each with the one that opened it: a branch may still be merged."""

    def conversations(self) -> Iterator[RestoredConversation]:
        """Every conversation that was open: the root, then by creation. StorageError for terms that make no sense."""
        for old in self._past.conversations.values():
            agreement = None if old.agreed is None else read_terms(old.agreed)
            above = None if agreement is None else self._places.get(agreement.parent_id or old.id)
            self._places[old.id] = Lineage(old.id, above)
            if agreement is not None and not old.closed and (old.is_published or self._past.damaged):
                yield self._restore(old, agreement)
            elif agreement is not None and old.agreed is not None:
                self._note_closed(old.id, agreement, old.agreed.storage)

    def _note_closed(self, id: ConversationId, agreement: RecordedTerms, storage: StoragePolicy) -> None:
        worktree = agreement.worktree
        if worktree is not None and worktree.conversation_id == id:
            self.closed_children.append((agreement.parent_id, WorktreeChild(worktree, agreement.title, storage)))

    def _restore(self, old: RecordedConversation, agreement: RecordedTerms) -> RestoredConversation:
        terms, warnings = self._terms(old, agreement)
        conversation = ConversationState(old.id, terms, clock=self._clock, journal=self._journal)
        conversation.default, conversation.because = self._terms_resolver.default, agreement.because
        conversation.ceiling = meet(agreement.ceiling, self._terms_resolver.ceiling)
        conversation.parent_id, conversation.depth, conversation.place = (
            agreement.parent_id,
            agreement.depth,
            self._places[old.id],
        )
        conversation.title = agreement.title
        conversation.lost_title = agreement.titled and agreement.title is None
        conversation.last_active = old.active
        conversation.history, missing, forgotten = _history(old, terms)
        conversation.history.kept_by = old.kept_by
        conversation.put_back(old.queued.values())
        now = terms_record(conversation, agreement.narrowed)
        if now == old.agreed:
            whole = not (missing or old.native_session_is_stale or self._past.damaged)
            conversation.native_session = _native_session(old, conversation.history.revision if whole else STALE)
        elif (lasting := keep_recorded_rights(old.agreed, now)) != old.agreed:
            # Less is stored than before, or another model answers. Other narrowing holds for this run only.
            conversation.note(lasting)
        return RestoredConversation(conversation, agreement.narrowed, missing, forgotten, warnings)

    def _terms(self, old: RecordedConversation, agreement: RecordedTerms) -> tuple[Terms, tuple[str, ...]]:
        default = self._terms_resolver.default
        rights = meet(agreement.rights, self._terms_resolver.ceiling)
        wire, warnings = self._wire(old, agreement)
        context = ConversationContext(
            agreement.base_instructions,
            agreement.user_instructions,
            self._pins.view(old.notes.get(MCP_PINS)).with_allowlist(rights.mcp_tool_allowlist),
            tool_preferences(rights, wire, agreement.preferences["shell_mode"], agreement.preferences["tool_profile"]),
        )
        cwd, worktree = self._place(old, agreement)
        agent = _agent(agreement)
        instead = agreement.fallback_models or (default.fallback_models if old.id == self._past.root_id else ())
        held = {"agent": agent, "fallback_models": instead, "unattended": default.unattended, "worktree": worktree}
        terms = Terms(context, rights, wire, agreement.backend, cwd, **held, **agreement.preferences)
        return terms, (*warnings, *_missing_functions(old.id, agreement.functions))

    def _place(self, old: RecordedConversation, agreement: RecordedTerms) -> tuple[str, OwnWorktree | None]:
        """Where it works. A fork's root has no worktree: that stays with the session that it was forked from."""
        here = self._terms_resolver.default.cwd
        if not agreement.in_worktree:
            return agreement.cwd or here, None
        if old.id == self._past.root_id:
            return here, None
        worktree = agreement.worktree or self._find_worktree(old.id) or OwnWorktree.unknown(old.id)
        return agreement.cwd or worktree.place_of(here), worktree

    def _wire(self, old: RecordedConversation, agreement: RecordedTerms) -> tuple[Wire, tuple[str, ...]]:
        """The model that it had; the session's, where it had that one or where its own does not exist any more."""
        default, is_root = self._terms_resolver.default, old.id == self._past.root_id
        # Without a name: it was that of a script's file, and a text that is not stored.
        if is_root or agreement.model in ("", self._past.model, default.wire.name):
            return (default if is_root else self._terms_resolver.copied(default)).wire, ()
        try:
            return self._terms_resolver.find_wire(agreement.model), ()
        except TertuliaError as error:
            warning = f"conversation {old.id} spoke with {agreement.model}, which cannot be had: {error.message}"
            return self._terms_resolver.copied(default).wire, (warning,)


def _missing_functions(conversation: ConversationId, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield (
            f"conversation {conversation} had Python functions of its own, which are not stored: {', '.join(names)}; "
            "give them again with set_context(tools=[…])"
        )


def _agent(agreement: RecordedTerms) -> Agent | None:
    """The agent by its name: its providers are asked again before its next message."""
    meta = agreement.agent
    return None if meta is None else Agent(str(meta.get("name")), str(meta.get("archetype")), meta)


def _native_session(old: RecordedConversation, revision: int) -> NativeSession | None:
    noted = old.notes.get(NATIVE_SESSION)
    return None if noted is None else native_session_from(noted.value, revision)


def _history(old: RecordedConversation, terms: Terms) -> tuple[HistoryStore, int, UnstoredHistory | None]:
    """Its history, how many texts are missing, and what is known where all are."""
    limits = history_limits(terms.rights)
    missing = sum(len(piece.missing) for piece in old.pieces)
    fresh = seeds(terms.context.user_instructions, terms.cwd, terms.rights, unattended=terms.unattended)
    if not _has_stored_text(old):
        store = HistoryStore(limits, fresh)
        stand_ins = (not_stored_message(),) if old.tasks else ()
        store.append(stand_ins)
        return store, missing or old.tasks, _unstored_history(old, stand_ins)
    seed_items = [piece.items for piece in old.pieces if piece.seed and not piece.missing]
    rest = [piece for piece in old.pieces if not piece.seed]
    first = seed_items[0] if seed_items else fresh
    store = HistoryStore(limits, first)
    try:
        for piece in rest:
            store.append(piece.items, pinned=piece.pinned)
    except InternalError:
        # Records are missing: what is left is made whole, in the order in which it was said.
        store = HistoryStore(limits, first)
        for piece in mend_segments(rest):
            store.append(piece.items)
    return store, missing, None


def _unstored_history(old: RecordedConversation, stand_ins: tuple[Item, ...]) -> UnstoredHistory:
    open_calls: dict[CallId, ToolCall] = {}
    for item in old.items:
        if isinstance(item, ToolCall):
            open_calls[item.call_id] = item
        elif isinstance(item, ToolOutput):
            open_calls.pop(item.call_id, None)
    again = tuple(at for at, piece in enumerate(old.pieces) if piece.seed)
    return UnstoredHistory(tuple(open_calls.values()), again, len(old.pieces), stand_ins)


def mend_segments(pieces: Sequence[RecordedSegment]) -> list[RecordedSegment]:
    """The segments with one output for each call; every turn gets the age of its oldest segment."""
    origins = {item.id: (piece.ts, at in piece.missing) for piece in pieces for at, item in enumerate(piece.items)}
    whole: list[RecordedSegment] = []
    for turn in turns(mend([item for piece in pieces for item in piece.items], _DAMAGED)):
        places = [origins.get(item.id, (math.inf, False)) for item in turn]
        missing = tuple(at for at, (_, is_missing) in enumerate(places) if is_missing)
        whole.append(RecordedSegment(tuple(turn), missing=missing, ts=min(ts for ts, _ in places)))
    return whole


def _has_stored_text(old: RecordedConversation) -> bool:
    """Whether any message of a user or the model is there, or there never was one to be stored."""
    stored = [
        at not in piece.missing for piece in old.pieces for at, item in enumerate(piece.items) if is_message(item)
    ]
    # A task in which nothing was said: under a policy that forgets nothing it was a compaction, or failed at once.
    forgets = old.kept_by is not None or (old.agreed is not None and not isinstance(old.agreed.storage, Full))
    return any(stored) or not (stored or (old.tasks and forgets))
