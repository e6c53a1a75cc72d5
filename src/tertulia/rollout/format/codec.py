"""Encodes events and records to rows. What is header and what is body is decided here, and nowhere else.

A conversation, the ids of a task and strings that repeat are each named once by a row of their own (`talk`, `scope`,
`name`); other rows point to it. Numbers are given out here and never used again, also when a write has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from tertulia.protocol.events import ConversationClosed, Event
from tertulia.protocol.items import Item, ToolCall, ToolOutput, Usage
from tertulia.protocol.records import (
    MCP_PINS,
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
from tertulia.protocol.storage import NoStorage, StoragePolicy, Ttl, storage_to_wire, strictest
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.rollout.format.conversation_rows import ConversationRows
from tertulia.rollout.format.headers import SKELETON, is_plain, layout_of
from tertulia.rollout.format.id_packing import pack_ids, request_digest
from tertulia.rollout.format.interning import Interner, header_only_policy
from tertulia.rollout.format.item_references import ENDS, ItemRef, reference_fields
from tertulia.rollout.format.item_rows import split_item, tag_of
from tertulia.rollout.format.record_state import RecordState
from tertulia.rollout.format.row_encoder import RowEncoder
from tertulia.rollout.store import Row, allows_body

Json = dict[str, Any]
_MEASURES = frozenset(("chars", "parts", "replaced", "tool"))
_skeleton = frozenset(SKELETON)


class Codec:
    """Makes rows, and remembers what they named. `redact` gets every encoded body before it is stored."""

    def __init__(self, redact: Callable[[bytes], bytes], known: RecordState | None = None) -> None:
        self._make = RowEncoder(redact, 0 if known is None else known.last_n)
        self.naming = Interner(self._make, known)
        self._moment: tuple[str, float] = ("", 0.0)

    @property
    def last_n(self) -> int:
        """The last number given out."""
        return self._make.n

    def event(self, event: Event, policy: StoragePolicy) -> Sequence[Row]:
        """The rows of an event; none where its policy stores nothing of it."""
        if isinstance(policy, NoStorage) and event.type not in _skeleton:
            return ()
        self._make.rows = []
        ts = self._parsed(event.ts)
        self.naming.session(event, ts, policy)
        conversation = None if event.conversation_id is None else self.naming.named(event.conversation_id, ts, policy)
        scope = self.naming.scope(event, conversation, ts, policy)
        header, body = self._split(event, conversation, ts, policy)
        self._make.put(
            "event", event.type, conversation, ts, header, body=body, policy=policy, seq=event.seq, scope=scope
        )
        if conversation is not None and isinstance(event.data, ENDS):
            conversation.recent.task_over()
        elif conversation is not None and isinstance(event.data, ToolCallEnd):
            conversation.recent.call_over(event.data.call_id)
        elif event.conversation_id is not None and isinstance(event.data, ConversationClosed):
            self.naming.closed(event.conversation_id)
        return self._make.rows

    def record(self, record: Record, policy: StoragePolicy, ts: float) -> Sequence[Row]:
        """The rows of a record; none where its policy stores nothing of it."""
        if isinstance(policy, NoStorage) and not isinstance(record, TermsRecord | SubmissionRecord):
            return ()
        self._make.rows = []
        conversation = self.naming.named(record.conversation_id, ts, policy)
        match record:
            case TermsRecord():
                self._agreed(record, conversation, ts, policy)
            case ItemsRecord():
                self._said(record, conversation, ts, policy)
            case ToolOutputRecord(_, item) | QueuedInputRecord(_, item):
                kind = "ended" if isinstance(record, ToolOutputRecord) else "queued"
                item_policy, header, body = self._item(item, conversation, policy)
                n = self._make.put(kind, tag_of(item), conversation, ts, header, body=body, policy=item_policy)
                conversation.recent.note_waiting(ItemRef(n, item_policy, item))
            case ModelRequestRecord():
                self._asked(record, conversation, ts, policy)
            case _:
                self._others(record, conversation, ts, policy)
        return self._make.rows

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────

    def _split(
        self, event: Event, conversation: ConversationRows | None, ts: float, policy: StoragePolicy
    ) -> tuple[Json, Json]:
        data, layout = event.data, layout_of(type(event.data))
        defaults = layout.defaults
        header: Json = {}
        body: Json = {}
        covered: tuple[str, ...] = ()
        if conversation is not None and not isinstance(policy, NoStorage):
            header, covered = reference_fields(data, conversation.recent, policy)
            header = dict(header)
        for name in layout.header:
            value = getattr(data, name)
            if type(value) is Usage:
                header[name] = msgspec.structs.astuple(value)
            elif name not in defaults or value != defaults[name]:
                (header if is_plain(value) else body)[name] = value
        for name in layout.offered:
            if name not in covered:
                value = getattr(data, name)
                (header if conversation is not None and conversation.offers(value) else body)[name] = value
        if layout.interned:
            values = tuple(getattr(data, name) for name in layout.interned)
            name = None if conversation is None else self.naming.name(values, None, conversation, ts, policy)
            if name is None:
                body |= dict(zip(layout.interned, values, strict=True))
            else:
                header["as"] = name
        rest = {name: getattr(data, name) for name in layout.body if name not in covered}
        if rest and not body and all(value == layout.blanks[name] for name, value in rest.items()):
            header["empty"] = True
            return header, {}
        return header, body | rest

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────────

    def _agreed(self, record: TermsRecord, conversation: ConversationRows, ts: float, policy: StoragePolicy) -> None:
        header: Json = {"storage": storage_to_wire(record.storage), "rights": record.rights, "place": record.place}
        # Repeated, in case the first row is damaged: without it nothing of the conversation could be read.
        header["id"] = pack_ids(record.conversation_id)
        if not record.terms:
            header["empty"] = True
        elif allows_body(policy):
            # A row of its own, before the other: sweeping the text away whole must leave what was agreed.
            header["terms"] = self._make.put("terms", "", conversation, ts, {}, body=record.terms, policy=policy)
        self._make.put("agreed", "agreed", conversation, ts, header, policy=header_only_policy(policy))

    def _said(self, record: ItemsRecord, conversation: ConversationRows, ts: float, policy: StoragePolicy) -> None:
        total = len(record.items)
        if total == 0:
            self._make.put("said", "", conversation, ts, _place(record, 0), policy=policy)
        for index, item in enumerate(record.items):
            item_policy, header, body = self._item(item, conversation, policy)
            ref = conversation.recent.waiting(item, item_policy)
            if ref is not None:
                header, body = {"same": ref.n}, {}
            header |= _place(record, index)
            n = self._make.put("said", tag_of(item), conversation, ts, header, body=body, policy=item_policy)
            conversation.recent.note_said(ItemRef(n, item_policy, item))

    def _item(
        self, item: Item, conversation: ConversationRows, policy: StoragePolicy
    ) -> tuple[StoragePolicy, Json, Json]:
        own = policy if item.storage is None else strictest(policy, item.storage)
        call = conversation.recent.calls.get(item.call_id) if isinstance(item, ToolOutput) else None
        offered = isinstance(item, ToolCall) and conversation.offers(item.name)
        header, body = split_item(item, offered=offered, call=None if call is None else call.n)
        if isinstance(own, NoStorage):
            # In a record that has a history a gap would part calls from outputs: that there was an item stays.
            header = {key: value for key, value in header.items() if key not in _MEASURES}
        return own, header, body

    def _asked(
        self, record: ModelRequestRecord, conversation: ConversationRows, ts: float, policy: StoragePolicy
    ) -> None:
        conversation.offered = record.tools_json
        header: Json = {"items": record.items}
        if record.summarises:
            header["of"] = record.summarises
        body: Json = {}
        made_of = (record.instructions, record.tools)
        name = self.naming.name(made_of, pack_ids, conversation, ts, policy)
        if name is None:
            body["as"] = made_of
        else:
            header["as"] = name
        digests = {"history": record.history, "prompt": record.prompt}
        if record.prompt == request_digest(record.instructions, record.tools, record.history, record.output_schema):
            del digests["prompt"]
        for name, digest in digests.items():
            packed = pack_ids(digest)
            (header if isinstance(packed, str) else body)[name] = packed
        if not _is_stored(record.tools, conversation, ts, policy):
            body["tools_json"] = record.tools_json
        for name in ("override", "output_schema"):
            if (text := getattr(record, name)) is not None:
                body[name] = text
        scope = self.naming.task_scope(record.task_id, conversation, ts, policy)
        lists = "tools_json" in body and allows_body(policy)
        n = self._make.put("asked", "", conversation, ts, header, body=_readable(body), policy=policy, scope=scope)
        if lists:
            conversation.tools[record.tools] = (n, ts)

    def _others(
        self,
        record: CanvasRecord | ForkRecord | NoteRecord | RewriteRecord | SubmissionRecord,
        conversation: ConversationRows,
        ts: float,
        policy: StoragePolicy,
    ) -> None:
        header: Json = {}
        body: Json = {}
        match record:
            case ForkRecord(_, source, items, total):
                header = {"source": pack_ids(source), "items": items, **({"total": total} if total else {})}
                self._make.put("forked", "", conversation, ts, header, policy=policy)
            case CanvasRecord():
                header = {"revision": record.revision, **({"empty": True} if record.html is None else {})}
                page = {name: getattr(record, name) for name in ("html", "title", "updated_at")}
                self._make.put(
                    "drawn", "", conversation, ts, header, body=page if record.html is not None else {}, policy=policy
                )
            case NoteRecord(_, name, value) if name == MCP_PINS and is_plain(value):
                # It must hold longer than the texts do.
                self._make.put("noted", name, conversation, ts, {"value": value}, policy=header_only_policy(policy))
            case NoteRecord(_, name, value):
                header, body = ({"empty": True}, {}) if value is None else ({}, {"value": value})
                self._make.put("noted", name, conversation, ts, header, body=body, policy=policy)
            case SubmissionRecord(_, task_id, trace_id, message):
                header["ids"] = pack_ids(task_id, trace_id)
                packed = None if message is None else pack_ids(message)
                if packed is not None:
                    # The key of a message id is a digest. What is none may be the client's own words.
                    (header if isinstance(packed, str) else body)["message"] = packed
                # With its text, which no key of ours is, it goes when texts do; a digest stays as long as the record.
                own = policy if body else header_only_policy(policy)
                self._make.put("submitted", "submitted", conversation, ts, header, body=body, policy=own)
            case _:
                own, summary = policy, record.summary
                if summary is not None:
                    own, header, body = self._item(summary, conversation, policy)
                header |= {"kept": record.kept, "end": record.end, "place": record.place, "total": record.total}
                self._make.put(
                    "rewritten", "summary" if summary else "", conversation, ts, header, body=body, policy=own
                )

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _parsed(self, ts: str) -> float:
        if ts != self._moment[0]:
            try:
                self._moment = (ts, datetime.fromisoformat(ts).timestamp())
            except ValueError:
                self._moment = (ts, 0.0)
        return self._moment[1]


def _is_stored(digest: str, conversation: ConversationRows, ts: float, policy: StoragePolicy) -> bool:
    stored = conversation.tools.get(digest)
    # Near its own end a list is written again: what asked for it later may stay longer.
    return stored is not None and not (isinstance(policy, Ttl) and ts - stored[1] > policy.seconds / 2)


def _place(record: ItemsRecord, index: int) -> Json:
    """Where in its segment an item stands."""
    place: Json = {}
    if index:
        place["i"] = index
    if len(record.items) != 1:
        place["of"] = len(record.items)
    if index == 0:
        place |= {name: True for name in ("pinned", "seed") if getattr(record, name)}
    return place


def _readable(body: Json) -> Json:
    """A tool list as text, as long as it is one."""
    tools = body.get("tools_json")
    if tools is not None:
        with suppress(UnicodeDecodeError):
            body["list"] = tools.decode()
            del body["tools_json"]
    return body
