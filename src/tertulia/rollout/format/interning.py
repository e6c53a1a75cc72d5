"""Rows that others point to: a conversation, the ids of a task and strings that repeat are each named once."""

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
        self._talks: dict[ConversationId, ConversationRows] = {}
        self._closed: dict[ConversationId, int] = {}
        """The rows of conversations of which hardly anything more will be heard."""
        for conversation, former in (RecordState() if known is None else known).talks.items():
            if former.closed:
                self._closed[conversation] = former.n
                continue
            talk = self._talks[conversation] = ConversationRows(former.n)
            talk.tools = dict(former.tools)
            talk.recent.calls = bare_calls(former.calls)
            talk.recent.answered = bare_calls(former.answered)

    def session(self, event: Event, ts: float, policy: StoragePolicy) -> None:
        """Name the session and its epoch, before the first event of them."""
        session = (event.session_id, event.epoch)
        if self._session is None or self._session[:2] != session:
            header = {"id": pack_ids(event.session_id), "epoch": event.epoch}
            self._session = (
                *session,
                self._make.put("session", "session", None, ts, header, policy=header_only_policy(policy)),
            )

    def talk(self, conversation: ConversationId) -> int | None:
        """The row that names a conversation."""
        talk = self._talks.get(conversation)
        return self._closed.get(conversation) if talk is None else talk.n

    def forget(self, n: int) -> None:
        """Rows from this number on were never written: nothing may point to them."""
        if self._session is not None and self._session[2] >= n:
            self._session = None
        self._talks = {conversation: talk for conversation, talk in self._talks.items() if talk.n < n}
        self._closed = {conversation: talk for conversation, talk in self._closed.items() if talk < n}
        for talk in self._talks.values():
            talk.forget(n)

    def erased(self, conversation: ConversationId) -> None:
        """Bodies of a conversation, perhaps whole rows, are going: nothing later may point to what there was."""
        talk = self._talks.get(conversation)
        if talk is not None:
            self._talks[conversation] = talk.erased()

    def closed(self, conversation: ConversationId) -> None:
        """All but its row is forgotten: a session may have many thousand, one after the other."""
        talk = self._talks.pop(conversation, None)
        if talk is not None:
            self._closed[conversation] = talk.n

    def scope(self, event: Event, talk: ConversationRows | None, ts: float, policy: StoragePolicy) -> int:
        """The row with the ids of an event; 0 for those that any event of the session has."""
        key = (event.sub_id, event.task_id, event.trace_id, event.span_id)
        if talk is None:
            return 0 if key == (event.session_id, None, None, None) else self._new_scope(key, None, ts, policy)
        n = talk.scopes.get(key)
        if n is None:
            if key == (event.session_id, None, None, None):
                return 0
            n = self._new_scope(key, talk, ts, policy)
            talk.scopes[key] = n
            if len(talk.scopes) > _SCOPES:
                del talk.scopes[next(iter(talk.scopes))]
        return n

    def _new_scope(
        self, key: tuple[str | None, ...], talk: ConversationRows | None, ts: float, policy: StoragePolicy
    ) -> int:
        return self._make.put("scope", "scope", talk, ts, {"ids": pack_ids(*key)}, policy=header_only_policy(policy))

    def task_scope(self, task_id: TaskId, talk: ConversationRows, ts: float, policy: StoragePolicy) -> int:
        """A row with the id of a task."""
        for key, n in reversed(talk.scopes.items()):
            if key[1] == task_id:
                return n
        n = self._new_scope((None, task_id, None, None), talk, ts, policy)
        talk.scopes[(None, task_id, None, None)] = n
        return n

    def named(self, conversation: ConversationId, ts: float, policy: StoragePolicy) -> ConversationRows:
        """What is known of a conversation, which has a row from now on."""
        talk = self._talks.get(conversation)
        if talk is None:
            n = self._closed.pop(conversation, 0)
            talk = self._talks[conversation] = ConversationRows(n or self._make.n + 1)
            if not n:
                self._make.put(
                    "talk", "talk", talk, ts, {"id": pack_ids(conversation)}, policy=header_only_policy(policy)
                )
        return talk

    def name(
        self,
        key: tuple[Any, ...],
        spell: Callable[..., object] | None,
        talk: ConversationRows,
        ts: float,
        policy: StoragePolicy,
    ) -> int | None:
        """The row that holds these values, a new one if need be; None if they are no names."""
        n = talk.names.get(key)
        if n is None and is_plain(key):
            value = key if spell is None else spell(*key)
            n = talk.names[key] = self._make.put("name", "", talk, ts, {"is": value}, policy=header_only_policy(policy))
            if len(talk.names) > _NAMES:
                del talk.names[next(iter(talk.names))]
        return n


def header_only_policy(policy: StoragePolicy) -> StoragePolicy:
    """For rows that others point to: they have no text, and must not go when the texts expire."""
    return policy if isinstance(policy, NoStorage) else _HEADER
