"""Records of which something is gone."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.protocol.events import AgentMessage, BackgroundEvent, Event, TaskComplete, TaskStarted, TokenCount
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import NO_USAGE, Summary
from tertulia.protocol.records import RewriteRecord
from tertulia.protocol.storage import Ttl
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.rollout.format.row_reader import read_rows
from tests.rollout.recorded import conversation, damaged, stored, without_bodies
from tests.rollout.recording import (
    SESSION,
    A,
    agreed,
    event,
    model_request,
)


def test_terms_that_are_gone_are_missing_and_what_was_agreed_stays() -> None:
    """S002-18: also where expired rows are deleted whole."""
    rows = [row for row in stored(agreed(Ttl(5.0), title="a title")) if row.kind != "terms"]
    (line,) = read_rows(rows)

    assert line.what == agreed(Ttl(5.0))
    assert line.missing == (line.n,)


def test_a_tool_list_that_is_gone_is_missing_in_every_request() -> None:
    rows = without_bodies(stored(model_request(), model_request()))

    assert [(line.what.tools_json, bool(line.missing)) for line in read_rows(rows)] == [(b"", True), (b"", True)]


def test_a_summary_that_is_gone_still_stands_for_its_items() -> None:
    record = RewriteRecord(A, (0,), 3, 1, Summary(ItemId("s"), "what was said", 2))
    (line,) = read_rows(without_bodies(stored(record)))

    assert line.what == replace(record, summary=Summary(ItemId("row-2"), "[not stored: 13 characters]", 2))
    assert line.missing == (2,)


def test_events_whose_texts_are_gone_are_empty_and_listed() -> None:
    rows = without_bodies(stored(*conversation(), event(BackgroundEvent("a message"), seq=7)))
    lines = [line for line in read_rows(rows) if isinstance(line.what, Event)]

    assert [line.what.data for line in lines] == [
        TaskStarted("user"),
        AgentMessage("", ItemId("row-11")),
        ToolCallBegin(CallId("row-12"), "shell", None),
        ToolCallEnd(CallId("row-12"), "shell", False, "", True, 7),
        TokenCount(NO_USAGE, 10, "key"),
        TaskComplete("completed", None, NO_USAGE),
        BackgroundEvent(""),
    ]
    assert [bool(line.missing) for line in lines] == [True, True, True, True, False, True, True]


def test_an_event_whose_ids_are_damaged_is_told_without_them() -> None:
    rows = stored(event(TokenCount(NO_USAGE, 10, "key")), event(TokenCount(NO_USAGE, 10, "key"), seq=2))
    gone = [damaged(row) if row.kind == "task" or row.seq == 1 else row for row in rows]
    (line,) = (line for line in read_rows(gone) if line.what is not None)

    assert line.what.data == TokenCount(NO_USAGE, 0, "")
    assert (line.what.task_id, line.what.sub_id) == (None, SESSION)
    assert line.damaged


def test_a_request_whose_task_is_damaged_is_told_without_it() -> None:
    rows = [damaged(row) if row.kind == "task" else row for row in stored(model_request())]
    (line,) = (line for line in read_rows(rows) if line.what is not None)

    assert line.what == replace(model_request(), task_id="")
    assert line.damaged == (line.n,)
