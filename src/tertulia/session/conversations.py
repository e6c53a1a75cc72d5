"""The conversations of a session: opened, found, changed, forked, forgotten. Nothing here waits or runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from tertulia.conversation.settings import Settled
from tertulia.conversation.talk import Talk
from tertulia.errors import Closed, InvalidParams, Limit, NotFound
from tertulia.events.bus import EventBus, Scope
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal
from tertulia.policy.narrowing import Narrowed
from tertulia.protocol.events import (
    BackgroundEvent,
    ConversationClosed,
    ConversationContextChanged,
    ConversationOpened,
)
from tertulia.protocol.ids import ConversationId, ItemId, new_conversation_id
from tertulia.protocol.inputs import ContextFields, NewConversation, SetContext, check_text
from tertulia.session.notary import Deed, Notary
from tertulia.session.tombstones import Tombstones

_log = logging.getLogger(__name__)
ROOT = "root"
MAX_TITLE = 200


class Conversations:
    """All conversations of one session; the root is always among them."""

    def __init__(
        self,
        root_id: ConversationId,
        notary: Notary,
        *,
        bus: EventBus,
        clock: Clock,
        journal: Journal,
    ) -> None:
        self._notary = notary
        self._bus = bus
        self._clock = clock
        self._journal = journal
        self._open: dict[ConversationId, Talk] = {}
        self._gone = Tombstones()
        self._narrowed: dict[ConversationId, tuple[Narrowed, ...]] = {}
        self.closed = False
        """The session closes: nothing is opened or changed any more, what is there may still be read."""
        self.root = self._add(root_id, notary.for_root(), NewConversation(), parent=None)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Talk]:
        """Root first, then by creation."""
        return iter(list(self._open.values()))

    def find(self, conversation_id: str) -> Talk:
        """The conversation of that id, or of the name "root"."""
        talk = self.root if conversation_id == ROOT else self._open.get(ConversationId(conversation_id))
        if talk is not None and not talk.closed:
            return talk
        if talk is not None or conversation_id in self._gone:
            raise Closed(f"conversation {conversation_id} is closed")
        raise NotFound(f"conversation not found: {conversation_id[:64]!r}")

    def peek(self, conversation_id: ConversationId) -> Talk | None:
        """The conversation, if it is open."""
        talk = self._open.get(conversation_id)
        return None if talk is None or talk.closed else talk

    def narrowed(self, talk: Talk) -> tuple[Narrowed, ...]:
        """What the conversation asked for and did not get."""
        return self._narrowed.get(talk.id, ())

    def open(self, spec: NewConversation) -> tuple[Talk, Settled]:
        """A conversation under root, narrowed to the session; or under another one, and narrowed to that."""
        parent = None if spec.parent_id in (UNSET, None) else self.find(str(spec.parent_id))
        self._check_spec(spec)
        notary = self._notary
        deed = notary.under_session(spec) if parent is None else notary.under_parent(spec, parent)
        return self._add(new_conversation_id(), deed, spec, parent=parent or self.root), deed.settled

    def open_child(self, spec: NewConversation, caller: Talk) -> Talk:
        """A conversation that inherits from its caller and can only be narrower."""
        self._check_spec(spec)
        return self._add(new_conversation_id(), self._notary.under_caller(spec, caller), spec, parent=caller)

    def change(self, talk: Talk, asked: SetContext) -> Settled:
        """New terms for a conversation, from its next model request on."""
        self._check_open()
        _check_agent(asked)
        title = _title(asked, talk.title)
        settled, former = self._notary.changed(talk, asked), talk.terms
        talk.adopt(settled.terms)
        if former.wire is not talk.terms.wire and talk.task is None:
            # One that a running task may still be reading from goes with the session.
            self._notary.release(former)
        talk.title = title
        self._note(talk, settled, asked)
        changed = [name for name in ContextFields.__struct_fields__ if getattr(asked, name) is not UNSET]
        scope = Scope("", talk.id)
        self._bus.publish(ConversationContextChanged(changed), scope)
        self._tell(settled, scope)
        return settled

    def fork(self, talk: Talk, at: ItemId | int | None) -> Talk:
        """A conversation that shares this one's history up to a point, and its terms."""
        self._check_room()
        history = talk.history.fork(at)
        fork = Talk(new_conversation_id(), self._notary.copied(talk.terms), clock=self._clock, journal=self._journal)
        fork.default, fork.ceiling, fork.because = talk.default, talk.ceiling, talk.because
        fork.history = history
        fork.title = talk.title
        if cuts := self.narrowed(talk):
            self._narrowed[fork.id] = cuts
        self._journal.keep(fork.id, list(history.snapshot()), talk.terms.rights.storage_policy)
        self._admit(fork, talk.parent_id or self.root.id, talk.depth or 1)
        return fork

    def forget(self, talk: Talk, *, forced: bool) -> None:
        """The conversation is gone: its id answers `closed` from now on."""
        del self._open[talk.id]
        self._gone.add(talk.id)
        self._notary.release(talk.terms)
        self._narrowed.pop(talk.id, None)
        self._bus.publish(ConversationClosed(forced), Scope("", talk.id))

    def was_closed(self, conversation_id: str) -> bool:
        """Whether there was a conversation of that id."""
        return conversation_id in self._gone

    # ── making one ───────────────────────────────────────────────────────────────────────────────────────────

    def _add(self, id: ConversationId, deed: Deed, spec: NewConversation, parent: Talk | None) -> Talk:
        talk = Talk(id, deed.settled.terms, clock=self._clock, journal=self._journal)
        talk.default, talk.ceiling, talk.because = deed.default, deed.ceiling, deed.because
        talk.title = _title(spec, None)
        talk.seed()
        self._admit(talk, parent.id if parent else None, parent.depth + 1 if parent else 0)
        self._note(talk, deed.settled, spec)
        self._tell(deed.settled, Scope("", talk.id))
        return talk

    def _admit(self, talk: Talk, parent_id: ConversationId | None, depth: int) -> None:
        talk.parent_id, talk.depth = parent_id, depth
        self._open[talk.id] = talk
        opened = ConversationOpened(parent_id, talk.title, talk.terms.wire.name, talk.terms.backend)
        self._bus.publish(opened, Scope("", talk.id))

    def _check_open(self) -> None:
        if self.closed:
            raise Closed("the session is closed")

    def _check_spec(self, spec: NewConversation) -> None:
        self._check_room()
        _check_agent(spec)
        _title(spec, None)

    def _check_room(self) -> None:
        self._check_open()
        most = self._notary.ceiling.limits.max_conversations
        if most is not None and len(self._open) > most:
            raise Limit(f"the session holds {most:,} conversations besides root (max_conversations); close some")

    def _note(self, talk: Talk, settled: Settled, asked: ContextFields) -> None:
        """Keep what was cut; of earlier cuts, those of fields that were not asked for anew."""
        earlier = (cut for cut in self.narrowed(talk) if getattr(asked, cut.field, UNSET) is UNSET)
        cuts = (*earlier, *settled.narrowed)
        self._narrowed.pop(talk.id, None)
        if cuts:
            self._narrowed[talk.id] = cuts

    def _tell(self, settled: Settled, scope: Scope) -> None:
        for warning in settled.warnings:
            _log.warning("conversation %s: %s", scope.conversation_id, warning)
        for cut in settled.narrowed:
            message = f"{cut.field}: asked for {cut.asked}, given {cut.given}, because of the {cut.because}"
            _log.info("conversation %s: %s", scope.conversation_id, message)
            listed: dict[str, Any] = {name: getattr(cut, name) for name in cut.__struct_fields__}
            self._bus.publish(BackgroundEvent(message, [listed]), scope)


def _check_agent(asked: ContextFields) -> None:
    if asked.agent not in (UNSET, None):
        raise InvalidParams("agent: this build has no context injector yet; leave it out")


def _title(asked: ContextFields, current: str | None) -> str | None:
    if asked.title is UNSET:
        return current
    if asked.title is None:
        return None
    title = check_text(str(asked.title), "title").strip()
    if len(title) > MAX_TITLE:
        raise InvalidParams(f"title has {len(title)} characters; the limit is {MAX_TITLE}")
    return title
