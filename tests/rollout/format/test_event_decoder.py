"""Events of which something is gone."""

from __future__ import annotations

from tertulia.protocol.events import AgentMessage, BackgroundEvent, Event, TaskComplete, TaskStarted, TokenCount
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.protocol.usage import NO_USAGE
from tertulia.rollout.format.row_reader import read_rows
from tests.rollout.recorded import conversation, damaged, stored, without_bodies
from tests.rollout.recording import (
    SESSION,
    event,
)


def test_events_whose_texts_are_gone_are_empty_and_listed() -> None:
    rows = without_bodies(stored(*conversation(), event(BackgroundEvent("a message"), seq=7)))
    lines = [line for line in read_rows(rows) if isinstance(line.what, Event)]

    assert [line.what.data for line in lines] == [
        TaskStarted("user"),
        AgentMessage("", ItemId("row-12")),
        ToolCallBegin(CallId("row-13"), "shell", None),
        ToolCallEnd(CallId("row-13"), "shell", False, "", True, 7),
        TokenCount(NO_USAGE, 10, "key"),
        TaskComplete("completed", None, NO_USAGE),
        BackgroundEvent(""),
    ]
    assert [bool(line.missing) for line in lines] == [True, True, True, True, False, True, True]


def test_an_event_whose_ids_are_damaged_is_told_without_them() -> None:
    rows = stored(event(TokenCount(NO_USAGE, 10, "key")), event(TokenCount(NO_USAGE, 10, "key"), seq=2))
    gone = [damaged(row) if row.kind in ("scope", "name") else row for row in rows]
    lines = [line for line in read_rows(gone) if line.what is not None]

    assert [line.what.data for line in lines] == [TokenCount(NO_USAGE, 0, "")] * 2
    assert [(line.what.task_id, line.what.sub_id) for line in lines] == [(None, SESSION)] * 2
    assert all(line.damaged for line in lines)
