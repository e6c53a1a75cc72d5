"""A segment that comes row by row."""

from __future__ import annotations

from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.item_rows import ItemHeader
from tertulia.rollout.format.record_lines import PartialSegment
from tertulia.rollout.store import StoredRow
from tests.rollout.recording import A, user
from tests.tables import each_row


def row(n: int = 1, conversation: int = 1) -> StoredRow:
    return StoredRow(n, "said", "user", 1.0, None, conversation, 0, b"{}", None)


@each_row(
    ("header", "conversation", "belongs"),
    [
        (ItemHeader(i=1, of=3), 1, True),
        (ItemHeader(i=2, of=3), 1, True),
        (ItemHeader(of=3), 1, False),
        (ItemHeader(i=1, of=4), 1, False),
        (ItemHeader(i=1, of=3), 2, False),
        (ItemHeader(), 1, False),
    ],
)
def test_a_segment_knows_its_rows(header: ItemHeader, conversation: int, belongs: bool) -> None:
    segment = PartialSegment(row(), ItemHeader(of=3))
    segment.next = 1

    assert segment.takes(row(2, conversation), header) is belongs


def test_a_segment_is_one_line() -> None:
    segment = PartialSegment(row(), ItemHeader(pinned=True))
    segment.items.append(user("x"))

    assert segment.line(A).what == ItemsRecord(A, (user("x"),), pinned=True, seed=False)
    assert segment.line(None).what is None


def test_a_segment_without_anything_in_it_says_nothing_unless_it_was_empty() -> None:
    assert PartialSegment(row(), ItemHeader(of=2)).line(A).what is None
    assert PartialSegment(row(), ItemHeader(of=0)).line(A).what == ItemsRecord(A, ())
