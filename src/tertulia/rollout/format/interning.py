"""Rows that others refer to: conversations, ids of tasks and repeated strings are each written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.storage import HeadersOnly, NoStorage, StoragePolicy
from tertulia.rollout.format.conversation_rows import ConversationRows, bare_calls
from tertulia.rollout.format.headers import is_plain
from tertulia.rollout.format.id_packing import pack_ids
from tertulia.rollout.format.record_state import RecordState
from tertulia.rollout.format.row_encoder import RowEncoder

_HEADER = HeadersOnly()
_SCOPES = 8
_NAMES = 16


class Interner:
    """Names what rows are about, and remembers it. Bounded a conversation: what is forgotten is named again."""

    def __init__(self, make: RowEncoder, known: RecordState | None) -> None:
        self._make = make
        self._session: tuple[str, int, int] | None = None
        self._conversations: dict[ConversationId, ConversationRows] = {}
        self._closed: dict[ConversationId, int] = {}
        """The rows of closed conversations, of which hardly any more events come."""
        for conversation, former in (RecordState() if known is None else known).conversations.items():
            if former.closed:
                self._closed[conversation] = former.n
                continue
            state = self._conversations[conversation] = ConversationRows(former.n)
            state.tools = dict(former.tools)
            state.recent.calls = bare_calls(former.calls)
            state.recent.answered = bare_calls(former.answered)

    def session(self, event: Event, ts: float, policy: StoragePolicy) -> None:
        """Name the session and its epoch, before the first event of them."""
        session = (event.session_id, event.epoch)
        if self._session is None or self._session[:2] != session:
            header = {"id": pack_ids(event.session_id), "epoch": event.epoch}
            self._session = (
                *session,
                self._make.put("session", "session", None, ts, header, policy=header_only_policy(policy)),
            )

    def conversation(self, conversation: ConversationId) -> int | None:
        """The row that names a conversation."""
        state = self._conversations.get(conversation)
        return self._closed.get(conversation) if state is None else state.n

    def forget(self, n: int) -> None:
        """Rows from this number on were never written: no row may refer to them."""
        if self._session is not None and self._session[2] >= n:
            self._session = None
        self._conversations = {
            conversation: state for conversation, state in self._conversations.items() if state.n < n
        }
        self._closed = {conversation: state for conversation, state in self._closed.items() if state < n}
        for state in self._conversations.values():
            state.forget(n)

    def erased(self, conversation: ConversationId) -> None:
        """Bodies of a conversation, perhaps whole rows, are being erased: later rows must not refer to them."""
        state = self._conversations.get(conversation)
        if state is not None:
            self._conversations[conversation] = state.erased()

    def closed(self, conversation: ConversationId) -> None:
        """Forget all but its row: a session may have many thousand conversations, one after the other."""
        state = self._conversations.pop(conversation, None)
        if state is not None:
            self._closed[conversation] = state.n

    def scope(self, event: Event, conversation: ConversationRows | None, ts: float, policy: StoragePolicy) -> int:
        """The row with the ids of an event; 0 for those that any event of the session has."""
        key = (event.sub_id, event.task_id, event.trace_id, event.span_id)
        if conversation is None:
            return 0 if key == (event.session_id, None, None, None) else self._new_scope(key, None, ts, policy)
        n = conversation.scopes.get(key)
        if n is None:
            if key == (event.session_id, None, None, None):
                return 0
            n = self._new_scope(key, conversation, ts, policy)
            conversation.scopes[key] = n
            if len(conversation.scopes) > _SCOPES:
                del conversation.scopes[next(iter(conversation.scopes))]
        return n

    def _new_scope(
        self, key: tuple[str | None, ...], conversation: ConversationRows | None, ts: float, policy: StoragePolicy
    ) -> int:
        return self._make.put(
            "scope", "scope", conversation, ts, {"ids": pack_ids(*key)}, policy=header_only_policy(policy)
        )

    def task_scope(self, task_id: TaskId, conversation: ConversationRows, ts: float, policy: StoragePolicy) -> int:
        """A row with the id of a task."""
        for key, n in reversed(conversation.scopes.items()):
            if key[1] == task_id:
                return n
        n = self._new_scope((None, task_id, None, None), conversation, ts, policy)
        conversation.scopes[(None, task_id, None, None)] = n
        return n

    def named(self, conversation: ConversationId, ts: float, policy: StoragePolicy) -> ConversationRows:
        """What is known of a conversation, which has a row from now on."""
        state = self._conversations.get(conversation)
        if state is None:
            n = self._closed.pop(conversation, 0)
            state = self._conversations[conversation] = ConversationRows(n or self._make.n + 1)
            if not n:
                self._make.put(
                    "talk", "talk", state, ts, {"id": pack_ids(conversation)}, policy=header_only_policy(policy)
                )
        return state

    def name(
        self,
        key: tuple[Any, ...],
        spell: Callable[..., object] | None,
        conversation: ConversationRows,
        ts: float,
        policy: StoragePolicy,
    ) -> int | None:
        """The row that holds these values, a new one if need be; None if they are no names."""
        n = conversation.names.get(key)
        if n is None and is_plain(key):
            value = key if spell is None else spell(*key)
            n = conversation.names[key] = self._make.put(
                "name", "", conversation, ts, {"is": value}, policy=header_only_policy(policy)
            )
            if len(conversation.names) > _NAMES:
                del conversation.names[next(iter(conversation.names))]
        return n


def header_only_policy(policy: StoragePolicy) -> StoragePolicy:
    """For rows that others point to: they have no text, and must not go when the texts expire."""
    return policy if isinstance(policy, NoStorage) else _HEADER
