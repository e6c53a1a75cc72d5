"""Items, and the calls that outputs belong to."""

from __future__ import annotations

from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import ImagePart, TextPart, UserMessage
from tertulia.protocol.records import Said
from tertulia.rollout.reading import read
from tests.rollout.recorded import stored, without_bodies
from tests.rollout.recording import (
    A,
    call,
    output,
)


def test_an_output_whose_call_was_deleted_has_a_call_id_all_the_same() -> None:
    rows = stored(Said(A, (call(),)), Said(A, (output("42"),)))
    (line,) = read(row for row in rows if row.type != "tool_call")

    assert line.what.items[0].call_id == CallId("row-2")


def test_an_output_without_a_call_that_is_known_keeps_itself() -> None:
    rows = without_bodies(stored(Said(A, (output("42"),))))
    (line,) = read(rows)

    assert line.what.items[0].call_id == CallId("row-2")


def test_a_picture_is_told_by_the_number_of_parts() -> None:
    parts = (TextPart("abc"), ImagePart("data:"))
    (line,) = read(without_bodies(stored(Said(A, (UserMessage(ItemId("u"), parts),)))))

    assert line.what.items[0].text == "[not stored: 3 characters, 2 parts]"
