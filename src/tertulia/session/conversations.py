"""The conversations of a session: opened, found, changed, forked, removed. Nothing here waits or runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from tertulia.conversation.resolve_terms import ResolvedTerms
from tertulia.conversation.state import ConversationState, Lineage
from tertulia.conversation.terms import Terms
from tertulia.errors import ClosedError, InvalidParamsError, LimitError, NotFoundError
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal
from tertulia.policy.rights import Narrowing, Rights
from tertulia.protocol.events import (
    BackgroundEvent,
    ConversationClosed,
    ConversationContextChanged,
    ConversationOpened,
    WarningEvent,
)
from tertulia.protocol.ids import ConversationId, ItemId, new_conversation_id
from tertulia.protocol.inputs import AgentSpec, ChangeFromPython, ContextFields, NewConversation, SetContext, check_text
from tertulia.protocol.records import ForkRecord
from tertulia.protocol.storage import StoragePolicy
from tertulia.protocol.worktree import OwnWorktree
from tertulia.session.resume.terms_codec import pins_record, terms_record
from tertulia.session.terms import OpenTerms, PreparedAgent, TermsResolver, in_worktree, moved, new_id
from tertulia.tools.tool import Rounds

_KEPT = 100_000


class Tombstones:
    """The last hundred thousand closed ids."""

    __slots__ = ("_ids", "_limit")

    def __init__(self, limit: int = _KEPT) -> None:
        self._ids: dict[str, None] = {}
        self._limit = limit

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def add(self, id: str) -> None:
        """Remember an id, and forget the oldest where there are too many."""
        self._ids[id] = None
        if len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]


class ListWatchers:
    """Functions that are called when a list has changed."""

    def __init__(self) -> None:
        self._all: list[Callable[[], None]] = []

    def add(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Add a function; returns another that removes it."""
        self._all.append(changed)
        return lambda: self._all.remove(changed)

    def notify(self) -> None:
        """Call every function that was added."""
        for changed in list(self._all):
            changed()


_log = logging.getLogger(__name__)
ROOT = "root"
_NO_SCOPE = EventScope("")
MAX_TITLE = 200


class Conversations:
    """All conversations of one session; the root is always among them."""

    def __init__(
        self,
        root_id: ConversationId,
        terms_resolver: TermsResolver,
        *,
        bus: EventBus,
        clock: Clock,
        journal: Journal,
        on_gone: Callable[[ConversationId], None],
        on_storage: Callable[[StoragePolicy], None],
        project: Callable[[ConversationState], tuple[str, Sequence[str]]] = lambda _: ("", ()),
        look: Callable[[Terms, str | None], Terms] = lambda terms, _: terms,
    ) -> None:
        """`on_gone` is called for each conversation that is closed, or could not be committed, and `on_storage` with
        the storage policy of each that has new terms. `project`: what files of its project say to a new one,
        and warnings. `look`: the same terms, with what it is told of where it works; takes where that was.
        """
        self._terms_resolver = terms_resolver
        self._bus = bus
        self._clock = clock
        self._journal = journal
        self._open: dict[ConversationId, ConversationState] = {}
        self.gone = Tombstones()
        """Ids of those that were closed."""
        self._narrowed: dict[ConversationId, tuple[Narrowing, ...]] = {}
        self.release = terms_resolver.release
        """Called with terms that no conversation has any more."""
        self._on_gone = on_gone
        self.watchers = ListWatchers()
        """Called when the list, or a title in it, has changed."""
        self._on_storage = on_storage
        self._project, self._look = project, look
        self.closed = False
        """The session closes: open and change nothing any more; what is there can still be read."""
        self.root_id = root_id

    def begin(self) -> None:
        """Make the root of a new session."""
        open_terms, spec = self._terms_resolver.for_root()
        self._add(self.root_id, open_terms, spec, parent=None)

    def restore(self, conversation: ConversationState, narrowed: tuple[Narrowing, ...]) -> None:
        """Add a conversation of a resumed session; the root first, then by creation."""
        self._open[conversation.id] = conversation
        _tell_parent(self._open, conversation)
        if narrowed:
            self._narrowed[conversation.id] = narrowed

    @property
    def root(self) -> ConversationState:
        """The conversation that always exists."""
        return self._open[self.root_id]

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[ConversationState]:
        """Root first, then by creation."""
        return iter(list(self._open.values()))

    def find(self, conversation_id: str) -> ConversationState:
        """The conversation of that id, or of the name "root"."""
        conversation = self.root if conversation_id == ROOT else self._open.get(ConversationId(conversation_id))
        if conversation is not None and not conversation.closed:
            return conversation
        if conversation is not None or conversation_id in self.gone:
            raise ClosedError(f"conversation {conversation_id} is closed")
        raise NotFoundError(f"conversation not found: {conversation_id[:64]!r}")

    def peek(self, conversation_id: ConversationId) -> ConversationState | None:
        """The conversation, if it is open."""
        conversation = self._open.get(conversation_id)
        return None if conversation is None or conversation.closed else conversation

    def narrowed(self, conversation: ConversationState) -> tuple[Narrowing, ...]:
        """What the conversation asked for and did not get."""
        return self._narrowed.get(conversation.id, ())

    def open(
        self, spec: NewConversation, prepared_agent: PreparedAgent | None = None
    ) -> tuple[ConversationState, ResolvedTerms]:
        """A conversation under root, narrowed to the session; or under another one, and narrowed to that.

        `prepared_agent`: the agent that it is, prepared before the conversation exists.
        """
        parent = None if spec.parent_id in (UNSET, None) else self.find(str(spec.parent_id))
        self._check_room()
        _check_spec(spec)
        terms_resolver = self._terms_resolver
        open_terms = (
            terms_resolver.under_session(spec, prepared_agent)
            if parent is None
            else terms_resolver.under_parent(spec, parent, prepared_agent)
        )
        id = new_id(spec) if prepared_agent is None else prepared_agent.id
        conversation = self._add(id, open_terms, spec, parent=parent or self.root)
        return conversation, replace(open_terms.resolved, terms=conversation.terms)

    def check_child(self, spec: NewConversation, caller: ConversationState, promised: int = 0) -> Rights:
        """Raise what `open_child` would raise once so many others are open; nothing is opened.

        Returns the child's rights.
        """
        self._check_room(promised)
        spec = self._terms_resolver.agents.for_child(spec)
        _check_spec(spec)
        return self._terms_resolver.check_under_caller(spec, caller)

    def open_child(
        self, spec: NewConversation, caller: ConversationState, cause: EventScope | None = None, shared: Rounds = None
    ) -> ConversationState:
        """A conversation that inherits from its caller and can only be narrower.

        `cause`: the task in which it was asked for. `shared`: how much of the caller's history it begins with.
        """
        self._check_room()
        _check_no_identity(spec)
        spec = self._terms_resolver.agents.for_child(spec)
        _check_spec(spec)
        open_terms = self._terms_resolver.under_caller(spec, caller)
        return self._add(new_id(spec), open_terms, spec, caller, cause=cause, shared=shared)

    def change(self, conversation: ConversationState, params: SetContext) -> ResolvedTerms:
        """New terms for a conversation, from its next model request on."""
        _refuse_if(self.closed)
        if params.agent not in (UNSET, None):
            raise InvalidParamsError(
                "agent: it is set when the conversation is opened, and cannot be changed; leave it out"
            )
        if params.workspace is not UNSET:
            raise InvalidParamsError("workspace: where a conversation works is decided when it is opened; leave it out")
        title = _title(params, conversation.title)
        resolved = self._terms_resolver.changed(conversation, params)
        conversation.adopt(self._look(resolved.terms, conversation.terms.cwd))
        if title != conversation.title:
            conversation.title, conversation.lost_title = title, False
            self.watchers.notify()
        # After the messages that the change caused: a stricter policy erases those too.
        self._agree(conversation, _merge_narrowed(self.narrowed(conversation), resolved, params))
        if params.refresh_mcp_view and not conversation.terms.context.mcp_view.pins:
            # The old pins no longer hold, and there are no new ones.
            conversation.note(pins_record(conversation))
        changed = [name for name in ContextFields.__struct_fields__ if getattr(params, name) is not UNSET]
        if isinstance(params, ChangeFromPython) and params.functions is not UNSET:
            changed.append("tools")
        scope = EventScope("", conversation.id)
        self._bus.publish(ConversationContextChanged(changed), scope)
        _publish_narrowed(self._bus, resolved, scope)
        return resolved

    def fork(
        self, conversation: ConversationState, at: ItemId | int | None, worktree: OwnWorktree | None = None
    ) -> ConversationState:
        """A conversation that shares this one's history up to a point, and its terms; `worktree`: but not that."""
        self._check_room()
        history = conversation.history.fork(at)
        # A fork of an agent has the same texts without the identity: name, tools and token stay with the original.
        terms = replace(self._terms_resolver.copied(conversation.terms), agent=None)
        id = new_conversation_id()
        if worktree is not None:
            id, terms = worktree.conversation_id, moved(terms, worktree)
        fork = ConversationState(id, terms, clock=self._clock, journal=self._journal)
        fork.default, fork.ceiling, fork.because = conversation.default, conversation.ceiling, conversation.because
        fork.history = history
        fork.title = conversation.title
        fork.parent_id, fork.depth = conversation.parent_id or self.root.id, conversation.depth or 1
        fork.place = Lineage(fork.id, conversation.place.above)
        self._agree(fork, self.narrowed(conversation))
        fork.note(
            ForkRecord(fork.id, conversation.id, history.totals.item_count, conversation.history.totals.item_count)
        )
        self._admit(fork, EventScope("", fork.id))
        return fork

    def take_back(
        self, conversation: ConversationState, terms: Terms, title: str | None, narrowed: tuple[Narrowing, ...]
    ) -> None:
        """Undo a change that could not be committed."""
        refused = conversation.terms
        conversation.adopt(terms)
        conversation.title = title
        self.watchers.notify()
        self._agree(conversation, narrowed)
        if refused.wire is not terms.wire:
            self.release(refused)

    def forget(self, conversation: ConversationState, *, forced: bool | None) -> None:
        """Remove a conversation: its id answers `closed` now. `forced` is None where no client was told of it."""
        parent = _tell_parent(self._open, conversation)
        del self._open[conversation.id]
        self._on_gone(conversation.id)
        self.watchers.notify()
        self._terms_resolver.release(conversation.terms)
        self._narrowed.pop(conversation.id, None)
        if forced is None:
            if parent is not None:
                parent.worktree_children.pop(conversation.id, None)
        else:
            self.gone.add(conversation.id)
            self._bus.publish(ConversationClosed(forced), EventScope("", conversation.id))

    # ── making one ───────────────────────────────────────────────────────────────────────────────────────────

    def _add(
        self, id: ConversationId, open_terms: OpenTerms, spec: NewConversation, parent: ConversationState | None, *,
        cause: EventScope | None = None, shared: Rounds = None,
    ) -> ConversationState:  # fmt: skip
        terms = in_worktree(open_terms.resolved.terms, spec)
        conversation = ConversationState(id, terms, clock=self._clock, journal=self._journal)
        conversation.default, conversation.ceiling, conversation.because = (
            open_terms.default,
            open_terms.ceiling,
            open_terms.because,
        )
        conversation.title = _title(spec, None)
        _put_below(conversation, parent)
        self._agree(conversation, _merge_narrowed((), open_terms.resolved, spec))
        warnings: Sequence[str] = ()
        if parent is None or shared is None:
            text, warnings = self._project(conversation)
            conversation.terms = self._look(conversation.terms, None)
            conversation.seed(text)
        else:
            conversation.inherit(parent, shared)
        # Under the ids of the task that asked for it, so that clients that follow that task get the event.
        scope = replace(cause or _NO_SCOPE, conversation_id=conversation.id)
        self._admit(conversation, scope)
        for warning in warnings:
            self._bus.publish(WarningEvent(warning, "project_instructions"), scope)
        _publish_narrowed(self._bus, open_terms.resolved, scope)
        return conversation

    def _admit(self, conversation: ConversationState, scope: EventScope) -> None:
        self._open[conversation.id] = conversation
        _tell_parent(self._open, conversation)
        self.watchers.notify()
        opened = ConversationOpened(
            conversation.parent_id, conversation.title, conversation.terms.wire.name, conversation.terms.backend
        )
        self._bus.publish(opened, scope)

    def _agree(self, conversation: ConversationState, narrowed: tuple[Narrowing, ...]) -> None:
        self._narrowed.pop(conversation.id, None)
        if narrowed:
            self._narrowed[conversation.id] = narrowed
        conversation.note(terms_record(conversation, narrowed))
        self._on_storage(conversation.storage)
        if conversation.terms.context.mcp_view.pins:
            conversation.note(pins_record(conversation))

    def _check_room(self, promised: int = 0) -> None:
        _refuse_if(self.closed)
        most = self._terms_resolver.ceiling.limits.max_conversations
        if most is not None and len(self._open) + promised > most:
            raise LimitError(f"the session holds {most:,} conversations besides root (max_conversations); close some")


def _merge_narrowed(
    earlier: Iterable[Narrowing], resolved: ResolvedTerms, params: ContextFields
) -> tuple[Narrowing, ...]:
    """The new narrowings, and the earlier ones of fields that are not set again."""
    stay = (cut for cut in earlier if getattr(params, cut.field, UNSET) is UNSET)
    return (*stay, *resolved.narrowed)


def _publish_narrowed(bus: EventBus, resolved: ResolvedTerms, scope: EventScope) -> None:
    for warning in resolved.warnings:
        _log.warning("conversation %s: %s", scope.conversation_id, warning)
    for cut in resolved.narrowed:
        _log.info("conversation %s: %s", scope.conversation_id, cut.sentence)
        listed: dict[str, Any] = {name: getattr(cut, name) for name in cut.__struct_fields__}
        bus.publish(BackgroundEvent(cut.sentence, [listed]), scope)


def _refuse_if(closed: bool) -> None:
    if closed:
        raise ClosedError("the session is closed")


def _tell_parent(
    conversations: Mapping[ConversationId, ConversationState], conversation: ConversationState
) -> ConversationState | None:
    """The conversation that opened it, if it is open; it knows then what of this one it can merge."""
    parent = None if conversation.parent_id is None else conversations.get(conversation.parent_id)
    if parent is not None:
        parent.note_child(conversation)
    return parent


def _put_below(conversation: ConversationState, parent: ConversationState | None) -> None:
    if parent is not None:
        conversation.parent_id, conversation.depth, conversation.place = (
            parent.id,
            parent.depth + 1,
            Lineage(conversation.id, parent.place),
        )


def _check_spec(spec: NewConversation) -> None:
    _title(spec, None)


def _check_no_identity(params: ContextFields) -> None:
    if isinstance(params.agent, AgentSpec):
        raise InvalidParamsError("agent: only a client can set it, when it opens the conversation; leave it out")


def _title(params: ContextFields, current: str | None) -> str | None:
    if params.title is UNSET:
        return current
    if params.title is None:
        return None
    # One line, whatever a model writes: it stands in lists.
    title = " ".join(check_text(str(params.title), "title").split())
    if len(title) > MAX_TITLE:
        raise InvalidParamsError(f"title has {len(title)} characters; the limit is {MAX_TITLE}")
    return title or None
