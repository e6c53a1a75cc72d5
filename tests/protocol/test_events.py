"""The envelope, and the vocabulary of the design."""

from __future__ import annotations

import gc
import json

import msgspec
import pytest

from tertulia.protocol.events import (
    EVENT_TYPES,
    AgentMessage,
    AgentMessageDelta,
    Event,
    EventData,
    SubscriberLagged,
    TaskComplete,
)
from tertulia.protocol.ids import ConversationId, ItemId, SessionId, TaskId
from tertulia.protocol.items import NO_USAGE
from tests.tables import each_row

ENVELOPE = [
    "epoch",
    "seq",
    "ts",
    "type",
    "session_id",
    "sub_id",
    "conversation_id",
    "task_id",
    "trace_id",
    "span_id",
    "data",
]


def event(data: EventData, seq: int | None = 7) -> Event:
    return Event(
        2,
        seq,
        "2026-01-02T03:04:05.006Z",
        data.type,
        SessionId("s"),
        "sub",
        ConversationId("c"),
        TaskId("t"),
        "trace",
        "span",
        data,
    )


def test_the_envelope_has_exactly_the_keys_of_the_design_in_order() -> None:
    """S000-46, S002-42"""
    line = event(AgentMessage("hi", ItemId("i"))).json()
    assert json.loads(line) == {
        "epoch": 2,
        "seq": 7,
        "ts": "2026-01-02T03:04:05.006Z",
        "type": "agent_message",
        "session_id": "s",
        "sub_id": "sub",
        "conversation_id": "c",
        "task_id": "t",
        "trace_id": "trace",
        "span_id": "span",
        "data": {"text": "hi", "item_id": "i", "phase": None},
    }
    assert list(json.loads(line)) == ENVELOPE


def test_absent_ids_and_numbers_are_written_as_null() -> None:
    """S002-42: a reader never has to ask whether a key is there."""
    data = SubscriberLagged(None, None, 3)
    line = Event(0, None, "", data.type, SessionId("s"), "s", None, None, None, None, data).json()
    decoded = json.loads(line)
    assert list(decoded) == ENVELOPE
    assert [key for key, value in decoded.items() if value is None] == [
        "seq",
        "conversation_id",
        "task_id",
        "trace_id",
        "span_id",
    ]
    assert decoded["data"] == {"from_seq": None, "to_seq": None, "dropped_deltas": 3}


def test_a_payload_is_read_like_the_json_that_it_becomes() -> None:
    """The same code reads events in Python and from a wire, in their envelope and without it."""
    data = AgentMessage("hi", ItemId("i"))
    assert dict(data) == json.loads(event(data).json())["data"]
    assert (data["text"], data.get("text"), data.get("nothing"), "text" in data, "nothing" in data) == (
        *("hi", "hi", None),
        *(True, False),
    )
    assert event(data).data is data.data is data
    with pytest.raises(KeyError):
        data["type"]


def test_an_event_is_encoded_once_however_many_ask() -> None:
    one = event(AgentMessage("hi", ItemId("i")))
    assert one.json() is one.json()


def test_a_long_event_keeps_no_second_copy_of_its_text() -> None:
    one = event(AgentMessage("x" * 2_000_000, ItemId("i")))
    assert one.json() == one.json()
    assert one.json() is not one.json()


@each_row("text", ["a\u2028b\u2029c\u0085d", "a\nb\r\nc\x0b\x0cd", "\x00\x1c\x1d\x1e"])
def test_whatever_is_in_a_text_an_event_stays_one_line(text: str) -> None:
    """E11: str.splitlines() would make several records of it; a reader of lines splits at newline bytes only."""
    line = event(AgentMessage(text, ItemId("i"))).json()
    assert line.splitlines() == [line]
    assert json.loads(line)["data"]["text"] == text


def test_events_and_their_data_cannot_be_changed() -> None:
    """One object is shared by all subscribers."""
    one = event(AgentMessage("hi", ItemId("i")))
    for target, field in ((one, "seq"), (one.data, "text")):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(target, field, "changed")
    assert (one.seq, one.data) == (7, AgentMessage("hi", ItemId("i")))


def test_an_event_that_was_encoded_equals_one_that_was_not() -> None:
    one, other = event(AgentMessage("hi", ItemId("i"))), event(AgentMessage("hi", ItemId("i")))
    one.json()
    assert one == other


@each_row("kind", EVENT_TYPES.values(), ids=EVENT_TYPES)
def test_every_type_is_plain_frozen_data_without_a_tag_of_its_own(kind: type[EventData]) -> None:
    config = kind.__struct_config__
    assert config.frozen
    assert config.tag is None
    assert "type" not in kind.__struct_fields__
    assert kind.__doc__


def test_passing_events_say_where_they_belong() -> None:
    """Deltas and progress have no number; item_id and offset stand in for it."""
    passing = {name: kind for name, kind in EVENT_TYPES.items() if not kind.durable}
    assert set(passing) == {
        "agent_message_delta",
        "agent_reasoning_delta",
        "exec_command_output_delta",
        "mcp_tool_call_progress",
        "subscriber_lagged",
    }
    for name, kind in passing.items():
        if name != "subscriber_lagged":
            assert {"item_id", "offset"} <= set(kind.__struct_fields__)


def test_the_ends_of_tasks_and_conversations_are_terminal_and_durable() -> None:
    """S002-45: what is never lost."""
    terminal = {name for name, kind in EVENT_TYPES.items() if kind.terminal}
    assert terminal == {"task_complete", "turn_aborted", "conversation_closed"}
    assert all(EVENT_TYPES[name].durable for name in terminal)


def test_the_type_of_data_is_known_without_an_instance() -> None:
    assert AgentMessageDelta.type == AgentMessageDelta("h", ItemId("i"), 0).type == "agent_message_delta"
    done = TaskComplete("completed", None, NO_USAGE)
    assert msgspec.to_builtins(done) == {
        "status": "completed",
        "last_assistant_message": None,
        "usage": dict.fromkeys(NO_USAGE.__struct_fields__, 0),
    }


def test_data_is_invisible_to_the_garbage_collector() -> None:
    """A ring of ten thousand events must not make every collection slower."""
    assert not gc.is_tracked(AgentMessage("hi", ItemId("i")))
