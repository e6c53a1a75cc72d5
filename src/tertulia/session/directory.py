"""What the conversation tools may see and do: the session's conversations, from where a caller stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import NATIVE
from tertulia.errors import (
    AwaitingResultError,
    ClosedError,
    InvalidParamsError,
    NotFoundError,
    UnsupportedByBackendError,
)
from tertulia.protocol.inputs import NewConversation
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.session import describe
from tertulia.session.parts import Parts
from tertulia.session.shutdown import begin_to_close, close_conversation
from tertulia.tools.tool import CallContext, ConversationEntries

_NOT_FOUND = "conversation not found"
_SCRIPTED = "scripted/"


class SessionDirectory:
    """Knows the session once it is put together; the tools are made before that."""

    def __init__(self) -> None:
        self._parts: Parts | None = None

    def serve(self, parts: Parts) -> None:
        """From now on there is something to see."""
        self._parts = parts

    @property
    def hidden(self) -> tuple[str, ...]:
        """What commands are not shown either."""
        return self._ready.workshop.place.masked

    def list(self, call: CallContext) -> ConversationEntries:
        """Every conversation in sight, root first, then by creation."""
        parts, caller = self._ready, self._caller(call)
        seen = [talk for talk in parts.conversations if _sees(call, caller, talk)]
        ids = {talk.id for talk in seen}

        def entry(index: int) -> dict[str, Any]:
            info = describe.conversation(parts, seen[index])
            if info.parent_id not in ids:
                info = msgspec.structs.replace(info, parent_id=None)
            return msgspec.to_builtins(info)

        titled = (talk.terms.rights.storage_policy for talk in seen if talk.title is not None)
        return ConversationEntries(len(seen), entry, _stricter(caller, titled))

    def history(self, call: CallContext, conversation_id: str, limit: int | None) -> ConversationEntries:
        """The newest messages of a conversation."""
        talk = self._find(call, conversation_id)
        messages = talk.history.messages(limit)
        marks = (talk.history.kept_by, *(message.storage for message in messages))
        policies = (policy for policy in marks if policy is not None)
        storage = _stricter(self._caller(call), (talk.terms.rights.storage_policy, *policies))
        return ConversationEntries(
            len(messages), lambda index: msgspec.to_builtins(describe.entry(messages[index])), storage
        )

    def check_create(self, call: CallContext, spec: NewConversation) -> None:
        """Refuse a conversation that could not be opened."""
        caller = self._delegating(call)
        # A script is a file: a model that is no script itself could have any file read by naming it.
        if isinstance(spec.model, str) and spec.model.startswith(_SCRIPTED) and not _is_scripted(caller):
            raise InvalidParamsError("model: only a scripted conversation may open one with a script")
        self._ready.conversations.check_child(spec, caller)

    def check_send(self, call: CallContext, conversation_id: str) -> None:
        """Refuse a target that does not exist, or that could not answer."""
        caller, talk = self._delegating(call), self._find(call, conversation_id)
        if talk is caller or talk.awaiting:
            raise AwaitingResultError("conversation is awaiting a tool result")

    def check_destroy(self, call: CallContext, conversation_id: str) -> None:
        """Refuse the root, what does not exist, and what waits for an answer."""
        self._destructible(call, conversation_id)

    async def destroy(self, call: CallContext, conversation_id: str) -> bool:
        """Close it; whether it was the caller, whose task then ends with the call."""
        talk = self._destructible(call, conversation_id)
        if talk.id == call.conversation_id:
            # Not waited for: it is over when this very task is.
            begin_to_close(self._ready, talk, self._ready.settings.close_timeout_s)
            return True
        await close_conversation(self._ready, talk.id, None)
        return False

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _ready(self) -> Parts:
        assert self._parts is not None, "a tool was called before the session stood"
        return self._parts

    def _caller(self, call: CallContext) -> ConversationState:
        return self._ready.conversations.find(call.conversation_id)

    def _delegating(self, call: CallContext) -> ConversationState:
        caller = self._caller(call)
        if caller.terms.backend != NATIVE:
            raise UnsupportedByBackendError(f"the backend {caller.terms.backend} cannot wait for another conversation")
        return caller

    def _find(self, call: CallContext, conversation_id: str) -> ConversationState:
        try:
            talk = self._ready.conversations.find(conversation_id)
        except NotFoundError:
            raise NotFoundError(_NOT_FOUND) from None
        except ClosedError:
            if call.rights.visibility == "subtree":
                # Nobody knows any more whether it was in sight.
                raise NotFoundError(_NOT_FOUND) from None
            raise ClosedError("conversation is closed") from None
        if not _sees(call, self._caller(call), talk):
            raise NotFoundError(_NOT_FOUND)
        return talk

    def _destructible(self, call: CallContext, conversation_id: str) -> ConversationState:
        try:
            talk = self._find(call, conversation_id)
        except ClosedError:
            raise NotFoundError(_NOT_FOUND) from None
        if talk is self._ready.conversations.root:
            raise InvalidParamsError("the root conversation cannot be destroyed")
        if talk.awaiting:
            raise AwaitingResultError("conversation is awaiting a tool result")
        return talk


def _sees(call: CallContext, caller: ConversationState, talk: ConversationState) -> bool:
    """Rights are the chain's: what any of its members is kept from seeing is not seen on its behalf."""
    return call.rights.visibility == "session" or talk.is_in_subtree_of(caller.id)


def _is_scripted(talk: ConversationState) -> bool:
    return talk.terms.wire.name.startswith(_SCRIPTED)


def _stricter(caller: ConversationState, sources: Iterable[StoragePolicy]) -> StoragePolicy | None:
    """The strictest policy of the sources, where it is stricter than the caller's own."""
    own = caller.terms.rights.storage_policy
    strict = strictest(own, *sources)
    return None if strict == own else strict
