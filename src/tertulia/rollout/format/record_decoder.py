"""Decodes a stored row, with what the rows before it said, to a record or an event."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol.events import EVENT_TYPES, ConversationClosed, Event, EventData
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import Item, Summary, ToolOutput, Usage, UserMessage
from tertulia.protocol.records import (
    CanvasRecord,
    ForkRecord,
    ModelRequestRecord,
    NoteRecord,
    QueuedInputRecord,
    RewriteRecord,
    SubmissionRecord,
    TermsRecord,
    ToolOutputRecord,
)
from tertulia.protocol.storage import storage_from_wire
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.rollout.format.decode_context import NO_TASK_IDS, DecodeContext, int_in, text_in
from tertulia.rollout.format.headers import Layout, layout_of
from tertulia.rollout.format.id_packing import request_digest, unpack_ids
from tertulia.rollout.format.item_references import resolve_references
from tertulia.rollout.format.record_lines import RecordLine, row_line
from tertulia.rollout.store import StoredRow

Json = dict[str, Any]


class RecordDecoder:
    """Raises whatever decoding a wrong row raises."""

    def __init__(self, learned: DecodeContext) -> None:
        self._learned = learned

    def line(self, row: StoredRow, header: Json, body: Json | None) -> RecordLine:
        """The record of a row; the row itself where its kind is not known here."""
        if row.kind == "agreed" and row.conversation not in self._learned.conversations:
            self._learned.meet(row.conversation, header)
        conversation = self._learned.conversations[row.conversation]
        missing = False
        match row.kind:
            case "agreed":
                record, missing = self._agreed(conversation, header)
            case "ended" | "queued":
                made, kind = (ToolOutputRecord, ToolOutput) if row.kind == "ended" else (QueuedInputRecord, UserMessage)
                record = made(conversation, _of(self._learned.item(row, header, body), kind))
                missing = row.n in self._learned.lost
            case "forked":
                source = ConversationId(text_in(header, "source"))
                total = int_in(header, "total") if "total" in header else 0
                record = ForkRecord(conversation, source, int_in(header, "items"), total)
            case "submitted":
                task, trace = unpack_ids(header["ids"], 2)
                (message,) = unpack_ids(header.get("message", (body or {}).get("message", (None,))), 1)
                fields = {"conversation_id": conversation, "task_id": task, "trace_id": trace, "message": message}
                record = msgspec.convert(fields, SubmissionRecord)
            case "rewritten":
                summary = _of(self._learned.item(row, header, body), Summary) if row.type else None
                missing = row.n in self._learned.lost
                shape = {"conversation_id": conversation, **header, "summary": None}
                record = replace(msgspec.convert(shape, RewriteRecord), summary=summary)
            case "drawn":
                fields = {**(body or {}), "conversation_id": conversation, "revision": header["revision"]}
                record, missing = msgspec.convert(fields, CanvasRecord), body is None and "empty" not in header
            case "noted":
                fields = {**header, **(body or {}), "conversation_id": conversation, "name": row.type}
                record, missing = msgspec.convert(fields, NoteRecord), body is None and not header
            case "asked":
                record, missing = self._asked(conversation, row, header, body)
            case _:
                return RecordLine(row.n, row.ts, None, raw=row)
        return row_line(row, record, missing)

    def _agreed(self, conversation: ConversationId, header: Json) -> tuple[TermsRecord, bool]:
        storage = storage_from_wire(header["storage"])
        self._learned.known.conversations[conversation].storage = storage
        terms = self._learned.terms.pop(int_in(header, "terms"), None) if "terms" in header else None
        shape = {"rights": header["rights"], "place": header["place"], "terms": terms or {}}
        checked = msgspec.convert(shape, dict[str, Json])
        return TermsRecord(conversation, storage, **checked), terms is None and "empty" not in header

    def _asked(
        self, conversation: ConversationId, row: StoredRow, header: Json, body: Json | None
    ) -> tuple[ModelRequestRecord, bool]:
        texts = body or {}
        named = self._learned.names[header["as"]] if "as" in header else texts.get("as", ("", ""))
        instructions, tools = unpack_ids(named, 2)
        (history,) = unpack_ids(header.get("history", texts.get("history", ("",))), 1)
        packed, schema = header.get("prompt", texts.get("prompt")), texts.get("output_schema")
        fields: Json = {
            "conversation_id": conversation,
            "task_id": self._learned.scopes[row.scope].task,
            "instructions": instructions,
            "tools": tools,
            "history": history,
            "items": header["items"],
            "prompt": unpack_ids(packed, 1)[0] if packed else "",
            "tools_json": "",
            "override": texts.get("override"),
            "output_schema": schema,
            "summarises": header.get("of", ()),
        }
        request = msgspec.convert(fields, ModelRequestRecord)
        if not packed:
            digest = request_digest(request.instructions, request.tools, request.history, schema)
            request = replace(request, prompt=digest)
        listed = self._tool_list(request, row, texts)
        return replace(request, tools_json=listed or b""), listed is None

    def _tool_list(self, request: ModelRequestRecord, row: StoredRow, texts: Json) -> bytes | None:
        """Written with the first request that had it."""
        key = (row.conversation, request.tools)
        if "list" in texts or "tools_json" in texts:
            raw = texts["list"].encode() if "list" in texts else msgspec.convert(texts["tools_json"], bytes)
            self._learned.lists[key] = raw
            self._learned.known.conversations[request.conversation_id].tools[request.tools] = (row.n, row.ts)
        return self._learned.lists.get(key)


def _of(item: Item, kind: type[Any]) -> Any:
    if not isinstance(item, kind):
        raise TypeError("another kind of item")
    return cast(Any, item)


class EventDecoder:
    """Raises whatever decoding a wrong row raises."""

    def __init__(self, learned: DecodeContext) -> None:
        self._learned = learned
        self._stamp = Timestamps(SystemClock()).at

    def line(self, row: StoredRow, header: Json, body: Json | None) -> RecordLine:
        """The event of a row; the row itself where its type is not known here."""
        kind = EVENT_TYPES.get(row.type)
        if kind is None:
            return RecordLine(row.n, row.ts, None, raw=row)
        layout = layout_of(kind)
        fields = layout.blanks | layout.usual
        fields |= resolve_references(kind, header, self._learned.items.get(row.conversation, {}), self._learned.lost)
        if layout.interned and "as" in header:
            fields |= zip(layout.interned, self._learned.names.get(header["as"], ()), strict=False)
        for name in (*layout.header, *layout.offered):
            if name in header:
                fields[name] = header[name]
        if isinstance(usage := fields.get("usage"), list):
            fields["usage"] = Usage(*msgspec.convert(usage, tuple[int, int, int, int, int]))
        fields |= body or {}
        missing = self._is_missing(row, header, body, layout)
        event = self._enveloped(row, msgspec.convert(fields, kind))
        if row.seq is not None:
            self._learned.known.last_seq = row.seq
        if event.conversation_id is not None:
            self._note(event.data, event.conversation_id)
        # What it points to may be damaged. Then the event is told all the same, without it.
        whole = row.scope in self._learned.scopes and ("as" not in header or header["as"] in self._learned.names)
        return row_line(row if whole else replace(row, damaged=True), event, missing)

    def _note(self, data: EventData, conversation: ConversationId) -> None:
        if isinstance(data, ConversationClosed):
            self._learned.known.conversations[conversation].closed = True
        elif isinstance(data, ToolCallEnd):
            self._learned.known.conversations[conversation].answered.pop(data.call_id, None)

    def _is_missing(self, row: StoredRow, header: Json, body: Json | None, layout: Layout) -> bool:
        """Whether something is left open that neither the body nor a row referred to has said."""
        source = header.get("said")
        if source is not None and (
            source in self._learned.lost or source not in self._learned.items.get(row.conversation, {})
        ):
            return True
        if body is not None:
            return False
        covered = ("said" in header) * 2 + ("call" in header)
        unnamed = any(name not in header and name not in layout.defaults for name in layout.header)
        return unnamed or ("empty" not in header and len(layout.body) > covered)

    def _enveloped(self, row: StoredRow, data: EventData) -> Event:
        known, scope = self._learned.known, self._learned.scopes.get(row.scope, NO_TASK_IDS)
        if known.session_id is None:
            raise LookupError("an event before its session")
        task = None if scope.task is None else TaskId(scope.task)
        return Event(
            epoch=known.epoch,
            seq=row.seq,
            ts=self._stamp(round(row.ts * 1000) / 1000 + 0.0004),
            type=row.type,
            session_id=known.session_id,
            sub_id=scope.sub or known.session_id,
            conversation_id=self._learned.conversations[row.conversation] if row.conversation else None,
            task_id=task,
            trace_id=scope.trace,
            span_id=scope.span,
            data=data,
        )
