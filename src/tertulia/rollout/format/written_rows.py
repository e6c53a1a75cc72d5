"""Numbers and encodes rows, and remembers those that later rows may refer to by number.

A body is redacted here, before it can be stored, or left out by its policy. What is remembered is bounded: what was
dropped is written again.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from tertulia.protocol.ids import CallId, ConversationId, ItemId, TaskId
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.records import has_long_text
from tertulia.protocol.storage import HeadersOnly, StoragePolicy, Ttl
from tertulia.rollout.format.headers import is_plain
from tertulia.rollout.format.record_state import RecordState
from tertulia.rollout.store import LongBody, Row, allows_body

_ITEMS = 256
_TASKS = 8
_PROMPTS = 16
_SPOKEN = (AssistantMessage, Reasoning)
TaskKey = tuple[str | None, ...]
"""Submission, task, trace and span."""
_OWN_KEY = re.compile(
    r"sub/([0-9a-f]{16}) ([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})"
    r" ([0-9a-f]{32}) ([0-9a-f]{16})"
).fullmatch
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
Fields = dict[str, Any] | msgspec.Struct
_encode = msgspec.json.Encoder().encode
_LONG = 64 * 1024
"""Bytes from which on a body is redacted by the thread that stores it, and characters of a text in it from which on it
is encoded there as well: a text that was made for it takes 0.2 µs a byte."""


def pack_key(key: TaskKey) -> str | TaskKey:
    """Ids that we made, as one text of half the length; others as they are."""
    own = _OWN_KEY(" ".join(map(str, key)))
    return key if own is None else b64encode(bytes.fromhex("".join(own.groups()))).decode()


class RowEncoder:
    """Makes the rows of one event or record after the other."""

    __slots__ = ("_redact", "n", "rows")

    def __init__(self, redact: Callable[[bytes], bytes], n: int) -> None:
        self._redact = redact
        self.n = n
        """The last number given out; never used again, also when a write has failed."""
        self.rows: list[Row] = []

    def put(
        self, kind: str, type: str, conversation: int, ts: float, header: Fields, *, policy: StoragePolicy,
        body: Fields | None = None, seq: int | None = None, task: int = 0, source: int = 0,
    ) -> int:  # fmt: skip
        """Add a row; its number."""
        self.n += 1
        written = self._body(body) if body and allows_body(policy) else None
        row = Row(self.n, kind, type, ts, seq, conversation, task, _header(header), written, policy, source)
        self.rows.append(row)
        return self.n

    def _body(self, body: Fields) -> bytes | LongBody | None:
        try:
            if has_long_text(body, _LONG):
                # Without the objects of its owner, who may change them before it is stored.
                return LongBody(msgspec.to_builtins(body), self._encoded)
            encoded = _encode(body)
            return LongBody(encoded, self._redacted) if len(encoded) > _LONG else self._redacted(encoded)
        except (TypeError, ValueError, RecursionError):
            # What is no JSON, or broken Unicode, could not be sent to a client either. That it happened is recorded.
            return None

    def _encoded(self, body: Any) -> bytes | None:
        # Imported here: most bodies are short.
        from tertulia.protocol.json_steps import encode_long

        try:
            return self._redact(encode_long(body))
        except (TypeError, ValueError, RecursionError):
            return None

    def _redacted(self, encoded: bytes) -> bytes | None:
        try:
            return self._redact(encoded)
        except (TypeError, ValueError, RecursionError):
            return None


def _header(header: Fields) -> bytes:
    try:
        return _encode(header)
    except (TypeError, ValueError, RecursionError):
        return b"{}"


class ItemRef(msgspec.Struct, frozen=True, gc=False):
    """An item and the row that has it."""

    n: int
    policy: StoragePolicy
    item: Item
    source: int = 0
    """Of an output the row of its call."""


class _Prompt(msgspec.Struct, frozen=True, gc=False):
    n: int
    policy: StoragePolicy
    ts: float


class ConversationRows:
    """The rows of one conversation."""

    __slots__ = (
        *("_prompts", "answer", "answered", "calls", "last_input", "n", "offered", "outputs", "repeated", "spoken"),
        *("tasks", "waiting"),
    )

    def __init__(self, n: int) -> None:
        self.n = n
        """The row that has its id."""
        self.tasks: dict[TaskKey, int] = {}
        self.repeated: tuple[tuple[Any, ...], int] | None = None
        """The last values of fields that hardly change, and the row that has them."""
        self._prompts: dict[tuple[str, str], _Prompt] = {}
        """By the digests of instructions and tools."""
        self.offered = b""
        """The tools of the last request."""
        self.spoken: dict[ItemId, ItemRef] = {}
        """What the model said in the task that runs."""
        self.answer: ItemRef | None = None
        """The last of its messages."""
        self.last_input: ItemRef | None = None
        """The last input of the task that runs."""
        self.calls: dict[CallId, ItemRef] = {}
        """Calls without an output in the history."""
        self.answered: dict[CallId, ItemRef] = {}
        """Calls with one, of whose end no event was written."""
        self.outputs: dict[CallId, ItemRef] = {}
        """The last output of each call, while it waits to join the history."""
        self.waiting: dict[ItemId, ItemRef] = {}
        """Items that have a row and will join the history later."""

    def offers(self, name: str) -> bool:
        """Whether it is the name of a tool that the model was offered, and not a text of the model."""
        return bool(name) and is_plain(name) and b'"' + name.encode() + b'"' in self.offered

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────────

    def joined(self, ref: ItemRef) -> None:
        """An item joined the history."""
        item = ref.item
        self.waiting.pop(item.id, None)
        if isinstance(item, UserMessage):
            self.last_input = ref
        elif isinstance(item, _SPOKEN):
            _keep(self.spoken, item.id, ref, _ITEMS)
            if isinstance(item, AssistantMessage):
                self.answer = ref
        elif isinstance(item, ToolCall):
            _keep(self.calls, item.call_id, ref, _ITEMS)
            # An id may be used again: events are of the call that was made last.
            self.answered.pop(item.call_id, None)
        elif isinstance(item, ToolOutput):
            self.outputs.pop(item.call_id, None)
            if (call := self.calls.pop(item.call_id, None)) is not None:
                _keep(self.answered, item.call_id, call, _ITEMS)

    def will_join(self, ref: ItemRef) -> None:
        """An item was recorded that joins the history later."""
        _keep(self.waiting, ref.item.id, ref, _ITEMS)
        if isinstance(ref.item, ToolOutput):
            _keep(self.outputs, ref.item.call_id, ref, _ITEMS)

    def same(self, item: Item, policy: StoragePolicy) -> ItemRef | None:
        """The row that has this very item already."""
        ref = self.waiting.get(item.id)
        return ref if ref is not None and ref.policy == policy and ref.item == item else None

    def call(self, call_id: CallId) -> ItemRef | None:
        """The call of that id, as long as its end was not written."""
        return self.calls.get(call_id) or self.answered.get(call_id)

    def call_ended(self, call_id: CallId) -> None:
        """The end of a call was written."""
        self.answered.pop(call_id, None)

    def task_ended(self) -> None:
        """Forget the items of a task that has ended: no row will refer to them."""
        self.spoken.clear()
        self.answer = self.last_input = None

    # ── tasks and prompts ────────────────────────────────────────────────────────────────────────────────────

    def note_task(self, key: TaskKey, n: int) -> None:
        """The ids of a task have a row."""
        _keep(self.tasks, key, n, _TASKS)

    def task(self, task_id: TaskId) -> int | None:
        """A row with the id of a task."""
        return next((n for key, n in reversed(self.tasks.items()) if key[1] == task_id), None)

    def note_prompt(self, digests: tuple[str, str], n: int, policy: StoragePolicy, ts: float) -> None:
        """Instructions and tools have a row."""
        _keep(self._prompts, digests, _Prompt(n, policy, ts), _PROMPTS)

    def prompt(self, digests: tuple[str, str], policy: StoragePolicy, ts: float) -> int | None:
        """The row that has them, and their text as long as the policy wants it."""
        prompt = self._prompts.get(digests)
        if prompt is None or (prompt.policy != policy and allows_body(policy)):
            return None
        # A list that expires soon is written again: a later request that uses it may be stored longer.
        old = isinstance(policy, Ttl) and ts - prompt.ts > policy.seconds / 2
        return None if old else prompt.n

    # ── failures and erasures ────────────────────────────────────────────────────────────────────────────────

    def erased(self) -> ConversationRows:
        """What is left when texts, perhaps whole rows, are gone. Calls still find their outputs by their rows."""
        left = ConversationRows(self.n)
        left.offered, left.tasks = self.offered, self.tasks
        left.calls = bare_calls({call_id: ref.n for call_id, ref in self.calls.items()})
        left.answered = bare_calls({call_id: ref.n for call_id, ref in self.answered.items()})
        return left

    def forget(self, n: int) -> None:
        """Rows from this number on were never written."""
        self.tasks = {key: row for key, row in self.tasks.items() if row < n}
        self._prompts = {key: prompt for key, prompt in self._prompts.items() if prompt.n < n}
        self.spoken, self.waiting = _before(self.spoken, n), _before(self.waiting, n)
        self.calls, self.answered, self.outputs = (
            _before(refs, n) for refs in (self.calls, self.answered, self.outputs)
        )
        if self.repeated is not None and self.repeated[1] >= n:
            self.repeated = None
        self.answer, self.last_input = (
            None if ref is None or ref.n >= n else ref for ref in (self.answer, self.last_input)
        )  # fmt: skip


class WrittenRows:
    """The rows of a session that have ids, and those of its conversations."""

    def __init__(self, known: RecordState | None) -> None:
        self._session: tuple[str, int, int] | None = None
        self._open: dict[ConversationId, ConversationRows] = {}
        self._closed: dict[ConversationId, int] = {}
        """The rows of closed conversations, of which hardly any more events come."""
        for conversation, former in (RecordState() if known is None else known).conversations.items():
            if former.closed:
                self._closed[conversation] = former.n
                continue
            rows = self._open[conversation] = ConversationRows(former.n)
            rows.calls, rows.answered = bare_calls(former.calls), bare_calls(former.answered)

    def is_session(self, session_id: str, epoch: int) -> bool:
        """Whether the last row of a session has this id and epoch."""
        return self._session is not None and self._session[:2] == (session_id, epoch)

    def note_session(self, session_id: str, epoch: int, n: int) -> None:
        """A session and its epoch have a row."""
        self._session = (session_id, epoch, n)

    def number(self, conversation: ConversationId) -> int | None:
        """The row that has the id of a conversation."""
        rows = self._open.get(conversation)
        return self._closed.get(conversation) if rows is None else rows.n

    def find(self, conversation: ConversationId) -> ConversationRows | None:
        """The rows of a conversation; None where its id has no row yet."""
        rows = self._open.get(conversation)
        if rows is None and (n := self._closed.pop(conversation, None)) is not None:
            rows = self.add(conversation, n)
        return rows

    def add(self, conversation: ConversationId, n: int) -> ConversationRows:
        """The id of a conversation has this row."""
        rows = self._open[conversation] = ConversationRows(n)
        return rows

    def close(self, conversation: ConversationId) -> None:
        """Forget all but its row: a session may have many thousand conversations, one after the other."""
        rows = self._open.pop(conversation, None)
        if rows is not None:
            self._closed[conversation] = rows.n

    def erased(self, conversation: ConversationId) -> None:
        """Bodies of a conversation, perhaps whole rows, are being erased: later rows must not refer to them."""
        rows = self._open.get(conversation)
        if rows is not None:
            self._open[conversation] = rows.erased()

    def forget(self, n: int) -> None:
        """Rows from this number on were never written: no row may refer to them."""
        if self._session is not None and self._session[2] >= n:
            self._session = None
        self._open = {conversation: rows for conversation, rows in self._open.items() if rows.n < n}
        self._closed = {conversation: row for conversation, row in self._closed.items() if row < n}
        for rows in self._open.values():
            rows.forget(n)


def bare_calls(rows: Mapping[CallId, int]) -> dict[CallId, ItemRef]:
    """Calls of which only the row is known."""
    return {call_id: ItemRef(n, HeadersOnly(), ToolCall(ItemId(""), call_id, "", "")) for call_id, n in rows.items()}


def _keep(newest: dict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    newest[key] = value
    if len(newest) > most:
        del newest[next(iter(newest))]


def _before(refs: dict[_Key, ItemRef], n: int) -> dict[_Key, ItemRef]:
    return {key: ref for key, ref in refs.items() if ref.n < n}
