"""A store that keeps rows in a list and does what the test says, and everything that can be recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from tertulia.errors import StorageError
from tertulia.protocol.events import EVENT_TYPES, Event, EventData
from tertulia.protocol.ids import CallId, ConversationId, ItemId, SessionId, TaskId
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
)
from tertulia.protocol.records import (
    CanvasRecord,
    ForkRecord,
    ItemsRecord,
    ModelRequestRecord,
    NoteRecord,
    QueuedInputRecord,
    Record,
    RewriteRecord,
    SubmissionRecord,
    TermsRecord,
    ToolOutputRecord,
)
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.rollout.format.codec import Codec
from tertulia.rollout.store import OnDone, Row, StoredRow, SweepResult, TtlAction, allows_body

SESSION = SessionId("6f1c1d0e-7a55-4c3e-9b7e-2f6f0a1b2c3d")
A = ConversationId("0b6f5a3e-1111-4222-8333-444455556666")
B = ConversationId("0b6f5a3e-1111-4222-8333-777788889999")
TASK = TaskId("c3b1a9d2-0000-4000-8000-00000000000a")
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
TS = "2026-01-02T03:04:05.678Z"


def unredacted(body: bytes) -> bytes:
    """For tests that are not about secrets."""
    return body


def event(data: EventData, conversation: ConversationId | None = A, seq: int = 1, **envelope: Any) -> Event:
    """An event of a task of that conversation."""
    fields: dict[str, Any] = {
        "epoch": 0, "seq": seq, "ts": TS, "type": data.type, "session_id": SESSION, "sub_id": f"conv/{TASK}",
        "conversation_id": conversation, "task_id": TASK, "trace_id": TRACE, "span_id": SPAN, "data": data,
    }  # fmt: skip
    return Event(**fields | envelope)


def agreed(storage: StoragePolicy, conversation: ConversationId = A, **terms: Any) -> TermsRecord:
    """The terms of a conversation."""
    return TermsRecord(conversation, storage, {"approval": "never"}, {"depth": 0}, terms)


def user(text: str, id: str = "u1", **fields: Any) -> UserMessage:
    return UserMessage(ItemId(id), (TextPart(text),), **fields)


def assistant(text: str, id: str = "a1", **fields: Any) -> AssistantMessage:
    return AssistantMessage(ItemId(id), (TextPart(text),), **fields)


def call(arguments: str = '{"x":1}', id: str = "c1", name: str = "shell", **fields: Any) -> ToolCall:
    return ToolCall(ItemId(f"item-{id}"), CallId(id), name, arguments, **fields)


def output(text: str, id: str = "c1", **fields: Any) -> ToolOutput:
    return ToolOutput(ItemId(f"out-{id}"), CallId(id), (TextPart(text),), **fields)


def model_request(
    tools: bytes = b'[{"name":"shell"}]', task: TaskId = TASK, conversation: ConversationId = A
) -> ModelRequestRecord:
    digest = format(hash(tools) & (2**64 - 1), "064x")
    return ModelRequestRecord(conversation, task, "1" * 64, digest, "3" * 64, 4, "5" * 64, tools)


def as_stored(row: Row) -> StoredRow:
    """What a store gives back of a row that was neither erased nor damaged."""
    place = (row.n, row.kind, row.type, row.ts, row.seq, row.conversation, row.task)
    return StoredRow(*place, row.header, row.stored_body, source=row.source)


def written(*whats: Event | Record, policy: StoragePolicy | None = None, codec: Codec | None = None) -> list[Row]:
    """The rows of events and records under one policy."""
    codec = codec or Codec(unredacted)
    rows: list[Row] = []
    for what in whats:
        own = policy or Full()
        rows += codec.event(what, own) if isinstance(what, Event) else codec.record(what, own, 1.5)
    return rows


class ListStore:
    """Keeps the contract of `RolloutStore`. Calls are carried out when `work` says so, or at once."""

    place = "a list"

    def __init__(self, *, at_once: bool = True) -> None:
        self.rows: list[Row] = []
        self.log: list[str] = []
        self.at_once = at_once
        self.error: StorageError | None = None
        """With this every call fails."""
        self.closed = False
        self._attempt_failed = 0
        self._waiting: deque[tuple[int, Callable[[], None], OnDone]] = deque()

    def append(self, rows: Sequence[Row], attempt: int, done: OnDone) -> None:
        for row in rows:
            row.check()
        self._call(f"append {len(rows)}", attempt, lambda: self.rows.extend(rows), done)

    def enforce(
        self, conversation: int, policy: StoragePolicy, skeleton: Sequence[str], attempt: int, done: OnDone
    ) -> None:
        def act() -> None:
            self.rows = [
                stored for row in self.rows if (stored := _obeying(row, conversation, policy, skeleton)) is not None
            ]

        self._call(f"enforce {conversation}", attempt, act, done)

    def sweep(self, now: float, action: TtlAction, done: Callable[[SweepResult | StorageError], None]) -> None:
        raise NotImplementedError

    def close(self, done: OnDone) -> None:
        self.closed = True
        self._call("close", 2**60, lambda: None, done)

    def work(self, count: int | None = None) -> None:
        """Carry out the oldest calls, or all of them."""
        for _ in range(min(len(self._waiting), count or len(self._waiting))):
            attempt, act, done = self._waiting.popleft()
            if attempt <= self._attempt_failed:
                done(StorageError("an earlier write failed"))
            elif self.error is not None and attempt < 2**60:
                self._attempt_failed = attempt
                done(self.error)
            else:
                act()
                done(None)

    def _call(self, name: str, attempt: int, act: Callable[[], None], done: OnDone) -> None:
        self.log.append(name)
        self._waiting.append((attempt, act, done))
        if self.at_once:
            self.work()

    @property
    def stored(self) -> list[StoredRow]:
        return list(map(as_stored, self.rows))

    @property
    def bytes(self) -> bytes:
        """Everything that would be on the disk."""
        return b"\n".join(msgspec.json.encode(row) + b"\n" + row.header + (row.stored_body or b"") for row in self.rows)


def _obeying(row: Row, conversation: int, policy: StoragePolicy, skeleton: Sequence[str]) -> Row | None:
    if row.conversation != conversation:
        return row
    if isinstance(policy, NoStorage) and row.type not in skeleton:
        return None
    return row if allows_body(policy) else msgspec.structs.replace(row, body=None, policy=policy)


# ── everything that can be recorded ──────────────────────────────────────────────────────────────────────────

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", "a\u2028b\u0085c\x1e\x0b", '"\\\x00', "naïve 🙂", "~u", "]["]
)
ids = st.sampled_from(["0b6f5a3e-1111-4222-8333-444455556666", "b7ad6b7169203331", "row-1", "~h", "x"]) | texts
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, json, max_size=3)
own_policies = st.none() | st.just(Full())
parts = st.lists(st.builds(TextPart, texts) | st.builds(ImagePart, texts), max_size=3).map(tuple)
users = st.builds(UserMessage, ids, parts, sender=st.none() | texts, injected=st.booleans(), storage=own_policies)
kinds = st.sampled_from(["function", "custom"])
calls = st.builds(ToolCall, ids, ids, texts | st.just("shell"), texts, kind=kinds, storage=own_policies)
outputs = st.builds(ToolOutput, ids, ids, parts, success=st.booleans(), kind=kinds, storage=own_policies)
summaries = st.builds(Summary, ids, texts, st.integers(0, 9), storage=own_policies)
items: st.SearchStrategy[Item] = st.one_of(
    users,
    st.builds(AssistantMessage, ids, parts, storage=own_policies),
    st.builds(Reasoning, ids, texts, texts, st.none() | texts, storage=own_policies),
    calls,
    outputs,
    summaries,
)
conversations = st.sampled_from([A, B])
counts = st.integers(0, 2**40)
tasks = st.sampled_from([TASK, "another task"])
RECORDS: dict[str, st.SearchStrategy[Record]] = {
    "agreed": st.builds(TermsRecord, conversations, st.sampled_from([Full(), Ttl(5.0)]), objects, objects, objects),
    "forked": st.builds(ForkRecord, conversations, conversations, counts),
    "said": st.builds(ItemsRecord, conversations, st.lists(items, max_size=4).map(tuple), st.booleans(), st.booleans()),
    "ended": st.builds(ToolOutputRecord, conversations, outputs),
    "queued": st.builds(QueuedInputRecord, conversations, users),
    "rewritten": st.builds(
        RewriteRecord, conversations, st.lists(counts, max_size=3).map(tuple), counts, counts, st.none() | summaries
    ),
    "submitted": st.builds(SubmissionRecord, conversations, tasks, ids, st.none() | ids),
    "drawn": st.builds(CanvasRecord, conversations, counts)
    | st.builds(CanvasRecord, conversations, counts, texts, st.none() | texts, st.none() | texts),
    "noted": st.builds(NoteRecord, conversations, st.sampled_from(["bond", "other"]), st.none() | objects),
    "asked": st.builds(
        lambda tools, **fields: ModelRequestRecord(tools=tools[0], tools_json=tools[1], **fields),
        st.sampled_from([("0" * 64, b"[]"), ("~x", b'[{"name":"shell"}]'), ("a text", b"\xff\xfe")]),
        conversation_id=conversations, task_id=tasks, instructions=ids, history=ids, items=counts, prompt=ids,
        override=st.none() | texts, output_schema=st.none() | texts,
    ),
}  # fmt: skip
records = st.one_of(list(RECORDS.values()))


DURABLE = {name: kind for name, kind in EVENT_TYPES.items() if kind.durable}


def _fields(kind: type[EventData]) -> dict[str, st.SearchStrategy[Any]]:
    return {field.name: _values(field.type) for field in msgspec.structs.fields(kind)}


def _values(kind: Any) -> st.SearchStrategy[Any]:
    if kind is Any:
        return json
    if kind in (str, str | None):
        return texts if kind is str else st.none() | texts
    if kind == dict[str, Any]:
        return objects
    if kind == list[dict[str, Any]] | None:
        return st.none() | st.lists(objects, max_size=2)
    if kind is float:
        return st.floats(0, 1e6)
    supertype = getattr(kind, "__supertype__", None)
    return st.from_type(kind) if supertype is None else ids


moments = st.integers(0, 4_102_444_800_000).map(
    lambda ms: f"{_utc(ms // 1000)}.{ms % 1000:03d}Z",
)


def _utc(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def events_of(kind: type[EventData]) -> st.SearchStrategy[Event]:
    """Events of one type, in every envelope."""
    return st.builds(
        lambda data, **envelope: Event(type=kind.type, data=data, **envelope),
        st.builds(kind, **_fields(kind)),
        epoch=st.integers(0, 3),
        seq=st.none() | counts,
        ts=moments,
        session_id=st.sampled_from([SESSION, "the-session"]),
        sub_id=st.sampled_from([f"conv/{TASK}", "sub/b7ad6b7169203331", SESSION, "other", "sub/x"]),
        conversation_id=st.none() | conversations,
        task_id=st.none() | tasks,
        trace_id=st.none() | st.just(TRACE),
        span_id=st.none() | st.just(SPAN),
    )


events = st.sampled_from(sorted(DURABLE)).flatmap(lambda name: events_of(DURABLE[name]))
policies = st.sampled_from([Full(), Ttl(60.0), HeadersOnly(), NoStorage()])


def bodies(rows: Iterable[Row]) -> int:
    """How many rows have a text."""
    return sum(row.body is not None for row in rows)
