"""Items, and the calls that outputs belong to."""

from __future__ import annotations

import tracemalloc

from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import ImagePart, TextPart, UserMessage
from tertulia.protocol.records import ItemsRecord
from tertulia.protocol.storage import Full
from tertulia.rollout.format.row_reader import RowReader, read_rows
from tests.rollout.recorded import stored, without_bodies
from tests.rollout.recording import (
    A,
    agreed,
    call,
    output,
    user,
)


def test_an_output_whose_call_was_deleted_has_a_call_id_all_the_same() -> None:
    rows = stored(ItemsRecord(A, (call(),)), ItemsRecord(A, (output("42"),)))
    (line,) = read_rows(row for row in rows if row.type != "tool_call")

    assert line.what.items[0].call_id == CallId("row-2")


def test_an_output_without_a_call_that_is_known_keeps_itself() -> None:
    rows = without_bodies(stored(ItemsRecord(A, (output("42"),))))
    (line,) = read_rows(rows)

    assert line.what.items[0].call_id == CallId("row-2")


def test_a_picture_is_told_by_the_number_of_parts() -> None:
    parts = (TextPart("abc"), ImagePart("data:"))
    (line,) = read_rows(without_bodies(stored(ItemsRecord(A, (UserMessage(ItemId("u"), parts),)))))

    assert line.what.items[0].text == "[not stored: 3 characters, 2 parts]"


def test_a_reader_that_is_to_forget_takes_no_more_memory_for_a_long_session() -> None:
    """HARDENING E7."""
    rows = stored(agreed(Full()), *(ItemsRecord(A, (user("x" * 1_000, id=f"u{n}"),)) for n in range(3_000)))
    tracemalloc.start()
    try:
        count = sum(1 for _ in RowReader(keep_items=10).lines(iter(rows)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 3_001
    assert peak < 500_000


def test_what_points_further_back_than_is_remembered_is_told_all_the_same() -> None:
    items_records = [ItemsRecord(A, (user(f"{n}", id=f"u{n}"),)) for n in range(3)]
    rows = without_bodies(
        stored(agreed(Full()), *items_records, ItemsRecord(A, (call(),)), ItemsRecord(A, (output("done"),)))
    )
    lines = list(RowReader(keep_items=1).lines(rows))
    assert len(lines) == 6
    assert lines[-1].what.items[0].call_id == lines[-2].what.items[0].call_id
