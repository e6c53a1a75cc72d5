"""Answers of Chat Completions, from OpenAI and from servers that are nearly like it."""

from __future__ import annotations

from typing import Any

from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerPiece, ReasoningDelta, RetryNotice, TextDelta
from tertulia.protocol.items import AssistantMessage, Reasoning, ToolCall, Usage
from tests.models.apis import CHAT, heard, said
from tests.models.mock_provider import event
from tests.models.wire_contract import check_answer
from tests.tables import each_row

DONE = event("[DONE]")


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


async def played(*chunks: dict[str, Any] | bytes) -> list[AnswerPiece]:
    return await heard(CHAT, [data if isinstance(data, bytes) else event(data) for data in chunks])


def calls(pieces: list[AnswerPiece]) -> list[tuple[str, str, str]]:
    return [(item.call_id, item.name, item.arguments) for item in said(pieces) if isinstance(item, ToolCall)]


def piece_of(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: str | None = ""
) -> dict[str, Any]:
    fields = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return chunk(tool_calls=[{key: value for key, value in fields.items() if value is not None}])


@each_row("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_read_under_either_name(field: str) -> None:
    pieces = await played(
        chunk(**{field: "Hm, "}), chunk(**{field: "yes."}), chunk(content="Yes."), chunk("stop"), DONE
    )
    check_answer(pieces)
    assert [piece.text for piece in pieces if isinstance(piece, ReasoningDelta)] == ["Hm, ", "yes."]
    thought, spoken = said(pieces)
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.dialect, thought.opaque) == (
        "Hm, yes.",
        CHAT.wire("http://mock.example").dialect.name,
        field,
    )
    assert isinstance(spoken, AssistantMessage)


async def test_the_stream_may_end_without_done() -> None:
    pieces = await played(chunk(content="One"), chunk("stop"))
    check_answer(pieces)
    assert pieces[-1] == AnswerEnd(Usage(), "stop")


async def test_the_stream_may_end_without_a_reason() -> None:
    pieces = await played(chunk(content="One"), DONE)
    check_answer(pieces)
    assert pieces[-1] == AnswerEnd(Usage(), "stop")


async def test_a_stream_that_just_ends_was_cut() -> None:
    pieces = await played(chunk(content="One"))
    assert [type(piece) for piece in pieces] == [TextDelta, RetryNotice] * 4 + [TextDelta, AnswerFailure]


@each_row(
    ("finish", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "refusal"),
        ("function_call", "tool_calls"),
        ("x", "other"),
    ],
)
async def test_why_it_stopped(finish: str, reason: str) -> None:
    pieces = await played(chunk(content="One"), chunk(finish), DONE)
    assert isinstance(pieces[-1], AnswerEnd)
    assert pieces[-1].stop_reason == reason


async def test_whoever_calls_a_tool_has_stopped_for_it() -> None:
    """Some servers say stop."""
    pieces = await played(piece_of(0, "c", "shell", "{}"), chunk("stop"), DONE)
    assert isinstance(pieces[-1], AnswerEnd)
    assert pieces[-1].stop_reason == "tool_calls"


async def test_a_refusal_is_text_and_a_reason() -> None:
    pieces = await played(chunk(refusal="I cannot."), chunk("stop"), DONE)
    check_answer(pieces)
    assert [item.text for item in said(pieces) if isinstance(item, AssistantMessage)] == ["I cannot."]
    assert pieces[-1] == AnswerEnd(Usage(), "refusal")


async def test_calls_grow_side_by_side() -> None:
    pieces = await played(
        piece_of(0, "a", "shell"),
        piece_of(1, "b", "plan"),
        piece_of(0, None, None, '{"x":'),
        piece_of(1, None, None, "{}"),
        piece_of(0, None, None, "1}"),
        chunk("tool_calls"),
        DONE,
    )
    assert calls(pieces) == [("a", "shell", '{"x":1}'), ("b", "plan", "{}")]


async def test_calls_of_one_index_are_told_apart_by_their_ids() -> None:
    pieces = await played(piece_of(0, "a", "shell", "{}"), piece_of(0, "b", "plan", "{}"), chunk("stop"), DONE)
    assert calls(pieces) == [("a", "shell", "{}"), ("b", "plan", "{}")]


async def test_calls_without_an_index_follow_one_another() -> None:
    pieces = await played(
        piece_of(None, "a", "shell", "{"),
        piece_of(None, None, None, "}"),
        piece_of(None, "b", "plan", "{}"),
        piece_of(None, "b", None, ""),
        chunk("stop"),
        DONE,
    )
    assert calls(pieces) == [("a", "shell", "{}"), ("b", "plan", "{}")]


async def test_an_id_that_is_repeated_with_each_piece_is_one_call() -> None:
    pieces = await played(piece_of(0, "a", "shell", "{"), piece_of(0, "a", None, "}"), chunk("stop"), DONE)
    assert calls(pieces) == [("a", "shell", "{}")]


async def test_calls_without_ids_are_told_apart_by_their_names_and_complete_arguments() -> None:
    pieces = await played(
        piece_of(0, None, "shell", '{"a":'),
        piece_of(0, None, "shell", "1}"),
        piece_of(0, None, "shell", ""),
        piece_of(0, None, "shell", '{"b":2}'),
        piece_of(None, None, "plan", ""),
        piece_of(None, None, "clock", None),
        chunk("stop"),
        DONE,
    )
    assert [call[1:] for call in calls(pieces)] == [
        ("shell", '{"a":1}'),
        ("shell", '{"b":2}'),
        ("plan", "{}"),
        ("clock", "{}"),
    ]


async def test_a_call_without_an_id_or_arguments_gets_some() -> None:
    pieces = await played(piece_of(0, None, "shell", None), piece_of(1, "", "plan"), chunk("tool_calls"), DONE)
    (first, one, _), (second, other, _) = calls(pieces)
    assert (one, other) == ("shell", "plan")
    assert first
    assert second
    assert first != second
    assert [arguments for _, _, arguments in calls(pieces)] == ["{}", "{}"]


async def test_usage_comes_at_the_end_or_with_every_chunk() -> None:
    counts = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    expected = AnswerEnd(Usage(100, 60, 20, 5, 120), "stop")
    assert (await played(chunk("stop"), {"choices": [], "usage": counts}, DONE))[-1] == expected
    first = {**chunk(content="a"), "usage": {"prompt_tokens": 1}}
    assert (await played(first, {**chunk("stop"), "usage": counts}, {"choices": [], "usage": None}, DONE))[
        -1
    ] == expected


async def test_odd_chunks_are_skipped() -> None:
    pieces = await played(
        {"choices": None},
        {},
        {"choices": [{"delta": None}]},
        {"choices": [{}]},
        chunk(role="assistant", content=""),
        chunk(content=None, tool_calls=None),
        {**chunk(content="One"), "error": None},
        chunk("stop"),
        DONE,
    )
    check_answer(pieces)
    assert [item.text for item in said(pieces) if isinstance(item, AssistantMessage)] == ["One"]


async def test_an_error_in_the_stream_may_pass() -> None:
    overloaded = event({"error": {"code": 502, "message": "Upstream is overloaded."}})
    pieces = await heard(CHAT, [event(chunk(content="One")), overloaded], [event(chunk(content="Two")), DONE])
    check_answer(pieces)
    assert any(isinstance(piece, RetryNotice) and "Upstream" in piece.message for piece in pieces)
    (failed,) = await played({"error": {"code": 400, "message": "No."}})
    assert isinstance(failed, AnswerFailure)


@each_row("broken", [{"choices": 5}, {"choices": [{"delta": {"content": 5}}]}, {"choices": [5]}])
async def test_a_chunk_of_an_unknown_form_fails_at_once(broken: dict[str, Any]) -> None:
    (failed,) = await played(broken)
    assert isinstance(failed, AnswerFailure)
