"""Answers of the Messages API: every event we act on, and servers that are not quite Anthropic."""

from __future__ import annotations

from typing import Any

from tertulia.models.wire import (
    AnswerEnd,
    AnswerFailure,
    AnswerPiece,
    ProviderSearch,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
)
from tertulia.protocol.ids import CallId
from tertulia.protocol.items import AssistantMessage, Reasoning, ToolCall, Usage
from tests.models.apis import MESSAGES, heard, said
from tests.models.mock_provider import event
from tests.models.wire_contract import check_answer
from tests.tables import each_row

DIALECT = MESSAGES.wire("http://mock.example").dialect.name
STOP = {"type": "message_stop"}


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


async def played(*events: dict[str, Any], **settings: Any) -> list[AnswerPiece]:
    return await heard(MESSAGES, [event(data) for data in events], **settings)


def texts(pieces: list[AnswerPiece]) -> list[str]:
    return [item.text for item in said(pieces) if isinstance(item, AssistantMessage)]


@each_row("field", ["id", "name", "data", "input"])
async def test_blocks_that_never_close_do_not_fill_the_memory(field: str) -> None:
    pieces = await played(
        *(start(n, type="tool_use", **{field: "x" * 10_000}) for n in range(12)), max_answer_characters=100_000
    )
    assert isinstance(pieces[-1], AnswerFailure)
    assert "longer than 100,000" in pieces[-1].message
    assert said(pieces) == []


async def test_texts_that_follow_one_another_are_one() -> None:
    """Citations cut a sentence into blocks."""
    pieces = await played(
        start(0, type="text", text="The sky "),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "citations_delta", citation={"url": "https://a.example"}),
        delta(1, "text_delta", text="is blue"),
        stop(1),
        start(2, type="text", text="."),
        stop(2),
        ended(),
        STOP,
    )
    check_answer(pieces)
    assert texts(pieces) == ["The sky is blue."]


async def test_texts_around_a_search_are_two() -> None:
    pieces = await played(
        start(0, type="text", text="I search."),
        stop(0),
        start(1, type="server_tool_use", id="srv_1", name="web_search", input={}),
        delta(1, "input_json_delta", partial_json='{"query": "tert'),
        delta(1, "input_json_delta", partial_json='ulia"}'),
        stop(1),
        start(2, type="web_search_tool_result", tool_use_id="srv_1", content=[]),
        stop(2),
        start(3, type="text", text="Found."),
        stop(3),
        ended(),
        STOP,
    )
    check_answer(pieces)
    assert texts(pieces) == ["I search.", "Found."]
    assert [piece for piece in pieces if isinstance(piece, ProviderSearch)] == [
        ProviderSearch(CallId("srv_1")),
        ProviderSearch(CallId("srv_1"), "tertulia"),
    ]


@each_row("value", ["", "{broken", "[]", '{"query": 5}'])
async def test_a_search_whose_query_cannot_be_read_ends_nevertheless(value: str) -> None:
    pieces = await played(
        start(0, type="server_tool_use", id="s"),
        delta(0, "input_json_delta", partial_json=value),
        stop(0),
        ended(),
        STOP,
    )
    assert pieces[:2] == [ProviderSearch(CallId("s")), ProviderSearch(CallId("s"), "")]


async def test_thoughts_keep_their_signature() -> None:
    pieces = await played(
        start(0, type="thinking", thinking="Let ", signature=""),
        delta(0, "thinking_delta", thinking="me see."),
        delta(0, "signature_delta", signature="sea"),
        delta(0, "signature_delta", signature="led"),
        stop(0),
        start(1, type="redacted_thinking", data="xyz"),
        stop(1),
        start(2, type="text", text="Yes."),
        stop(2),
        ended(),
        STOP,
    )
    check_answer(pieces)
    assert [piece.text for piece in pieces if isinstance(piece, ReasoningDelta)] == ["Let ", "me see."]
    thoughts = [item for item in said(pieces) if isinstance(item, Reasoning)]
    assert [(thought.text, thought.opaque, thought.dialect) for thought in thoughts] == [
        ("Let me see.", "signature:sealed", DIALECT),
        ("", "redacted:xyz", DIALECT),
    ]


async def test_a_thought_without_a_signature_has_no_seal() -> None:
    pieces = await played(start(0, type="thinking", thinking="Hm."), stop(0), ended(), STOP)
    assert [item.opaque for item in said(pieces) if isinstance(item, Reasoning)] == [None]


async def test_arguments_come_in_pieces_or_with_the_block() -> None:
    pieces = await played(
        start(0, type="tool_use", id="a", name="shell", input={}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"x":'),
        delta(0, "input_json_delta", partial_json="1}"),
        stop(0),
        start(1, type="tool_use", id="b", name="plan", input={"y": 2}),
        stop(1),
        start(2, type="tool_use", id="", name="none"),
        stop(2),
        ended("tool_use"),
        STOP,
    )
    calls = [item for item in said(pieces) if isinstance(item, ToolCall)]
    assert [(call.name, call.arguments) for call in calls] == [
        ("shell", '{"x":1}'),
        ("plan", '{"y": 2}'),
        ("none", "{}"),
    ]
    assert [call.call_id for call in calls[:2]] == ["a", "b"]
    assert calls[2].call_id
    assert isinstance(pieces[-1], AnswerEnd)
    assert pieces[-1].stop_reason == "tool_calls"


@each_row(
    ("reason", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "pause"),
        ("new", "other"),
    ],
)
async def test_why_it_stopped(reason: str, ours: str) -> None:
    pieces = await played(start(0, type="text", text="One"), stop(0), ended(reason), STOP)
    check_answer(pieces)
    assert isinstance(pieces[-1], AnswerEnd)
    assert pieces[-1].stop_reason == ours


async def test_input_counts_what_came_from_the_cache_and_what_went_into_it() -> None:
    """The API counts neither among the input."""
    first = {"input_tokens": 30, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 60, "output_tokens": 1}
    begin = {"type": "message_start", "message": {"usage": first}}
    last = ended(output_tokens=20, input_tokens=None, output_tokens_details={"thinking_tokens": 5})
    assert await played(begin, last, STOP) == [AnswerEnd(Usage(100, 60, 20, 5, 120), "stop")]


@each_row("garbled", [None, [], "many", {"input_tokens": "many"}])
async def test_garbled_usage_does_not_cost_the_answer(garbled: object) -> None:
    begin = {"type": "message_start", "message": {"usage": garbled}}
    assert await played(begin, {**ended(), "usage": garbled}, STOP) == [AnswerEnd(Usage(), "stop")]


async def test_blocks_that_were_never_closed_are_said_at_the_end() -> None:
    pieces = await played(
        start(0, type="thinking"),
        delta(0, "thinking_delta", thinking="Hm."),
        start(1, type="text", text="One"),
        start(1, type="tool_use", id="a", name="shell"),
        start(1, type="tool_use", id="b", name="plan"),
        ended(),
        STOP,
    )
    check_answer(pieces)
    assert [type(item) for item in said(pieces)] == [AssistantMessage, ToolCall, Reasoning, ToolCall]


async def test_the_stream_may_end_after_the_reason() -> None:
    pieces = await played(start(0, type="text", text="One"), stop(0), ended())
    check_answer(pieces)
    assert pieces[-1] == AnswerEnd(Usage(), "stop")


async def test_a_stream_that_just_ends_was_cut() -> None:
    pieces = await played(start(0, type="text", text="One"), stop(0))
    assert [type(piece) for piece in pieces] == [TextDelta, RetryNotice] * 4 + [TextDelta, AnswerFailure]


async def test_an_overloaded_provider_may_recover() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    whole = [start(0, type="text", text="Two"), stop(0), ended(), STOP]
    pieces = await heard(MESSAGES, [event(start(0, type="text", text="One")), event(error)], [event(e) for e in whole])
    check_answer(pieces)
    assert texts(pieces) == ["Two"]


async def test_events_of_tomorrow_are_skipped() -> None:
    pieces = await played(
        {"type": "ping"},
        {"type": "telepathy", "delta": "no object", "index": "x"},
        {},
        stop(7),
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_delta", "index": 0},
        delta(3, "thinking_delta", thinking="of no block"),
        start(1, type="telepathy"),
        delta(1, "telepathy_delta"),
        stop(1),
        {"type": "message_delta"},
        {"type": "message_start"},
        ended(),
        STOP,
    )
    assert pieces == [AnswerEnd(Usage(), "stop")]


@each_row(
    "broken", [{"type": "content_block_delta", "delta": "text"}, {"type": "content_block_start", "content_block": 5}]
)
async def test_a_known_event_of_an_unknown_form_fails_at_once(broken: dict[str, Any]) -> None:
    (failed,) = await played(broken)
    assert isinstance(failed, AnswerFailure)


async def test_arguments_that_stand_in_the_beginning_of_a_call_are_bounded_too() -> None:
    """M1: some gateways say them there, at once."""
    call = start(0, type="tool_use", id="c", name="weather", input={"city": "x" * 60_000})
    pieces = await played(call, stop(0), ended("tool_use"), STOP, max_argument_characters=50_000)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "more than 50,000 characters of arguments" in pieces[-1].message
