"""What reading a record gives, one line for each event and record."""

from __future__ import annotations

from typing import Any

import msgspec

from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.items import Item
from tertulia.protocol.records import ItemsRecord, Record
from tertulia.rollout.item_rows import count
from tertulia.rollout.store import Stored

Json = dict[str, Any]


class Line(msgspec.Struct, frozen=True):
    """One event or record, as it is now: what of it was never stored, has expired or cannot be read is listed."""

    n: int
    """Of its first row."""
    ts: float
    what: Event | Record | None
    """None for what cannot be made sense of: damaged, or of a kind or type that is not known here."""
    missing: tuple[int, ...] = ()
    """Rows of it whose text is not there. Placeholders stand for items, empty values for the fields of events."""
    absent: tuple[int, ...] = ()
    """Which items of a Said are placeholders, by their place in it."""
    damaged: tuple[int, ...] = ()
    """Rows of it that cannot be trusted, wholly or their text."""
    raw: Stored | None = None
    """The row of an unknown kind or type."""


class Segment:
    """A Said of which not all rows have come."""

    __slots__ = ("absent", "damaged", "first", "header", "items", "missing", "next", "of")

    def __init__(self, first: Stored, header: Json) -> None:
        self.first = first
        self.header = header
        self.of = count(header, "of") if "of" in header else 1
        self.next = count(header, "i")
        self.items: list[Item] = []
        self.missing: list[int] = []
        self.absent: list[int] = []
        self.damaged: list[int] = []

    def takes(self, row: Stored, header: Json) -> bool:
        """Whether a row belongs to it: some in between may be gone, or damaged."""
        return row.talk == self.first.talk and count(header, "of") == self.of and count(header, "i") >= self.next > 0

    def line(self, conversation: ConversationId | None) -> Line:
        """What there is of it."""
        row, missing, damaged = self.first, tuple(self.missing), tuple(self.damaged)
        if conversation is None or (self.of and not self.items):
            return Line(row.n, row.ts, None, missing, damaged=damaged)
        pinned, seed = self.header.get("pinned") is True, self.header.get("seed") is True
        said = ItemsRecord(conversation, tuple(self.items), pinned, seed)
        return Line(row.n, row.ts, said, missing, tuple(self.absent), damaged)


def told(row: Stored, what: Event | Record, missing: bool) -> Line:
    """A line of one row."""
    rows = (row.n,)
    return Line(row.n, row.ts, what, rows if missing else (), damaged=rows if row.damaged else ())
