"""Reads rows back to events and records. A row may hold anything: nothing here trusts it.

Rows are data. A row that makes no sense is counted and skipped, whatever is in it; a reference is looked up among the
rows before it and never followed further, so there are no cycles; numbers that a row claims are never allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tertulia.errors import TertuliaError
from tertulia.protocol.ids import SessionId
from tertulia.rollout.format.decode_context import DecodeContext, TaskIds, int_in, text_in
from tertulia.rollout.format.id_packing import unpack_ids
from tertulia.rollout.format.item_rows import count
from tertulia.rollout.format.record_decoder import EventDecoder, RecordDecoder
from tertulia.rollout.format.record_lines import PartialSegment, RecordLine
from tertulia.rollout.format.record_state import RecordState
from tertulia.rollout.store import StoredRow

Json = dict[str, Any]
_decoder = msgspec.json.Decoder(Json)
_BROKEN = (
    msgspec.MsgspecError, TertuliaError,
    ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""All that decoding a wrong row may raise. A broad catch would hide our own faults."""


class RowReader:
    """Takes rows in order, gives lines, and collects the state of the record.

    With `keep_items` no more than so many items of a conversation are remembered, which bounds the memory; what points
    further back is told as damaged or without its text.
    """

    def __init__(self, keep_items: int | None = None) -> None:
        self._learned = DecodeContext(keep_items)
        self._events = EventDecoder(self._learned)
        self._records = RecordDecoder(self._learned)
        self._segment: PartialSegment | None = None

    @property
    def known(self) -> RecordState:
        """The state that a recorder needs to continue the record."""
        return self._learned.known

    def lines(self, rows: Iterable[StoredRow]) -> Iterator[RecordLine]:
        """All that the rows come to. What is appended in one go is read in one go: nothing is left half read."""
        for row in rows:
            yield from self._take(row)
        yield from self._finish()

    def _take(self, row: StoredRow) -> Iterator[RecordLine]:
        if row.n <= self.known.last_n:
            return
        self.known.last_n = row.n
        try:
            header = None if row.damaged and not row.header else _decoder.decode(row.header)
            body = None if row.body is None else _decoder.decode(row.body)
        except _BROKEN:
            header = body = None
        if header is None:
            yield RecordLine(row.n, row.ts, None, damaged=(row.n,))
            return
        if row.kind == "said":
            yield from self._said(row, header, body)
            return
        yield from self._finish()
        try:
            line = self._line(row, header, body)
        except _BROKEN:
            line = RecordLine(row.n, row.ts, None, damaged=(row.n,))
        if line is not None:
            yield line

    def _line(self, row: StoredRow, header: Json, body: Json | None) -> RecordLine | None:
        match row.kind:
            case "session":
                self.known.session_id = SessionId(text_in(header, "id"))
                self.known.epoch = int_in(header, "epoch")
                self.known.last_seq = 0
            case "talk":
                self._learned.meet(row.n, header)
            case "scope":
                self._learned.scopes[row.n] = TaskIds(*unpack_ids(header["ids"], 4))
            case "name":
                self._learned.names[row.n] = header["is"]
            case "terms":
                if body is not None:
                    self._learned.terms[row.n] = body
            case "event":
                return self._events.line(row, header, body)
            case _:
                return self._records.line(row, header, body)
        return None

    def _said(self, row: StoredRow, header: Json, body: Json | None) -> Iterator[RecordLine]:
        segment = self._segment
        if segment is None or not segment.takes(row, header):
            yield from self._finish()
            segment = self._segment = PartialSegment(row, header)
        segment.next = count(header, "i") + 1
        try:
            self._add(segment, row, header, body)
        except _BROKEN:
            segment.damaged.append(row.n)
        if row.damaged:
            segment.damaged.append(row.n)
        if segment.next >= segment.of:
            yield from self._finish()

    def _add(self, segment: PartialSegment, row: StoredRow, header: Json, body: Json | None) -> None:
        if not row.type and segment.of == 0:
            return
        learned = self._learned
        items = learned.items.setdefault(row.conversation, {})
        same = header.get("same")
        if same is None:
            item = learned.item(row, header, body)
        else:
            item = items[row.n] = items[same]
            if same in learned.lost:
                learned.lost[row.n] = None
        segment.items.append(item)
        if row.n in learned.lost:
            segment.missing.append(row.n)
            segment.absent.append(len(segment.items) - 1)
        learned.forget_oldest(row.conversation)
        learned.known.conversations[learned.conversations[row.conversation]].note(item, row.n)

    def _finish(self) -> Iterator[RecordLine]:
        segment, self._segment = self._segment, None
        if segment is not None:
            yield segment.line(self._learned.conversations.get(segment.first.conversation))


def read_rows(rows: Iterable[StoredRow]) -> Iterator[RecordLine]:
    """The events and records of a session, oldest first. A `RowReader` can go on later, and tells what is known."""
    return RowReader().lines(rows)
