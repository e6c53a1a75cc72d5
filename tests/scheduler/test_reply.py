"""How a message is answered: what a reply has, raises and gives as an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tertulia.errors import InvalidOutputError, ModelError, TaskCancelledError, TertuliaError
from tertulia.protocol.ids import TaskId
from tertulia.protocol.items import Usage
from tertulia.scheduler.reply import Failure, Reply, TypedReply
from tests.tables import each_row


@dataclass
class Point:
    x: int


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


@each_row(
    ("answer", "kind", "code"),
    [
        (reply(text=None, status="interrupted"), TaskCancelledError, "cancelled"),
        (reply(status="failed", error=Failure("model_error", "no")), ModelError, "model_error"),
        (reply(status="failed", error=Failure("usage_limit", "no")), TertuliaError, "usage_limit"),
        (
            reply(status="failed", error=Failure("invalid_output", "no", ("$: a",))),
            InvalidOutputError,
            "invalid_output",
        ),
    ],
)
def test_a_reply_that_was_not_completed_raises_the_error_of_its_code(
    answer: Reply, kind: type[TertuliaError], code: str
) -> None:
    with pytest.raises(kind) as raised:
        answer.raise_for_status()
    assert (type(raised.value), raised.value.code) == (kind, code)
    with pytest.raises(kind):
        _ = TypedReply[Point].of(answer, Point).output


def test_a_completed_reply_is_returned_and_has_its_output_made_once() -> None:
    answer = TypedReply[Point].of(reply(text='{"x": 1}'), Point)
    assert answer.raise_for_status() is answer
    assert (answer.output, answer.output is answer.output) == (Point(1), True)


@each_row(
    ("answer", "words"),
    [
        (reply(text=None), "there is no answer"),
        (reply(text=None, error=Failure("not_stored", "the text is not stored")), "the text is not stored"),
        (reply(text="{}"), "no Point"),
        (reply(text="no JSON"), "no Point"),
    ],
)
def test_an_answer_that_is_not_there_or_of_another_type_has_no_output(answer: Reply, words: str) -> None:
    with pytest.raises(InvalidOutputError, match=words):
        _ = TypedReply[Point].of(answer, Point).output


@each_row("error", [ModelError("no"), InvalidOutputError("no", ["$: a", "$: b"])])
def test_an_error_survives_being_a_failure(error: Any) -> None:
    again = Failure.of(error).to_error()
    assert (type(again), again.message, vars(again)) == (type(error), error.message, vars(again) | vars(error))
