"""Decodes a stored row, with what the rows before it said, to a record or an event."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol.events import EVENT_TYPES, ConversationClosed, Event, EventData
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import Summary, ToolOutput, Usage, UserMessage
from tertulia.protocol.records import (
    CanvasRecord,
    ForkRecord,
    ModelRequestRecord,
    NoteRecord,
    PlanRecord,
    QueuedInputRecord,
    RewriteRecord,
    SubmissionRecord,
    TermsRecord,
    ToolOutputRecord,
)
from tertulia.protocol.storage import storage_from_wire
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.rollout.format.codec import request_digest
from tertulia.rollout.format.earlier_rows import NO_TASK_IDS, EarlierRows, Prompt, unpack_ids
from tertulia.rollout.format.event_sources import source_fields, takes_text
from tertulia.rollout.format.headers import Layout, layout_of
from tertulia.rollout.format.item_rows import ItemHeader
from tertulia.rollout.format.record_lines import RecordLine, row_line
from tertulia.rollout.store import StoredRow

Json = dict[str, Any]


_item_header = msgspec.json.Decoder(ItemHeader).decode


class RecordDecoder:
    """Raises whatever decoding a wrong row raises."""

    def __init__(self, earlier: EarlierRows) -> None:
        self._earlier = earlier

    def line(self, row: StoredRow, header: Json, body: Json | None) -> RecordLine:
        """The record of a row; the row itself where its kind is not known here."""
        if row.kind == "agreed" and row.conversation not in self._earlier.conversations:
            self._earlier.meet(row.conversation, header["id"])
        conversation = self._earlier.conversations[row.conversation]
        missing = False
        match row.kind:
            case "agreed":
                record, missing = self._agreed(conversation, row, header)
            case "ended" | "queued":
                made, kind = (ToolOutputRecord, ToolOutput) if row.kind == "ended" else (QueuedInputRecord, UserMessage)
                record, missing = made(conversation, self._item(row, kind)), row.n in self._earlier.lost
            case "forked":
                shape = {"conversation_id": conversation, "source": header["from"], "items": header["items"]}
                record = msgspec.convert({**shape, "total": header.get("total", 0)}, ForkRecord)
            case "submitted" | "planned":
                record = _submission(conversation, row, header, body)
                missing = row.kind == "planned" and body is None and "empty" not in header
            case "rewritten":
                summary = self._item(row, Summary) if row.type else None
                missing = row.n in self._earlier.lost
                shape = {"conversation_id": conversation, **header, "summary": None}
                record = replace(msgspec.convert(shape, RewriteRecord), summary=summary)
            case "drawn":
                fields = {**(body or {}), "conversation_id": conversation, "revision": header["revision"]}
                record, missing = msgspec.convert(fields, CanvasRecord), body is None and "empty" not in header
            case "noted":
                fields = {**header, **(body or {}), "conversation_id": conversation, "name": row.type}
                record, missing = msgspec.convert(fields, NoteRecord), body is None and not header
            case "asked":
                record, missing = self._request(conversation, row, header, body or {})
                row = row if self._knows_sources(row) else replace(row, damaged=True)
            case _:
                return RecordLine(row.n, row.ts, None, raw=row)
        return row_line(row, record, missing)

    def note_prompt(self, row: StoredRow, header: Json, body: Json | None) -> None:
        """Learn the instructions and tools that requests refer to."""
        texts = body or {}
        instructions, tools = (header.get(name, texts.get(name, "")) for name in ("instructions", "tools"))
        listed = texts["list"].encode() if "list" in texts else texts.get("tools_json")
        shape = {"instructions": instructions, "tools": tools}
        raw = listed if isinstance(listed, bytes | None) else msgspec.convert(listed, bytes)
        self._earlier.prompts[row.conversation, row.n] = replace(msgspec.convert(shape, Prompt), tools_json=raw)

    def _item(self, row: StoredRow, kind: type[Any]) -> Any:
        item = self._earlier.item(row, _item_header(row.header))
        if not isinstance(item, kind):
            raise TypeError("another kind of item")
        return item

    def _agreed(self, conversation: ConversationId, row: StoredRow, header: Json) -> tuple[TermsRecord, bool]:
        storage = storage_from_wire(header["storage"])
        self._earlier.known.conversations[conversation].storage = storage
        terms = self._earlier.terms.pop((row.conversation, row.source), None)
        shape = {"rights": header["rights"], "place": header["place"], "terms": terms or {}}
        checked = msgspec.convert(shape, dict[str, Json])
        return TermsRecord(conversation, storage, **checked), terms is None and "empty" not in header

    def _request(
        self, conversation: ConversationId, row: StoredRow, header: Json, texts: Json
    ) -> tuple[ModelRequestRecord, bool]:
        prompt = self._earlier.prompts.get((row.conversation, row.source), Prompt())
        digest = header.get("prompt", texts.get("prompt"))
        fields: Json = {
            "conversation_id": conversation,
            "task_id": self._earlier.tasks.get(row.task, NO_TASK_IDS).task or "",
            "instructions": prompt.instructions,
            "tools": prompt.tools,
            "history": header.get("history", texts.get("history", "")),
            "items": header["items"],
            "prompt": digest or "",
            "tools_json": "",
            "override": texts.get("override"),
            "output_schema": texts.get("output_schema"),
            "summarises": header.get("of", ()),
            "model": header.get("model"),
        }
        request = replace(msgspec.convert(fields, ModelRequestRecord), tools_json=prompt.tools_json or b"")
        if digest is None:
            made = request_digest(request.instructions, request.tools, request.history, request.output_schema)
            request = replace(request, prompt=made)
        return request, prompt.tools_json is None

    def _knows_sources(self, row: StoredRow) -> bool:
        """Whether the rows that a request refers to were read: they may be damaged. Then it is told without them."""
        return row.task in self._earlier.tasks and (row.conversation, row.source) in self._earlier.prompts


def _submission(
    conversation: ConversationId, row: StoredRow, header: Json, body: Json | None
) -> SubmissionRecord | PlanRecord:
    ids = {"conversation_id": conversation, "task_id": header["task"], "trace_id": header["trace"]}
    if row.kind == "planned":
        return msgspec.convert({**ids, "step": row.type, "plan": body}, PlanRecord)
    message = header.get("message", (body or {}).get("message"))
    return msgspec.convert({**ids, "message": message}, SubmissionRecord)


class EventDecoder:
    """Raises whatever decoding a wrong row raises."""

    def __init__(self, earlier: EarlierRows) -> None:
        self._earlier = earlier
        self._stamp = Timestamps(SystemClock()).at

    def line(self, row: StoredRow, header: Json, body: Json | None) -> RecordLine:
        """The event of a row; the row itself where its type is not known here."""
        if "ids" in header:
            self._earlier.tasks[row.n] = unpack_ids(header["ids"])
        kind = EVENT_TYPES.get(row.type)
        if kind is None:
            return RecordLine(row.n, row.ts, None, raw=row)
        layout = layout_of(kind)
        is_whole = row.task in self._earlier.tasks
        fields = layout.blanks | layout.usual
        if layout.repeated:
            repeated = self._repeated(row, header, layout)
            is_whole = is_whole and (repeated is not None or body is not None)
            fields |= repeated or {}
        elif row.source:
            fields |= source_fields(kind, header, *self._earlier.source_of(row), row.source in self._earlier.lost)
        for name in (*layout.header, *layout.offered):
            if name in header:
                fields[name] = header[name]
        if isinstance(usage := fields.get("usage"), list):
            fields["usage"] = Usage(*msgspec.convert(usage, tuple[int, int, int, int, int]))
        fields |= body or {}
        missing = self._is_missing(row, header, body, layout)
        event = self._enveloped(row, msgspec.convert(fields, kind))
        if row.seq is not None:
            self._earlier.known.last_seq = row.seq
        if event.conversation_id is not None:
            self._note(event.data, event.conversation_id)
        # What it refers to may be damaged. Then the event is told all the same, without it.
        return row_line(row if is_whole else replace(row, damaged=True), event, missing)

    def _repeated(self, row: StoredRow, header: Json, layout: Layout) -> Json | None:
        """Fields that hardly change, from the header or from the row that it refers to."""
        if row.source:
            return self._earlier.repeated.get((row.conversation, row.source))
        if any(name not in header for name in layout.repeated):
            return None
        found = {name: header[name] for name in layout.repeated}
        self._earlier.repeated[row.conversation, row.n] = found
        return found

    def _note(self, data: EventData, conversation: ConversationId) -> None:
        if isinstance(data, ConversationClosed):
            self._earlier.known.conversations[conversation].closed = True
        elif isinstance(data, ToolCallEnd):
            self._earlier.known.conversations[conversation].answered.pop(data.call_id, None)

    def _is_missing(self, row: StoredRow, header: Json, body: Json | None, layout: Layout) -> bool:
        """Whether something is left open that neither the body nor a row referred to has said."""
        takes = row.source > 0 and takes_text(layout.kind, header)
        if takes:
            items = self._earlier.items.get(row.conversation, {})
            if row.source in self._earlier.lost or row.source not in items:
                return True
        if body is not None:
            return False
        unnamed = any(name not in header and name not in layout.defaults for name in layout.header)
        return unnamed or ("empty" not in header and not takes and len(layout.body) > (row.source > 0))

    def _enveloped(self, row: StoredRow, data: EventData) -> Event:
        known, ids = self._earlier.known, self._earlier.tasks.get(row.task, NO_TASK_IDS)
        if known.session_id is None:
            raise LookupError("an event before its session")
        task = None if ids.task is None else TaskId(ids.task)
        return Event(
            epoch=known.epoch,
            seq=row.seq,
            ts=self._stamp(round(row.ts * 1000) / 1000 + 0.0004),
            type=row.type,
            session_id=known.session_id,
            sub_id=ids.sub or known.session_id,
            conversation_id=self._earlier.conversations[row.conversation] if row.conversation else None,
            task_id=task,
            trace_id=ids.trace,
            span_id=ids.span,
            data=data,
        )
