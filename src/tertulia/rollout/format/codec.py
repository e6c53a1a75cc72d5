"""Encodes events and records to rows. Only this module decides what is header and what is body.

A conversation and the ids of a task have a row each, whose number stands in the columns of other rows. What an earlier
row has is not written again: the row refers to that one (`source`). Numbers are given out here and never used again,
also when a write has failed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tertulia.protocol.events import ConversationClosed, Event, EventData, TaskComplete, TaskStarted, TurnAborted
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item, ToolCall, ToolOutput, Usage
from tertulia.protocol.records import (
    MCP_PINS,
    CanvasRecord,
    ForkRecord,
    ItemsRecord,
    ModelRequestRecord,
    NoteRecord,
    PlanRecord,
    QueuedInputRecord,
    Record,
    RewriteRecord,
    SubmissionRecord,
    TermsRecord,
    ToolOutputRecord,
)
from tertulia.protocol.storage import HeadersOnly, NoStorage, StoragePolicy, storage_to_wire, strictest
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.rollout.format.event_sources import EventSource, find_source
from tertulia.rollout.format.headers import SKELETON, is_plain, layout_of
from tertulia.rollout.format.item_rows import ItemBody, ItemHeader, split_item, tag_of, without_measures
from tertulia.rollout.format.record_state import RecordState
from tertulia.rollout.format.written_rows import ConversationRows, ItemRef, RowEncoder, TaskKey, WrittenRows, pack_key
from tertulia.rollout.store import Row, allows_body

Json = dict[str, Any]
_skeleton = frozenset(SKELETON)
_NO_SOURCE = EventSource()
_STORED_ALWAYS = (TermsRecord, SubmissionRecord)
_HEADER = HeadersOnly()
_is_digest = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}").fullmatch


class Codec:
    """Makes rows, and remembers them. `redact` gets every encoded body before it is stored."""

    def __init__(self, redact: Callable[[bytes], bytes], known: RecordState | None = None) -> None:
        self._make = RowEncoder(redact, 0 if known is None else known.last_n)
        self.written = WrittenRows(known)
        self._moment: tuple[str, float] = ("", 0.0)

    @property
    def last_n(self) -> int:
        """The last number given out."""
        return self._make.n

    def event(self, event: Event, policy: StoragePolicy) -> Sequence[Row]:
        """The rows of an event; none where its policy forbids storing it."""
        if isinstance(policy, NoStorage) and event.type not in _skeleton:
            return ()
        self._make.rows = []
        ts = self._parsed(event.ts)
        self._session(event, ts, policy)
        rows = None if event.conversation_id is None else self._conversation(event.conversation_id, ts, policy)
        header, body, source = _split_event(event.data, rows, policy)
        task = self._task(event, rows, ts, policy, header)
        # Others refer to a row with fields that repeat: it must not go when the texts expire.
        repeated = _repeated_values(event.data) if rows is not None and not source and not body else ()
        own = _header_only(policy) if repeated else policy
        number = 0 if rows is None else rows.n
        n = self._make.put(
            "event", event.type, number, ts, header, body=body, policy=own, seq=event.seq, task=task, source=source
        )
        if rows is not None:
            if repeated:
                rows.repeated = (repeated, n)
            self._note(event, rows)
        return self._make.rows

    def record(self, record: Record, policy: StoragePolicy, ts: float) -> Sequence[Row]:
        """The rows of a record; none where its policy forbids storing it."""
        if isinstance(policy, NoStorage) and not isinstance(record, _STORED_ALWAYS):
            return ()
        self._make.rows = []
        rows = self._conversation(record.conversation_id, ts, policy)
        match record:
            case TermsRecord():
                self._terms(record, rows, ts, policy)
            case ItemsRecord():
                self._items(record, rows, ts, policy)
            case ToolOutputRecord(_, item) | QueuedInputRecord(_, item):
                kind = "ended" if isinstance(record, ToolOutputRecord) else "queued"
                own, header, body, source = self._item(item, rows, policy)
                n = self._make.put(kind, tag_of(item), rows.n, ts, header, body=body, policy=own, source=source)
                rows.will_join(ItemRef(n, own, item, source))
            case ModelRequestRecord():
                self._request(record, rows, ts, policy)
            case _:
                self._other_record(record, rows, ts, policy)
        return self._make.rows

    # ── ids ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _session(self, event: Event, ts: float, policy: StoragePolicy) -> None:
        if not self.written.is_session(event.session_id, event.epoch):
            header = {"id": event.session_id, "epoch": event.epoch}
            n = self._make.put("session", "session", 0, ts, header, policy=_header_only(policy))
            self.written.note_session(event.session_id, event.epoch, n)

    def _conversation(self, conversation: ConversationId, ts: float, policy: StoragePolicy) -> ConversationRows:
        """What is known of a conversation, whose id has a row from now on."""
        rows = self.written.find(conversation)
        if rows is None:
            rows = self.written.add(conversation, self._make.n + 1)
            own = _header_only(policy)
            self._make.put("conversation", "conversation", rows.n, ts, {"id": conversation}, policy=own)
        return rows

    def _task(self, event: Event, rows: ConversationRows | None, ts: float, policy: StoragePolicy, header: Json) -> int:
        """The row with the ids of an event, perhaps its own; 0 for those that any event of the session has."""
        key = (event.sub_id, event.task_id, event.trace_id, event.span_id)
        if key == (event.session_id, None, None, None):
            return 0
        if rows is not None and (known := rows.tasks.get(key)) is not None:
            return known
        if isinstance(event.data, TaskStarted):
            header["ids"], n = pack_key(key), self._make.n + 1
        else:
            n = self._task_row(key, 0 if rows is None else rows.n, ts, policy)
        if rows is not None:
            rows.note_task(key, n)
        return n

    def _task_row(self, key: TaskKey, conversation: int, ts: float, policy: StoragePolicy) -> int:
        """A row of its own for the ids of a task, where an event or request comes before its beginning."""
        n = self._make.n + 1
        return self._make.put(
            "task", "task", conversation, ts, {"ids": pack_key(key)}, policy=_header_only(policy), task=n
        )

    def _note(self, event: Event, rows: ConversationRows) -> None:
        match event.data:
            case TaskComplete() | TurnAborted():
                rows.task_ended()
            case ToolCallEnd():
                rows.call_ended(event.data.call_id)
            case ConversationClosed() if event.conversation_id is not None:
                self.written.close(event.conversation_id)
            case _:
                pass

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────────

    def _terms(self, record: TermsRecord, rows: ConversationRows, ts: float, policy: StoragePolicy) -> None:
        header: Json = {"storage": storage_to_wire(record.storage), "rights": record.rights, "place": record.place}
        # Repeated, in case the first row is damaged: without it nothing of the conversation could be read.
        header["id"] = record.conversation_id
        source = 0
        if not record.terms:
            header["empty"] = True
        elif allows_body(policy):
            # A row of its own, before the other: sweeping the text away whole must leave what was agreed.
            source = self._make.put("terms", "", rows.n, ts, {}, body=record.terms, policy=policy)
        self._make.put("agreed", "agreed", rows.n, ts, header, policy=_header_only(policy), source=source)

    def _items(self, record: ItemsRecord, rows: ConversationRows, ts: float, policy: StoragePolicy) -> None:
        total = len(record.items)
        if total == 0:
            header = ItemHeader(of=0, pinned=record.pinned, seed=record.seed)
            self._make.put("said", "", rows.n, ts, header, policy=policy)
        for index, item in enumerate(record.items):
            own, header, body, source = self._item(item, rows, policy)
            if (ref := rows.same(item, own)) is not None:
                header, body, source = ItemHeader(same=True), None, ref.n
            header.i, header.of = index, total
            if index == 0:
                header.pinned, header.seed = record.pinned, record.seed
            n = self._make.put("said", tag_of(item), rows.n, ts, header, body=body, policy=own, source=source)
            rows.joined(ItemRef(n, own, item))

    def _item(
        self, item: Item, rows: ConversationRows, policy: StoragePolicy
    ) -> tuple[StoragePolicy, ItemHeader, ItemBody | None, int]:
        """Policy, header, body and source of an item."""
        own = policy if item.storage is None else strictest(policy, item.storage)
        call = rows.calls.get(item.call_id) if isinstance(item, ToolOutput) else None
        offered = isinstance(item, ToolCall) and rows.offers(item.name)
        header, body = split_item(item, offered=offered, has_call=call is not None)
        if isinstance(own, NoStorage):
            # In a record that has a history a gap would part calls from outputs: that there was an item stays.
            header = without_measures(header)
        return own, header, body, 0 if call is None else call.n

    def _request(self, record: ModelRequestRecord, rows: ConversationRows, ts: float, policy: StoragePolicy) -> None:
        rows.offered = record.tools_json
        task = rows.task(record.task_id)
        if task is None:
            key = (None, record.task_id, None, None)
            task = self._task_row(key, rows.n, ts, policy)
            rows.note_task(key, task)
        source = rows.prompt((record.instructions, record.tools), policy, ts)
        if source is None:
            source = self._prompt(record, rows, ts, policy)
        header: Json = {"items": record.items}
        if record.summarises:
            header["of"] = record.summarises
        if record.model is not None:
            header["model"] = record.model
        body: Json = {}
        digests = {"history": record.history, "prompt": record.prompt}
        if record.prompt == request_digest(record.instructions, record.tools, record.history, record.output_schema):
            del digests["prompt"]
        _put_digests(digests, header, body)
        for name in ("override", "output_schema"):
            if (text := getattr(record, name)) is not None:
                body[name] = text
        self._make.put("asked", "", rows.n, ts, header, body=body, policy=policy, task=task, source=source)

    def _prompt(self, record: ModelRequestRecord, rows: ConversationRows, ts: float, policy: StoragePolicy) -> int:
        """A row for the instructions and the tools of a request, which hardly change within a conversation."""
        header: Json = {}
        try:
            body: Json = {"list": record.tools_json.decode()}
        except UnicodeDecodeError:
            body = {"tools_json": record.tools_json}
        _put_digests({"instructions": record.instructions, "tools": record.tools}, header, body)
        n = self._make.put("prompt", "", rows.n, ts, header, body=body, policy=policy)
        rows.note_prompt((record.instructions, record.tools), n, policy, ts)
        return n

    def _other_record(
        self,
        record: CanvasRecord | ForkRecord | NoteRecord | PlanRecord | RewriteRecord | SubmissionRecord,
        rows: ConversationRows,
        ts: float,
        policy: StoragePolicy,
    ) -> None:
        put, header, body = self._make.put, dict[str, Any](), dict[str, Any]()
        match record:
            case ForkRecord(_, origin, items, total):
                header = {"from": origin, "items": items, **({"total": total} if total else {})}
                put("forked", "", rows.n, ts, header, policy=policy)
            case CanvasRecord():
                header = {"revision": record.revision, **({"empty": True} if record.html is None else {})}
                page = {name: getattr(record, name) for name in ("html", "title", "updated_at")}
                put("drawn", "", rows.n, ts, header, body=page if record.html is not None else {}, policy=policy)
            case NoteRecord(_, name, value) if name == MCP_PINS and is_plain(value):
                # It must hold longer than the texts do.
                put("noted", name, rows.n, ts, {"value": value}, policy=_header_only(policy))
            case NoteRecord(_, name, value):
                header, body = ({"empty": True}, {}) if value is None else ({}, {"value": value})
                put("noted", name, rows.n, ts, header, body=body, policy=policy)
            case PlanRecord(_, step, task_id, trace_id, plan):
                header = {"task": task_id, "trace": trace_id, **({} if plan else {"empty": True})}
                put("planned", step, rows.n, ts, header, body=plan or {}, policy=policy)
            case SubmissionRecord(_, task_id, trace_id, message):
                header = {"task": task_id, "trace": trace_id}
                if message is not None:
                    # The key of a message id is a digest. What is none may be the client's own words.
                    _put_digests({"message": message}, header, body)
                # With its text, which no key of ours is, it goes when texts do; a digest stays as long as the record.
                own = policy if body else _header_only(policy)
                put("submitted", "submitted", rows.n, ts, header, body=body, policy=own)
            case _:
                self._rewrite(record, rows, ts, policy)

    def _rewrite(self, record: RewriteRecord, rows: ConversationRows, ts: float, policy: StoragePolicy) -> None:
        header: Json = {"kept": record.kept, "end": record.end, "place": record.place, "total": record.total}
        if record.shortened:
            header |= {"shortened": record.shortened, "shortened_to": record.shortened_to}
        own, body = policy, None
        if record.summary is not None:
            own, of_item, body, _ = self._item(record.summary, rows, policy)
            header |= msgspec.to_builtins(of_item)
        tag = "" if record.summary is None else "summary"
        self._make.put("rewritten", tag, rows.n, ts, header, body=body, policy=own)

    def _parsed(self, ts: str) -> float:
        if ts != self._moment[0]:
            try:
                self._moment = (ts, datetime.fromisoformat(ts).timestamp())
            except ValueError:
                self._moment = (ts, 0.0)
        return self._moment[1]


def _split_event(data: EventData, rows: ConversationRows | None, policy: StoragePolicy) -> tuple[Json, Json, int]:
    """Header, body and source of an event."""
    layout = layout_of(type(data))
    source = _NO_SOURCE
    if rows is not None and not isinstance(policy, NoStorage):
        source = find_source(data, rows, policy)
    n, header, body = source.n, dict(source.header), dict[str, Any]()
    for name in layout.header:
        value = getattr(data, name)
        if type(value) is Usage:
            header[name] = msgspec.structs.astuple(value)
        elif name not in layout.defaults or value != layout.defaults[name]:
            (header if is_plain(value) else body)[name] = value
    for name in layout.offered:
        if name not in source.covers:
            value = getattr(data, name)
            (header if rows is not None and rows.offers(value) else body)[name] = value
    if repeated := _repeated_values(data):
        if rows is not None and rows.repeated is not None and rows.repeated[0] == repeated:
            n = rows.repeated[1]
        else:
            (header if is_plain(repeated) else body).update(zip(layout.repeated, repeated, strict=True))
    rest = {name: getattr(data, name) for name in layout.body if name not in source.covers}
    if rest and not body and all(value == layout.blanks[name] for name, value in rest.items()):
        header["empty"] = True
        return header, {}, n
    return header, body | rest, n


def _repeated_values(data: EventData) -> tuple[Any, ...]:
    return tuple(getattr(data, name) for name in layout_of(type(data)).repeated)


def _put_digests(digests: dict[str, str], header: Json, body: Json) -> None:
    """Put digests into the header; a value that is no digest may be a text, and goes into the body."""
    for name, digest in digests.items():
        (header if _is_digest(digest) else body)[name] = digest


def _header_only(policy: StoragePolicy) -> StoragePolicy:
    """For rows that others refer to: they have no text, and must not go when the texts expire."""
    return policy if isinstance(policy, NoStorage) else _HEADER


def request_digest(instructions: str, tools: str, history: str, output_schema: str | None) -> str:
    """The digest of a whole request, made of those of its parts. One that is made like this need not be written."""
    schema = "" if output_schema is None else hashlib.sha256(output_schema.encode("utf-8", "replace")).hexdigest()
    return hashlib.sha256("\n".join((instructions, tools, history, schema)).encode("utf-8", "replace")).hexdigest()
