"""A question to the conversation's own model, beside the history."""

from __future__ import annotations

from typing import Any

import pytest

from tertulia.conversation.model_answer import sample
from tertulia.errors import ModelError
from tertulia.mcp.server_connection import SamplingRequest, SamplingResult
from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerItem, ReasoningDelta, RetryNotice, TextDelta
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import NO_USAGE, AssistantMessage, TextPart, Usage
from tests.conversation.task_stage import Pieces, task_stage
from tests.tables import each_row

ID = ItemId("i")
SPENT = Usage(10, 0, 5, 0, 15)
QUESTION = SamplingRequest("fs", (("user", "What?"), ("assistant", "Who asks?"), ("user", "I.")), "Be brief.", 4)


def said(text: str) -> AnswerItem:
    return AnswerItem(AssistantMessage(ID, (TextPart(text),)))


async def test_the_answer_is_whole_and_charged_and_nothing_of_it_is_kept() -> None:
    wire = Pieces(ReasoningDelta(ID, "hm"), TextDelta(ID, "42"), said("42"), AnswerEnd(SPENT))
    on = task_stage(wire=wire)
    before = list(on.conversation.history.snapshot())
    assert await sample(on.scope, QUESTION) == SamplingResult("42", wire.name)
    assert on.scope.spent == on.tally.usage == SPENT
    assert on.types() == ["token_count"]
    assert list(on.conversation.history.snapshot()) == before
    assert wire.hung_up


async def test_an_answer_that_is_too_long_is_cut_by_hanging_up() -> None:
    wire = Pieces(*[TextDelta(ID, "12345678")] * 10, said("12345678" * 10), AnswerEnd(SPENT))
    on = task_stage(wire=wire)
    assert (await sample(on.scope, QUESTION)).text == "1234567812345678"
    assert wire.hung_up
    assert on.scope.spent.output_tokens == 4
    assert on.scope.spent.total_tokens == 4 + (len("What?Who asks?I.Be brief.") // 4)


async def test_one_that_comes_in_one_piece_is_cut_too() -> None:
    on = task_stage(wire=Pieces(said("x" * 1_000), AnswerEnd(SPENT)))
    assert (await sample(on.scope, QUESTION)).text == "x" * 16
    assert on.scope.spent == SPENT


async def test_what_was_said_before_a_retry_does_not_count() -> None:
    wire = Pieces(TextDelta(ID, "wrong"), said("wrong"), RetryNotice("again"), said("right"), AnswerEnd(SPENT))
    assert (await sample(task_stage(wire=wire).scope, QUESTION)).text == "right"


@each_row("pieces", [(AnswerFailure("overloaded"),), (TextDelta(ID, "x"),)])
async def test_without_an_answer_it_is_an_error_and_nothing_is_charged(pieces: Any) -> None:
    on = task_stage(wire=Pieces(*pieces))
    with pytest.raises(ModelError):
        await sample(on.scope, QUESTION)
    assert on.scope.spent == NO_USAGE
    assert on.types() == []
