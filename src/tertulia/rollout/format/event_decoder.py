"""From a row, and what the rows before it said, back to an event."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol.events import EVENT_TYPES, ConversationClosed, Event, EventData
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.protocol.usage import Usage
from tertulia.rollout.format.decode_context import NO_TASK_IDS, DecodeContext
from tertulia.rollout.format.headers import Layout, layout_of
from tertulia.rollout.format.item_references import resolve_references
from tertulia.rollout.format.record_lines import RecordLine, row_line
from tertulia.rollout.store import StoredRow

Json = dict[str, Any]


class EventDecoder:
    """Raises what taking apart a row that makes no sense raises."""

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
        said = header.get("said")
        if said is not None and (
            said in self._learned.lost or said not in self._learned.items.get(row.conversation, {})
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
