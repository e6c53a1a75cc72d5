"""What operations answer, in Python and on every wire."""

from __future__ import annotations

import msgspec
import pytest

from tertulia.protocol.ids import TaskId
from tertulia.protocol.items import Usage
from tertulia.scheduler.reply import Failure, Reply
from tertulia.session.answers import CloseAnswer, HistoryEntry, InterruptAnswer, MessageAnswer, ToolInfo, message_answer


def reply(error: Failure | None = None) -> Reply:
    status = "failed" if error else "completed"
    return Reply("hi", status, Usage(1, 0, 2, 0, 3), 4, 1.2345, TaskId("t"), "trace", error, 7)


def test_a_field_can_be_read_as_an_attribute_or_a_key() -> None:
    answer = CloseAnswer(closed=True, already_closed=False, forced=True)
    assert (answer.closed, answer["forced"]) == (True, True)
    for missing in ("nonsense", "__class__", "__getitem__"):
        with pytest.raises(KeyError):
            answer[missing]


def test_an_interrupt_is_true_when_something_was_stopped() -> None:
    assert InterruptAnswer(True)
    assert not InterruptAnswer(False)
    assert msgspec.to_builtins(InterruptAnswer(False)) == {"interrupted": False}


def test_a_reply_in_wire_spelling_has_milliseconds_and_an_error_only_when_there_is_one() -> None:
    """DESIGN, Shapes: `_ms` integers on the wire."""
    wire = msgspec.to_builtins(message_answer(reply()))
    assert wire == {
        "task_id": "t",
        "status": "completed",
        "last_assistant_message": "hi",
        "usage": msgspec.to_builtins(Usage(1, 0, 2, 0, 3)),
        "tool_calls": 4,
        "duration_ms": 1234,
        "trace_id": "trace",
    }
    failed = message_answer(reply(Failure("timeout", "too late")))
    assert isinstance(failed, MessageAnswer)
    assert msgspec.to_builtins(failed)["error"] == {"code": "timeout", "message": "too late"}


def test_what_is_not_there_is_left_out() -> None:
    assert msgspec.to_builtins(HistoryEntry("user", [])) == {"role": "user", "attachments": []}
    assert "server" not in msgspec.to_builtins(ToolInfo("note", "function", "digest"))
    assert msgspec.to_builtins(ToolInfo("fs__read", "mcp", "d", "fs"))["server"] == "fs"
