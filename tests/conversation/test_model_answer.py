"""One answer of a model: deltas as they come, the whole at the end, nothing in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tertulia.conversation import model_answer as module
from tertulia.conversation.model_answer import ModelAnswer, ProviderError, request_answer
from tertulia.errors import ModelError
from tertulia.models.wire import (
    AnswerEnd,
    AnswerFailure,
    AnswerItem,
    AnswerPiece,
    ModelRequest,
    ProviderSearch,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
)
from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.items import AssistantMessage, ImagePart, Reasoning, TextPart, ToolCall, Usage
from tests.conversation.task_stage import Pieces, TaskStage
from tests.tables import each_row

REQUEST = ModelRequest(ConversationId("c"), "m", "", (), (), (), b"[]", "key", store=True)
ONE, TWO = ItemId("one"), ItemId("two")
FINISHED = AnswerEnd(Usage(1, 0, 1, 0, 2))


def message(text: str, item_id: ItemId = ONE) -> AssistantMessage:
    return AssistantMessage(item_id, (TextPart(text),))


async def asked(*pieces: AnswerPiece | BaseException, on: TaskStage | None = None) -> ModelAnswer:
    wire = Pieces(*pieces)
    try:
        return await request_answer((on or TaskStage()).scope, wire, REQUEST)
    finally:
        assert wire.hung_up


async def test_deltas_are_told_as_they_come_and_the_whole_is_given_back() -> None:
    on = TaskStage()
    call = ToolCall(ItemId("i"), CallId("c1"), "note", "{}")
    answer = await asked(
        ReasoningDelta(TWO, "hm "),
        ReasoningDelta(TWO, "yes"),
        AnswerItem(Reasoning(TWO, "hm yes")),
        TextDelta(ONE, "hel"),
        TextDelta(ONE, "lo"),
        AnswerItem(message("hello")),
        AnswerItem(call),
        FINISHED,
        on=on,
    )
    assert answer.items == (Reasoning(TWO, "hm yes"), message("hello"), call)
    assert (answer.calls, answer.finished) == ([call], FINISHED)
    rows = [(e.type, e.data.text, e.data.offset, e.seq) for e in on.told()]
    assert rows == [
        ("agent_reasoning_delta", "hm ", 0, None),
        ("agent_reasoning_delta", "yes", 3, None),
        ("agent_message_delta", "hel", 0, None),
        ("agent_message_delta", "lo", 3, None),
    ]
    assert on.conversation.history.totals.item_count == 0


async def test_what_is_not_said_aloud_is_heard_by_nobody_and_given_back_all_the_same() -> None:
    """Notes of a compaction are no part of the conversation: no deltas, no partial answer, no discard notice."""
    on = TaskStage()
    wire = Pieces(
        ReasoningDelta(TWO, "hm"),
        TextDelta(ONE, "no"),
        RetryNotice("again"),
        TextDelta(ONE, "notes"),
        AnswerItem(message("notes")),
        FINISHED,
    )
    answer = await request_answer(on.scope, wire, REQUEST, aloud=False)
    assert answer.items == (message("notes"),)
    assert [t for t in on.types() if "delta" in t] == []
    on.scope.tidy("stopped")
    assert on.conversation.history.totals.item_count == 0


async def test_a_search_of_the_provider_is_told() -> None:
    on = TaskStage()
    await asked(ProviderSearch(CallId("s"), None), ProviderSearch(CallId("s"), "tea"), FINISHED, on=on)
    assert on.types() == ["web_search_begin", "web_search_end"]


async def test_what_was_said_before_a_retry_does_not_count() -> None:
    """DESIGN, Models: deltas already shown do not count as acted on; a retry says discard_deltas."""
    on = TaskStage()
    answer = await asked(
        TextDelta(ONE, "fir"),
        AnswerItem(message("first")),
        RetryNotice("the line was cut, once more"),
        TextDelta(TWO, "second"),
        AnswerItem(message("second", TWO)),
        FINISHED,
        on=on,
    )
    assert answer.items == (message("second", TWO),)
    notice = on.told()[1]
    assert (notice.type, notice.data.discard_deltas, notice.data.message) == (
        "background_event",
        True,
        "the line was cut, once more",
    )


async def test_a_stream_that_just_ends_is_no_answer() -> None:
    on = TaskStage()
    with pytest.raises(ModelError, match="ended before"):
        await asked(TextDelta(ONE, "half"), AnswerItem(message("half")), on=on)
    on.scope.tidy("failed")
    assert on.scope.last_text == "half"


async def test_a_failure_keeps_its_code_and_says_whether_it_was_too_much() -> None:
    with pytest.raises(ProviderError) as failure:
        await asked(AnswerFailure("slow down", "rate_limited"))
    assert (failure.value.code, failure.value.message, failure.value.overflow) == ("rate_limited", "slow down", False)
    with pytest.raises(ProviderError) as failure:
        await asked(AnswerFailure("too long", overflow=True))
    assert (failure.value.code, failure.value.overflow) == ("model_error", True)
    assert ModelError.code == "model_error"


async def test_what_a_wire_raises_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        await asked(ZeroDivisionError())


async def test_the_connection_is_closed_when_the_reader_is_cancelled() -> None:
    """Closing is what hangs up on the provider; the garbage collector may come too late."""
    wire, entered = Pieces(), asyncio.Event()
    closed: list[bool] = []

    async def stream(request: ModelRequest) -> Any:
        try:
            entered.set()
            await asyncio.Event().wait()
            yield FINISHED
        finally:
            closed.append(True)

    wire.stream = stream  # type: ignore[method-assign]
    reading = asyncio.create_task(request_answer(TaskStage().scope, wire, REQUEST))
    await entered.wait()
    reading.cancel()
    await asyncio.wait((reading,))
    assert reading.cancelled()
    assert closed == [True]


async def test_an_answer_without_end_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 10)
    answer = await asked(TextDelta(ONE, "x" * 5), ReasoningDelta(TWO, "x" * 5), FINISHED)
    assert answer.items == ()
    with pytest.raises(ModelError, match="longer than 10"):
        await asked(TextDelta(ONE, "x" * 6), ReasoningDelta(TWO, "x" * 5), FINISHED)


@pytest.mark.parametrize(
    "item",
    [
        AssistantMessage(ONE, (TextPart("x" * 6), ImagePart("x" * 5))),
        Reasoning(ONE, "x" * 6, "items", "x" * 5),
        ToolCall(ONE, CallId("x" * 6), "note", "x" * 5),
    ],
)
async def test_what_is_said_whole_is_bounded_like_what_is_heard(monkeypatch: pytest.MonkeyPatch, item: Any) -> None:
    """A wire need not send deltas."""
    monkeypatch.setattr(module, "_CALL_COST", 0)
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 11)
    assert (await asked(AnswerItem(item), FINISHED)).items == (item,)
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 10)
    with pytest.raises(ModelError, match="longer than 10"):
        await asked(AnswerItem(item), FINISHED)


async def test_ids_and_messages_of_a_wire_can_always_be_told() -> None:
    """G2: one event that cannot be encoded would end the feed of every client."""
    on, bad = TaskStage(), "\ud800"
    answer = await asked(
        TextDelta(ItemId(bad), "x"),
        ReasoningDelta(ItemId(bad), "x"),
        ProviderSearch(CallId(bad)),
        ProviderSearch(CallId(bad), bad),
        RetryNotice(bad * 100_000),
        AnswerItem(AssistantMessage(ItemId(bad), ())),
        AnswerItem(Reasoning(ItemId(bad), "x")),
        AnswerItem(ToolCall(ItemId(bad), CallId("c"), "note", "{}")),
        FINISHED,
        on=on,
    )
    assert [item.id for item in answer.items] == ["?", "?", "?"]
    assert max(len(event.json()) for event in on.told()) < 20_000
    with pytest.raises(ProviderError) as failed:
        await asked(AnswerFailure(bad * 100_000, bad))
    assert failed.value.code == "?"
    assert len(failed.value.message.encode()) <= 10_000


async def test_text_that_cannot_be_encoded_is_mended() -> None:
    on = TaskStage()
    bad = "a\ud800b"
    answer = await asked(
        TextDelta(ONE, bad),
        AnswerItem(AssistantMessage(ONE, (TextPart(bad), ImagePart(bad)))),
        AnswerItem(Reasoning(TWO, bad)),
        AnswerItem(ToolCall(ItemId("i"), CallId(bad), "note", bad)),
        FINISHED,
        on=on,
    )
    message_item, thought, call = answer.items
    assert isinstance(message_item, AssistantMessage)
    assert isinstance(thought, Reasoning)
    assert isinstance(call, ToolCall)
    assert message_item.parts == (TextPart("a?b"), ImagePart("a?b"))
    assert (thought.text, call.call_id, call.arguments) == ("a?b", "a?b", "a?b")
    assert all(event.json() for event in on.told())


@each_row(
    ("name", "value"),
    [("", "unnamed"), ("a b\x00c", "a_b_c"), ("x" * 100, "x" * 64), ("conv.create", "conv_create"), ("a.b", "a.b")],
)
async def test_a_call_can_always_be_sent_back(name: str, value: str) -> None:
    """Providers refuse a history with an illegal name or an empty id, for ever."""
    call = (await asked(AnswerItem(ToolCall(ItemId("i"), CallId(""), name, "")), FINISHED)).calls[0]
    assert (call.name, call.call_id) == (value, "call_i")
