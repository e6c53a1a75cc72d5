"""Answers of the Responses API: every event we act on, and servers that are not quite OpenAI."""

from __future__ import annotations

from typing import Any

import msgspec

from tertulia.models.wire import (
    AnswerEnd,
    AnswerFailure,
    AnswerItem,
    AnswerPiece,
    ProviderSearch,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
)
from tertulia.protocol.ids import CallId
from tertulia.protocol.items import AssistantMessage, Reasoning, ToolCall, Usage
from tests.models.apis import RESPONSES, heard, said
from tests.models.mock_provider import event
from tests.models.wire_contract import check_answer
from tests.tables import each_row

DIALECT = RESPONSES.wire("http://mock.example").dialect.name
COMPLETED = {"type": "response.completed", "response": {"id": "r", "usage": None}}


async def played(*events: dict[str, Any], **settings: Any) -> list[AnswerPiece]:
    return await heard(RESPONSES, [event(data) for data in events], **settings)


def done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(text: str, index: int = 0, kind: str = "response.output_text.delta") -> dict[str, Any]:
    return {"type": kind, "output_index": index, "delta": text}


def message(*texts: str) -> dict[str, Any]:
    return {"type": "message", "id": "m", "content": [{"type": "output_text", "text": text} for text in texts]}


async def test_a_message_without_deltas_is_said_all_the_same() -> None:
    pieces = await played(done(message("One ", "two")), COMPLETED)
    check_answer(pieces)
    assert [item.text for item in said(pieces) if isinstance(item, AssistantMessage)] == ["One two"]


async def test_deltas_without_a_whole_message_are_said_at_the_end() -> None:
    thought = "response.reasoning_text.delta"
    pieces = await played(delta("Hm.", 0, thought), delta("One ", 1), delta("two", 1), COMPLETED)
    check_answer(pieces)
    thinking, spoken = said(pieces)
    assert isinstance(thinking, Reasoning)
    assert (thinking.text, thinking.opaque) == ("Hm.", None)
    assert isinstance(spoken, AssistantMessage)
    assert spoken.text == "One two"


async def test_what_was_streamed_counts_where_the_whole_differs() -> None:
    pieces = await played(delta("One"), done(message("Two")), COMPLETED)
    check_answer(pieces)


async def test_two_messages_that_grow_side_by_side_stay_apart() -> None:
    pieces = await played(
        delta("a", 0),
        delta("x", 1),
        delta("b", 0),
        delta("y", 1),
        done(message("xy"), 1),
        done(message("ab"), 0),
        COMPLETED,
    )
    check_answer(pieces)
    assert [item.text for item in said(pieces) if isinstance(item, AssistantMessage)] == ["xy", "ab"]


async def test_parts_of_a_summary_are_set_apart() -> None:
    summary = "response.reasoning_summary_text.delta"
    part = {"type": "response.reasoning_summary_part.added", "output_index": 0}
    whole = {"type": "reasoning", "id": "rs", "summary": [{"text": "One."}, {"text": "Two."}], "encrypted_content": "s"}
    pieces = await played(part, delta("One.", 0, summary), part, delta("Two.", 0, summary), done(whole), COMPLETED)
    check_answer(pieces)
    assert [piece.text for piece in pieces if isinstance(piece, ReasoningDelta)] == ["One.", "\n\n", "Two."]
    (thought,) = said(pieces)
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.opaque, thought.dialect) == ("One.\n\nTwo.", "s", DIALECT)


async def test_reasoning_that_shows_nothing_is_kept_for_its_seal() -> None:
    pieces = await played(done({"type": "reasoning", "summary": [], "encrypted_content": "sealed"}), COMPLETED)
    (thought,) = said(pieces)
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.opaque) == ("", "sealed")
    assert said(await played(done({"type": "reasoning", "summary": []}), COMPLETED)) == []


@each_row(
    "item",
    [
        {"type": "reasoning", "summary": [{"text": "Hm."}], "encrypted_content": "x" * 10_000},
        {"type": "web_search_call", "id": "x" * 10_000},
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "x" * 10_000}},
    ],
)
async def test_seals_and_searches_take_room_too(item: dict[str, Any]) -> None:
    pieces = await played(*(done(item) for _ in range(12)), COMPLETED, max_answer_characters=100_000)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "longer than 100,000" in pieces[-1].message


async def test_raw_reasoning_is_read_where_there_is_no_summary() -> None:
    pieces = await played(
        done({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}), COMPLETED
    )
    assert [item.text for item in said(pieces) if isinstance(item, Reasoning)] == ["Hm."]


async def test_functions_and_custom_tools_are_called() -> None:
    pieces = await played(
        done({"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"a":1}'}),
        done({"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"}, 1),
        done({"type": "function_call", "call_id": "", "name": "plan", "arguments": ""}, 2),
        COMPLETED,
    )
    calls = [item for item in said(pieces) if isinstance(item, ToolCall)]
    assert [(call.name, call.arguments, call.kind) for call in calls] == [
        ("shell", '{"a":1}', "function"),
        ("apply_patch", "*** Begin", "custom"),
        ("plan", "{}", "function"),
    ]
    assert [call.call_id for call in calls[:2]] == ["c1", "c2"]
    assert calls[2].call_id
    assert isinstance(pieces[-1], AnswerEnd)
    assert pieces[-1].stop_reason == "tool_calls"


async def test_a_hosted_search_is_told_twice() -> None:
    search = {"type": "web_search_call", "id": "ws_1"}
    pieces = await played(
        {"type": "response.output_item.added", "output_index": 0, "item": search},
        done({**search, "status": "completed", "action": {"type": "search", "query": "tertulia"}}),
        done({**search, "action": {"type": "open_page", "url": "https://a.example"}}),
        COMPLETED,
    )
    assert [piece for piece in pieces if isinstance(piece, ProviderSearch)] == [
        ProviderSearch(CallId("ws_1")),
        ProviderSearch(CallId("ws_1"), "tertulia"),
        ProviderSearch(CallId("ws_1"), ""),
    ]


async def test_a_refusal_is_text_and_a_reason() -> None:
    whole = {"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]}
    for events in ([delta("I cannot.", 0, "response.refusal.delta"), done(whole)], [done(whole)]):
        pieces = await played(*events, COMPLETED)
        check_answer(pieces)
        assert [item.text for item in said(pieces) if isinstance(item, AssistantMessage)] == ["I cannot."]
        assert pieces[-1] == AnswerEnd(Usage(), "refusal")


@each_row(
    ("details", "reason"),
    [
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "content_filter"}, "refusal"),
        ({"reason": "new"}, "other"),
        (None, "other"),
    ],
)
async def test_an_answer_that_was_cut_short_says_why(details: object, reason: str) -> None:
    pieces = await played(
        delta("One"), {"type": "response.incomplete", "response": {"incomplete_details": details, "usage": {}}}
    )
    check_answer(pieces)
    assert isinstance(pieces[-1], AnswerEnd)
    assert pieces[-1].stop_reason == reason


async def test_usage_is_read_with_cached_and_reasoning_tokens() -> None:
    counts = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    pieces = await played({"type": "response.completed", "response": {"usage": counts}})
    assert pieces == [AnswerEnd(Usage(100, 60, 20, 5, 120), "stop")]


@each_row("garbled", [None, [], "many", {"input_tokens": "many"}, {"input_tokens_details": 5}])
async def test_garbled_usage_does_not_cost_the_answer(garbled: object) -> None:
    pieces = await played({"type": "response.completed", "response": {"usage": garbled}})
    assert pieces == [AnswerEnd(Usage(), "stop")]


async def test_a_failure_in_the_stream_may_pass() -> None:
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Oops."}}}
    pieces = await heard(
        RESPONSES, [event(delta("One")), event(failed)], [event(done(message("Two"))), event(COMPLETED)]
    )
    check_answer(pieces)
    assert [type(piece) for piece in pieces] == [TextDelta, RetryNotice, AnswerItem, AnswerEnd]
    assert isinstance(pieces[1], RetryNotice)
    assert "Oops." in pieces[1].message


@each_row(
    "error",
    [
        {"type": "error", "code": "context_length_exceeded", "message": "Too long."},
        {"type": "error", "error": {"code": "context_length_exceeded", "message": "Too long."}},
        {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "Too long."}}},
    ],
)
async def test_an_overflow_is_told_in_the_stream_too(error: dict[str, Any]) -> None:
    (failed,) = await played(error)
    assert isinstance(failed, AnswerFailure)
    assert failed.overflow


async def test_events_of_tomorrow_are_skipped() -> None:
    pieces = await played(
        {"type": "response.telepathy.delta", "delta": {"no": "text"}, "item": 5},
        {"type": "response.created", "response": {"instructions": "x" * 1000}},
        {"type": "keepalive"},
        {},
        done({"type": "telepathy_call", "id": "t"}),
        {"type": "response.output_item.added", "item": {"type": "message", "content": []}},
        delta(""),
        COMPLETED,
    )
    assert pieces == [AnswerEnd(Usage(), "stop")]


@each_row(
    "broken",
    [
        {"type": "response.output_text.delta", "delta": 5},
        {"type": "response.output_item.done", "item": []},
        {"type": "response.output_item.done"},
        {"type": "response.output_item.done", "item": {"type": "message", "content": 5}},
        {"type": "response.completed"},
        {"type": "response.completed", "response": []},
    ],
)
async def test_a_known_event_of_an_unknown_form_fails_at_once(broken: dict[str, Any]) -> None:
    (failed,) = await played(broken)
    assert isinstance(failed, AnswerFailure)
    assert "wire" in failed.message


async def test_a_local_shell_call_is_a_call_of_the_tool_of_that_name() -> None:
    """X-19"""
    action = {"type": "exec", "command": ["ls"], "env": {}}
    call = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "status": "completed"}
    calls = said(await played(done({**call, "action": action}), done({**call, "call_id": "c2"}), COMPLETED))
    assert [(call.name, call.call_id, call.kind) for call in calls] == [
        ("local_shell", "c1", "function"),
        ("local_shell", "c2", "function"),
    ]
    assert msgspec.json.decode(calls[0].arguments) == action
    assert calls[1].arguments == "{}"


async def test_arguments_that_come_with_the_whole_call_alone_are_bounded_too() -> None:
    """M1: some servers send no pieces."""
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "x" * 60_000}
    pieces = await played(done(call), COMPLETED, max_argument_characters=50_000)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "more than 50,000 characters of arguments" in pieces[-1].message


async def test_a_phase_is_read_and_one_that_is_not_known_is_only_sent_back() -> None:
    """Issue 25 (1): commentary and final_answer."""
    phases = ["commentary", "final_answer", "afterthought"]
    events = [done({**message(phase), "phase": phase}, index) for index, phase in enumerate(phases)]
    spoken = [item for item in said(await played(*events, COMPLETED)) if isinstance(item, AssistantMessage)]
    assert [item.phase for item in spoken] == ["commentary", "final_answer", None]
    assert [item.opaque for item in spoken] == phases


async def test_a_message_without_text_counts_only_where_it_is_the_last_word() -> None:
    """Issue 25 (1): beside calls, where providers put empty messages, it would be noise."""
    empty = {**message(""), "phase": "final_answer"}
    pieces = await played(done(message("One")), done(empty, 1), COMPLETED)
    check_answer(pieces)
    first, last = said(pieces)
    assert isinstance(first, AssistantMessage)
    assert isinstance(last, AssistantMessage)
    assert (first.text, last.parts, last.phase) == ("One", (), "final_answer")
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    for others in ([done(empty), done(call, 1)], [done(call), done(empty, 1)], [done(empty), done(message("One"), 1)]):
        (only,) = said(await played(*others, COMPLETED))
        assert not (isinstance(only, AssistantMessage) and not only.parts)
