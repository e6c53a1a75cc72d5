"""A segment that comes row by row."""

from __future__ import annotations

from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.record_lines import PartialSegment
from tertulia.rollout.store import StoredRow
from tests.rollout.recording import A, user
from tests.tables import each_row


def row(n: int = 1, conversation: int = 1) -> StoredRow:
    return StoredRow(n, "said", "user", 1.0, None, conversation, 0, b"{}", None)


@each_row(
    ("header", "conversation", "belongs"),
    [
        ({"i": 1, "of": 3}, 1, True),
        ({"i": 2, "of": 3}, 1, True),
        ({"of": 3}, 1, False),
        ({"i": 1, "of": 4}, 1, False),
        ({"i": 1, "of": 3}, 2, False),
        ({}, 1, False),
    ],
)
def test_a_segment_knows_its_rows(header: dict[str, int], conversation: int, belongs: bool) -> None:
    segment = PartialSegment(row(), {"of": 3})
    segment.next = 1

    assert segment.takes(row(2, conversation), header) is belongs


def test_a_segment_is_one_line() -> None:
    segment = PartialSegment(row(), {"pinned": True, "seed": 1})
    segment.items.append(user("x"))

    assert segment.line(A).what == ItemsRecord(A, (user("x"),), pinned=True, seed=False)
    assert segment.line(None).what is None


def test_a_segment_without_anything_in_it_says_nothing_unless_it_was_empty() -> None:
    assert PartialSegment(row(), {"of": 2}).line(A).what is None
    assert PartialSegment(row(), {"of": 0}).line(A).what == ItemsRecord(A, ())
