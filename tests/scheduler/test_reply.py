"""How a message is answered."""

from __future__ import annotations

import msgspec

from tertulia.protocol.ids import TaskId
from tertulia.protocol.usage import Usage
from tertulia.scheduler.reply import Failure, Reply


def reply(**fields: object) -> Reply:
    usage = Usage(input_tokens=3, output_tokens=2, total_tokens=5)
    return msgspec.structs.replace(Reply("hi", "completed", usage, 1, 0.25, TaskId("t"), "f" * 32), **fields)


def test_a_reply_has_the_fields_of_the_contract() -> None:
    """S002-47: the final text and the statistics: tokens, tool calls, duration, trace."""
    assert {"text", "status", "usage", "tool_calls", "duration", "task_id", "trace_id"} <= set(Reply.__struct_fields__)
    assert reply().usage.total_tokens == 5
    assert reply().error is None


def test_a_failed_task_is_an_answer_that_says_why() -> None:
    failed = reply(status="failed", text="half an ans", error=Failure("model_error", "the stream was cut"))
    assert (failed.status, failed.text) == ("failed", "half an ans")
    assert failed.error == Failure("model_error", "the stream was cut")


def test_a_reply_never_changes() -> None:
    """Whoever asks again with the same message id gets the same answer."""
    assert Reply.__struct_config__.frozen
    assert Failure.__struct_config__.frozen
    assert reply() == reply()
