"""Records of which something is gone."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import Summary
from tertulia.protocol.records import RewriteRecord
from tertulia.protocol.storage import Ttl
from tertulia.rollout.format.row_reader import read_rows
from tests.rollout.recorded import stored, without_bodies
from tests.rollout.recording import (
    A,
    agreed,
    asked,
)


def test_terms_that_are_gone_are_missing_and_what_was_agreed_stays() -> None:
    """S002-18: also where expired rows are deleted whole."""
    rows = [row for row in stored(agreed(Ttl(5.0), title="a title")) if row.kind != "terms"]
    (line,) = read_rows(rows)

    assert line.what == agreed(Ttl(5.0))
    assert line.missing == (line.n,)


def test_a_tool_list_that_is_gone_is_missing_in_every_request() -> None:
    rows = without_bodies(stored(asked(), asked()))

    assert [(line.what.tools_json, bool(line.missing)) for line in read_rows(rows)] == [(b"", True), (b"", True)]


def test_a_summary_that_is_gone_still_stands_for_its_items() -> None:
    record = RewriteRecord(A, (0,), 3, 1, Summary(ItemId("s"), "what was said", 2))
    (line,) = read_rows(without_bodies(stored(record)))

    assert line.what == replace(record, summary=Summary(ItemId("row-2"), "[not stored: 13 characters]", 2))
    assert line.missing == (2,)
