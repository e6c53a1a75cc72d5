"""Providers that hold a task open without answering it: each wire gives up, and so does the session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import tertulia
from tertulia.models.http.sse import MAX_EVENT_BYTES
from tertulia.models.wire import AnswerFailure, AnswerPiece, RetryNotice
from tertulia.testing import RecordedEvents, check_invariants
from tests.deadlines import HANG_S
from tests.loop_steps import MOST_S, loop_steps
from tests.models.apis import MESSAGES, RESPONSES, Api, every_api
from tests.models.mock_provider import Endless, MockProvider, Reply, Told, event
from tests.models.wire_contract import a_request, check_answer, read
from tests.tables import each_row

DEADLINE_S = HANG_S
PLAIN = Told(text="One two three.")
CALL = Told(calls=(("call_1", "weather", '{"city": "Rome"}'),))

COMMENT = b": keep-alive\n\n"
EMPTY: dict[str, list[bytes]] = {
    "responses": [
        COMMENT,
        event({"type": "response.in_progress", "response": {}}),
        event({"type": "response.output_text.delta", "output_index": 0, "delta": ""}),
        event({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": ""}),
    ],
    "chat": [
        COMMENT,
        event({"choices": []}),
        event({"choices": [{"delta": {"content": ""}}]}),
        event({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}}]}),
    ],
    "messages": [
        COMMENT,
        event({"type": "ping"}),
        event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}),
        event({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}}),
    ],
}
MORE: dict[str, dict[str, Any]] = {
    "responses": {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "x" * 1_000},
    "chat": {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "x" * 1_000}}]}}]},
    "messages": {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "x" * 1_000},
    },
}


async def asked(api: Api, reply: Reply, **settings: Any) -> tuple[list[AnswerPiece], MockProvider]:
    async with MockProvider(reply) as mock, asyncio.timeout(DEADLINE_S):
        wire = api.wire(mock.url, **settings)
        pieces = await read(wire, a_request(dialect=wire.dialect))
        await wire.close()
        check_answer(pieces)
        assert mock.open_streams == 0
        return pieces, mock


@each_row("number", range(4), ids=["comments", "events", "empty texts", "empty arguments"])
@pytest.mark.parametrize("begun", [False, True], ids=["from the start", "in the middle"])
@every_api
async def test_signs_of_life_without_an_answer_count_as_cut(api: Api, number: int, begun: bool) -> None:
    """M1: keep-alive comments held a task open on all wires."""
    first = api.begun(PLAIN, "One") if begun else []
    reply = Reply(Endless((*first, EMPTY[api.name][number])))
    pieces, mock = await asked(api, reply, stream_progress_timeout_ms=150, stream_max_retries=1)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "nothing of the answer came for too long (stream_progress_timeout_ms)" in pieces[-1].message
    assert [type(piece) for piece in pieces if isinstance(piece, RetryNotice | AnswerFailure)] == [
        RetryNotice,
        AnswerFailure,
    ]
    assert len(mock.seen) == 2


@every_api
async def test_endless_arguments_are_cut_at_the_bound(api: Api) -> None:
    """M1: on Responses they ran for 60 s."""
    begun = api.begun(CALL, "weather")
    reply = Reply(Endless((*begun, event(MORE[api.name]))))
    pieces, mock = await asked(api, reply, max_argument_characters=50_000)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "more than 50,000 characters of arguments (max_argument_characters)" in pieces[-1].message
    assert len(mock.seen) == 1, "the same request would come to the same"


@every_api
async def test_arguments_that_come_at_once_are_bounded_too(api: Api) -> None:
    """M1."""
    reply = Told(calls=(("call_1", "weather", json.dumps({"city": "x" * 60_000})),))
    pieces, _ = await asked(api, api.answer(reply), max_argument_characters=50_000)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "max_argument_characters" in pieces[-1].message
    pieces, _ = await asked(api, api.answer(reply), max_argument_characters=70_000)
    assert not isinstance(pieces[-1], AnswerFailure)


@every_api
async def test_an_endless_answer_is_cut_at_the_bound(api: Api) -> None:
    """M1: of many calls, too."""
    calls = tuple((f"call_{number}", "weather", json.dumps({"city": "x" * 10_000})) for number in range(12))
    pieces, _ = await asked(api, api.answer(Told(calls=calls)), max_answer_characters=100_000)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "longer than 100,000 characters (max_answer_characters)" in pieces[-1].message


@every_api
async def test_an_event_of_too_many_parts_is_refused_before_it_is_built(api: Api) -> None:
    """L1."""
    parts = b'data: {"type":"response.completed","choices":[' + b"{}," * 1_000_000 + b"{}]}\n\n"
    async with loop_steps() as steps:
        pieces, _ = await asked(api, Reply((parts,)))
    assert isinstance(pieces[-1], AnswerFailure)
    assert "an event of more than 200,000 parts" in pieces[-1].message
    assert steps.longest_s < MOST_S


@pytest.mark.parametrize("api", [RESPONSES, MESSAGES], ids=["responses", "messages"])
@pytest.mark.parametrize("how", ["silent", "arguments"])
async def test_a_task_ends_failed_with_the_reason_and_the_next_one_runs(api: Api, how: str) -> None:
    """M1, through the session."""
    endless = Endless((COMMENT,)) if how == "silent" else Endless((*api.begun(CALL, "weather"), event(MORE[api.name])))
    settings = {"stream_progress_timeout_ms": 150, "stream_max_retries": 0, "max_argument_characters": 50_000}
    replies = [Reply(endless), api.answer(PLAIN)]
    async with MockProvider(lambda _: replies.pop(0)) as mock, asyncio.timeout(DEADLINE_S):
        wire = api.wire(mock.url, **settings)
        async with tertulia.Session.start(tertulia.Settings(model=wire)) as session, RecordedEvents(session) as events:
            failed = await session.root.message("Go on.")
            assert (failed.status, failed.error and failed.error.code) == ("failed", "model_error")
            assert "(stream_progress_timeout_ms)" in str(failed.error) or "(max_argument_characters)" in str(
                failed.error
            )
            assert (await session.root.message("Again.")).text == PLAIN.text
            await session.close()
        await wire.close()
    check_invariants(events.seen)


@every_api
async def test_events_without_number_hold_the_loop_never_for_long(api: Api) -> None:
    """L1: all that had come in one piece was read in one step."""
    pings = b'data: {"type":"ping"}\n\n' * 40_000
    async with loop_steps() as steps:
        pieces, _ = await asked(api, Reply((pings,)), stream_max_retries=0)
    assert isinstance(pieces[-1], AnswerFailure)
    assert steps.longest_s < MOST_S


@every_api
async def test_an_event_that_takes_long_to_read_is_refused_by_its_length(api: Api) -> None:
    """L1: 31 MB of escapes were read in a step of 121 ms."""
    long = b'data: {"type":"ping","a":"' + rb"\"" * (MAX_EVENT_BYTES // 2) + b'"}\n\n'
    async with loop_steps() as steps:
        pieces, _ = await asked(api, Reply((long,)), stream_max_retries=0)
    assert isinstance(pieces[-1], AnswerFailure)
    assert "an event of more than 16,777,216 bytes" in pieces[-1].message
    assert steps.longest_s < MOST_S
