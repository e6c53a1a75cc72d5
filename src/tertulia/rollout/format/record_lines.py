"""The lines that reading a record gives: one for each event and record."""

from __future__ import annotations

import msgspec

from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item
from tertulia.protocol.records import ItemsRecord, Record
from tertulia.rollout.format.item_rows import ItemHeader
from tertulia.rollout.store import StoredRow


class RecordLine(msgspec.Struct, frozen=True, gc=False):
    """One event or record as it is now, with a list of what was never stored, has expired or cannot be read."""

    n: int
    """The number of its first row."""
    ts: float
    what: Event | Record | None
    """None for what cannot be made sense of: damaged, or of a kind or type that is not known here."""
    missing: tuple[int, ...] = ()
    """Rows of it whose text is not there. Placeholders stand for items, empty values for the fields of events."""
    absent: tuple[int, ...] = ()
    """Which items of an `ItemsRecord` are placeholders, by their place in it."""
    damaged: tuple[int, ...] = ()
    """Rows of it that cannot be trusted, wholly or their text."""
    raw: StoredRow | None = None
    """The row of an unknown kind or type."""


class PartialSegment:
    """An `ItemsRecord` of which not all rows have come."""

    __slots__ = ("absent", "damaged", "first", "header", "items", "missing", "next", "of")

    def __init__(self, first: StoredRow, header: ItemHeader) -> None:
        self.first = first
        self.header = header
        self.of = header.of
        self.next = header.i
        self.items: list[Item] = []
        self.missing: list[int] = []
        self.absent: list[int] = []
        self.damaged: list[int] = []

    def takes(self, row: StoredRow, header: ItemHeader) -> bool:
        """Whether a row belongs to it: some in between may be gone, or damaged."""
        return row.conversation == self.first.conversation and header.of == self.of and header.i >= self.next > 0

    def line(self, conversation: ConversationId | None) -> RecordLine:
        """What there is of it."""
        row, missing, damaged = self.first, tuple(self.missing), tuple(self.damaged)
        if conversation is None or (self.of and not self.items):
            return RecordLine(row.n, row.ts, None, missing, damaged=damaged)
        record = ItemsRecord(conversation, tuple(self.items), self.header.pinned, self.header.seed)
        return RecordLine(row.n, row.ts, record, missing, tuple(self.absent), damaged)


def row_line(row: StoredRow, what: Event | Record, missing: bool) -> RecordLine:
    """A line of one row."""
    rows = (row.n,)
    return RecordLine(row.n, row.ts, what, rows if missing else (), damaged=rows if row.damaged else ())
