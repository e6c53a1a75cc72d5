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
from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.earlier_rows import EarlierRows, unpack_ids
from tertulia.rollout.format.item_rows import ItemHeader
from tertulia.rollout.format.record_decoder import EventDecoder, RecordDecoder
from tertulia.rollout.format.record_lines import PartialSegment, RecordLine
from tertulia.rollout.format.record_state import RecordState
from tertulia.rollout.store import StoredRow

Json = dict[str, Any]
_decode = msgspec.json.Decoder(Json).decode
_decode_item = msgspec.json.Decoder(ItemHeader).decode
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
        self._earlier = EarlierRows(keep_items)
        self._events = EventDecoder(self._earlier)
        self._records = RecordDecoder(self._earlier)
        self._segment: PartialSegment | None = None

    @property
    def known(self) -> RecordState:
        """The state that a recorder needs to continue the record."""
        return self._earlier.known

    def lines(self, rows: Iterable[StoredRow]) -> Iterator[RecordLine]:
        """The lines of these rows. Rows that were appended together must be read together."""
        known = self._earlier.known
        for row in rows:
            if row.n <= known.last_n:
                continue
            known.last_n = row.n
            if row.damaged and not row.header:
                yield _damaged(row)
            elif row.kind == "said":
                yield from self._item_lines(row)
            else:
                yield from self._finish()
                if (line := self._line(row)) is not None:
                    yield line
        yield from self._finish()

    def _line(self, row: StoredRow) -> RecordLine | None:
        try:
            body = None if row.body is None else _decode(row.body)
            return self._decoded(row, _decode(row.header), body)
        except _BROKEN:
            return _damaged(row)

    def _decoded(self, row: StoredRow, header: Json, body: Json | None) -> RecordLine | None:
        earlier = self._earlier
        match row.kind:
            case "session":
                session, epoch = msgspec.convert((header["id"], header["epoch"]), tuple[str, int])
                self.known.session_id, self.known.epoch, self.known.last_seq = SessionId(session), epoch, 0
            case "conversation":
                earlier.meet(row.n, header["id"])
            case "task":
                earlier.tasks[row.n] = unpack_ids(header["ids"])
            case "terms":
                if body is not None:
                    earlier.terms[row.conversation, row.n] = body
            case "prompt":
                self._records.note_prompt(row, header, body)
            case "event":
                return self._events.line(row, header, body)
            case _:
                return self._records.line(row, header, body)
        return None

    def _item_lines(self, row: StoredRow) -> Iterable[RecordLine]:
        try:
            header = _decode_item(row.header)
        except _BROKEN:
            return (_damaged(row),)
        segment, before = self._segment, ()
        if segment is None and header.of == 1:
            return (self._single(row, header),)
        if segment is None or not segment.takes(row, header):
            before = self._finish()
            segment = self._segment = PartialSegment(row, header)
        segment.next = header.i + 1
        try:
            self._add(segment, row, header)
        except _BROKEN:
            segment.damaged.append(row.n)
        if row.damaged:
            segment.damaged.append(row.n)
        return (*before, *self._finish()) if segment.next >= segment.of else before

    def _single(self, row: StoredRow, header: ItemHeader) -> RecordLine:
        """A segment of one item, as nearly all are."""
        n, earlier = row.n, self._earlier
        try:
            item = earlier.item(row, header)
            missing = n in earlier.lost
            earlier.joined(row, item)
        except _BROKEN:
            return _damaged(row)
        record = ItemsRecord(earlier.conversations[row.conversation], (item,), header.pinned, header.seed)
        if missing or row.damaged:
            rows = (n,)
            return RecordLine(n, row.ts, record, rows if missing else (), (0,) if missing else (), rows * row.damaged)
        return RecordLine(n, row.ts, record)

    def _add(self, segment: PartialSegment, row: StoredRow, header: ItemHeader) -> None:
        if not row.type and segment.of == 0:
            return
        item = self._earlier.item(row, header)
        segment.items.append(item)
        if row.n in self._earlier.lost:
            segment.missing.append(row.n)
            segment.absent.append(len(segment.items) - 1)
        self._earlier.joined(row, item)

    def _finish(self) -> tuple[RecordLine, ...]:
        segment, self._segment = self._segment, None
        if segment is None:
            return ()
        return (segment.line(self._earlier.conversations.get(segment.first.conversation)),)


def _damaged(row: StoredRow) -> RecordLine:
    return RecordLine(row.n, row.ts, None, damaged=(row.n,))


def read_rows(rows: Iterable[StoredRow]) -> Iterator[RecordLine]:
    """The events and records of a session, oldest first. A `RowReader` can go on later, and tells what is known."""
    return RowReader().lines(rows)
