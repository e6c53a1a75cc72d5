"""The scripted model: the contract of every wire, and what only a script can do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError, NotFoundError, TaskTimeoutError
from tertulia.models.scripted.script import ScriptedCall, ScriptedError, ScriptedReply, ScriptedRequest, call, fail, say
from tertulia.models.scripted.scripted_model import MAX_REQUESTS_KEPT, ReplyLike, ScriptedModel
from tertulia.models.wire import (
    AnswerEnd,
    AnswerFailure,
    AnswerItem,
    AnswerPiece,
    ModelRequest,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
    Wire,
)
from tertulia.protocol.ids import CallId, new_item_id
from tertulia.protocol.items import AssistantMessage, Reasoning, ToolCall, ToolOutput, Usage, text_parts
from tertulia.protocol.tool_spec import ToolSpec
from tests.deadlines import HANG_S
from tests.models.wire_contract import Act, WireContract, a_request, check_answer, read, until
from tests.tables import each_row


class TestContract(WireContract):
    """The scripted model performs every act, so whoever handles it handles any wire."""

    @asynccontextmanager
    async def wire_that(self, act: Act) -> AsyncIterator[Wire]:
        never = asyncio.Event()

        async def sleep(seconds: float) -> None:
            await never.wait()

        replies: dict[Act, ReplyLike] = {
            "answers": "One two three.",
            "thinks": say("Yes.", reasoning="Let me see."),
            "calls_tools": ScriptedReply(tool_calls=(call("shell"), call("update_plan"))),
            "says_nothing": "",
            "retries": ScriptedReply(text="One two three.", retrying="The connection was lost"),
            "fails": fail("Overloaded"),
            "overflows": fail("Too long", overflow=True),
            "hangs": say("Never.", gate=never),
            "stalls": ScriptedReply(text="One two", delay_between_ms=1),
        }
        yield ScriptedModel([replies[act]], repeat=True, sleep=sleep)

    def open_streams(self, wire: Wire) -> int:
        assert isinstance(wire, ScriptedModel)
        return wire.streaming


async def answer(model: ScriptedModel, text: str = "Hello") -> str:
    return said(await read(model, a_request(text)))


def said(pieces: list[AnswerPiece]) -> str:
    return "".join(
        piece.item.text
        for piece in pieces
        if isinstance(piece, AnswerItem) and isinstance(piece.item, AssistantMessage)
    )


def calls(pieces: list[AnswerPiece]) -> list[ToolCall]:
    return [piece.item for piece in pieces if isinstance(piece, AnswerItem) and isinstance(piece.item, ToolCall)]


def kinds(pieces: list[AnswerPiece]) -> list[type]:
    return [type(piece) for piece in pieces]


class Sleeps:
    """Waits for nothing and remembers how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


# ---- what it says


async def test_an_answer_is_thought_then_said_then_acted_on() -> None:
    pieces = await read(ScriptedModel([say("I look.", call("shell"), reasoning="Hm, yes.")]), a_request())
    check_answer(pieces)
    assert kinds(pieces) == [ReasoningDelta] * 2 + [AnswerItem] + [TextDelta] * 2 + [AnswerItem, AnswerItem, AnswerEnd]
    thought, message, tool_call = (piece.item for piece in pieces if isinstance(piece, AnswerItem))
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.dialect) == ("Hm, yes.", "items")
    assert isinstance(message, AssistantMessage)
    assert message.text == "I look."
    assert isinstance(tool_call, ToolCall)
    assert (tool_call.name, tool_call.arguments, tool_call.kind) == ("shell", "{}", "function")


@given(st.text(), st.none() | st.integers(1, 5))
def test_deltas_are_words_or_chunks_and_add_up(text: str, chunk: int | None) -> None:
    pieces = asyncio.run(read(ScriptedModel([text], chunk=chunk), a_request()))
    check_answer(pieces)
    deltas = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
    assert "".join(deltas) == said(pieces) == text
    if chunk is None:
        assert all(re.fullmatch(r"\S+\s*|\s+", delta) for delta in deltas)
    else:
        assert all(len(delta) == chunk for delta in deltas[:-1])


async def test_an_empty_text_is_an_answer_without_items() -> None:
    assert kinds(await read(ScriptedModel([""]), a_request())) == [AnswerEnd]


async def test_a_huge_text_lets_others_run_while_it_is_said() -> None:
    """Text of 10 MB."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    text = ("x" * 999 + " ") * 10_000
    async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
        ticker = group.create_task(tick())
        pieces = await read(ScriptedModel([text]), a_request())
        ticker.cancel()
    assert said(pieces) == text
    assert ticks > 100


async def test_an_error_replaces_the_ending_and_its_last_item_never_becomes_whole() -> None:
    broken = ScriptedReply(text="I begin", tool_calls=(call("a"), call("b")), error=ScriptedError("Gone", "timeout"))
    pieces = await read(ScriptedModel([broken]), a_request())
    assert [made.name for made in calls(pieces)] == ["a"]
    assert pieces[-1] == AnswerFailure("Gone", "timeout")
    pieces = await read(ScriptedModel([{"text": "I begin", "error": "Gone"}]), a_request())
    assert kinds(pieces) == [TextDelta, TextDelta, AnswerFailure]


async def test_a_cut_stream_just_stops() -> None:
    assert kinds(await read(ScriptedModel([{"text": "I begin", "cut": True}]), a_request())) == [TextDelta] * 2
    assert await read(ScriptedModel([{"cut": True}]), a_request()) == []


async def test_a_retry_withdraws_half_of_the_text() -> None:
    pieces = await read(ScriptedModel([{"text": "a b c d", "retrying": "lost"}]), a_request())
    check_answer(pieces)
    cut = pieces.index(RetryNotice("lost"))
    assert "".join(piece.text for piece in pieces[:cut] if isinstance(piece, TextDelta)) == "a b "
    assert said(pieces) == "a b c d"


async def test_stop_reasons_follow_from_the_answer_unless_given() -> None:
    model = ScriptedModel(["a", call("shell"), {"text": "a", "stop_reason": "length"}])
    endings = [(await read(model, a_request()))[-1] for _ in range(3)]
    assert [ending.stop_reason for ending in endings if isinstance(ending, AnswerEnd)] == [
        "stop",
        "tool_calls",
        "length",
    ]


# ---- tokens


async def test_usage_is_estimated_from_what_was_asked_and_said() -> None:
    request = a_request("Hello", instructions="é" * 40, tools=(ToolSpec.define("shell", "Runs."),))
    reply = say("x" * 40, call("shell", {"a": 1}), reasoning="y" * 8)
    pieces = [await read(ScriptedModel([reply]), request) for _ in range(2)]
    count = 80 + len(request.tools_json) + len(request.chunks[0])
    expected = Usage(
        input_tokens=-(-count // 4),
        output_tokens=(8 + 40 + len("shell") + len('{"a":1}')) // 4,
        reasoning_output_tokens=2,
        total_tokens=-(-count // 4) + 15,
    )
    assert [piece[-1] for piece in pieces] == [AnswerEnd(expected, "tool_calls")] * 2


async def test_usage_can_be_given_and_its_total_is_the_sum_unless_given() -> None:
    model = ScriptedModel(
        [
            {"text": "a", "usage": {"input_tokens": 10, "output_tokens": 5}},
            {"text": "a", "usage": {"input_tokens": 10, "cached_input_tokens": 8, "total_tokens": 12}},
        ]
    )
    assert (await read(model, a_request()))[-1] == AnswerEnd(Usage(10, 0, 5, 0, 15))
    assert (await read(model, a_request()))[-1] == AnswerEnd(Usage(10, 8, 0, 0, 12))


# ---- tool calls


async def test_calls_are_numbered_through_the_life_of_the_model() -> None:
    model = ScriptedModel([ScriptedReply(tool_calls=(call("a"), call("b"))), call("c")])
    made = [call for _ in range(2) for call in calls(await read(model, a_request()))]
    assert [call.call_id for call in made] == ["call_1", "call_2", "call_3"]


async def test_a_number_that_is_taken_is_left_out() -> None:
    earlier = [
        ToolCall(new_item_id(), CallId("call_2"), "shell", "{}"),
        ToolOutput(new_item_id(), CallId("call_2"), text_parts("done")),
    ]
    reply = ScriptedReply(tool_calls=(call("a"), call("b"), call("c", call_id="call_3")))
    made = calls(await read(ScriptedModel([reply]), a_request(items=earlier)))
    assert [call.call_id for call in made] == ["call_1", "call_4", "call_3"]


async def test_what_a_bad_model_would_send_can_be_sent() -> None:
    """Broken arguments, unknown tools, a call id twice, an empty call id."""
    reply = ScriptedReply(
        tool_calls=(call("no such tool", "{broken", "x"), call("shell", "[]", "x"), call("shell", {}, ""))
    )
    made = calls(await read(ScriptedModel([reply]), a_request()))
    assert [(call.name, call.arguments, call.call_id) for call in made] == [
        ("no such tool", "{broken", "x"),
        ("shell", "[]", "x"),
        ("shell", "{}", ""),
    ]


async def test_a_custom_tool_is_called_the_way_it_was_offered() -> None:
    tools = (ToolSpec.define("apply_patch", "", kind="custom"), ToolSpec.define("shell", ""))
    reply = ScriptedReply(tool_calls=(call("apply_patch", "*** Begin Patch"), call("shell")))
    made = calls(await read(ScriptedModel([reply]), a_request(tools=tools)))
    assert [(call.kind, call.arguments) for call in made] == [("custom", "*** Begin Patch"), ("function", "{}")]
    wrapped = calls(await read(ScriptedModel([call("apply_patch", {"input": "x"})]), a_request(tools=tools)))
    assert [(step.kind, step.arguments) for step in wrapped] == [("function", '{"input":"x"}')]


# ---- which reply, and when


async def test_a_request_takes_its_reply_when_it_is_made_and_not_when_it_is_read() -> None:
    model = ScriptedModel(["first", "second"])
    async with aclosing(model.stream(a_request())) as first, aclosing(model.stream(a_request())) as second:
        assert model.remaining == 0
        later = [piece async for piece in second]
        earlier = [piece async for piece in first]
    assert (said(earlier), said(later)) == ("first", "second")


async def test_replies_are_chosen_by_the_newest_input() -> None:
    model = ScriptedModel([say("sun", match="weather"), "one", {"text": "always", "repeat": True}])
    questions = ("Hi", "The WEATHER?", "weather", "weather")
    assert [await answer(model, question) for question in questions] == ["one", "sun", "always", "always"]


async def test_a_model_that_repeats_begins_again() -> None:
    model = ScriptedModel(["one", "two"], repeat=True)
    assert [await answer(model) for _ in range(5)] == ["one", "two", "one", "two", "one"]
    assert model.remaining == 0


async def test_delays_are_waited_for_before_the_first_piece_and_between_pieces() -> None:
    sleeps = Sleeps()
    reply = ScriptedReply(text="a b c", delay_ms=1500, delay_between_ms=50)
    pieces = await read(ScriptedModel([reply, "a b c"], sleep=sleeps), a_request())
    assert sleeps.seconds == [1.5] + [0.05] * (len(pieces) - 1)


async def test_no_delay_means_no_sleep() -> None:
    sleeps = Sleeps()
    await read(ScriptedModel(["a b c"], sleep=sleeps), a_request())
    assert sleeps.seconds == []


async def test_a_gate_holds_the_reply_until_it_opens() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([say("Done.", gate=gate), "Free."])
    heard: list[AnswerPiece] = []
    async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
        reader = group.create_task(read(model, a_request(), heard))
        await until(lambda: model.streaming == 1)
        assert await answer(model) == "Free."
        assert heard == []
        gate.set()
    assert said(reader.result()) == "Done."


# ---- failures


async def test_a_script_that_is_used_up_fails_and_says_what_it_had_and_what_was_asked() -> None:
    model = ScriptedModel(["one", say("two", match="never"), say("three", match="nor this")])
    await answer(model)
    assert await read(model, a_request("And\nnow?")) == [
        AnswerFailure(
            "scripted/inline has no reply left: it had 3, 2 of them for an input that this one does not match; "
            "asked last: 'And\\nnow?'",
            another_may_help=True,
        )
    ]
    assert await read(ScriptedModel(), a_request(items=[])) == [
        AnswerFailure("scripted/inline has no reply left: it had 0", another_may_help=True)
    ]


async def test_what_was_asked_is_quoted_at_most_200_characters_long() -> None:
    (failure,) = await read(ScriptedModel(), a_request("x" * 10_000_000))
    assert isinstance(failure, AnswerFailure)
    assert failure.message.endswith("asked last: '" + "x" * 199 + "…'")


async def test_what_may_not_be_kept_is_not_quoted() -> None:
    """DESIGN: storage policy is total; an error travels to logs and records."""
    (failure,) = await read(ScriptedModel(), a_request("canary", store=False))
    assert failure == AnswerFailure("scripted/inline has no reply left: it had 0", another_may_help=True)


async def test_an_agent_error_is_a_failure_with_its_code() -> None:
    assert await read(ScriptedModel([TaskTimeoutError("Too slow")]), a_request()) == [
        AnswerFailure("Too slow", "timeout")
    ]


async def test_any_other_exception_is_raised_and_the_model_goes_on() -> None:
    model = ScriptedModel([ZeroDivisionError("broken wire"), "Still here."])
    with pytest.raises(ZeroDivisionError, match="broken wire"):
        await read(model, a_request())
    assert model.streaming == 0
    assert await answer(model) == "Still here."


# ---- functions that answer


async def test_a_function_answers_from_what_was_asked() -> None:
    model = ScriptedModel([lambda request: request.last_input.upper()], repeat=True)
    assert [await answer(model, text) for text in ("a", "b")] == ["A", "B"]


async def test_a_function_may_be_async_and_may_wait() -> None:
    gate = asyncio.Event()

    async def reply(request: ScriptedRequest) -> ScriptedCall:
        await gate.wait()
        return call("echo", {"text": request.last_input})

    model = ScriptedModel([reply])
    async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
        reader = group.create_task(read(model, a_request("Hi")))
        await until(lambda: model.streaming == 1)
        assert not reader.done()
        gate.set()
    assert calls(reader.result())[0].arguments == '{"text":"Hi"}'


def _raise(error: Exception) -> str:
    raise error


async def test_a_function_fails_as_a_reply_would() -> None:
    model = ScriptedModel(
        [
            lambda request: TaskTimeoutError("returned"),
            lambda request: _raise(TaskTimeoutError("raised")),
            lambda request: 42,
            lambda request: {"txt": "a"},
            lambda request: ValueError("returned"),
            lambda request: _raise(ValueError("raised")),
        ]
    )
    failures = [(await read(model, a_request()))[0] for _ in range(4)]
    place = "scripted/inline, what a function answered: "
    assert failures == [
        AnswerFailure("returned", "timeout"),
        AnswerFailure("raised", "timeout"),
        AnswerFailure(f"{place}expected a text or a mapping, not a whole number", "invalid_params"),
        AnswerFailure(f"{place}unknown key `txt`; did you mean `text`?", "invalid_params"),
    ]
    for message in ("returned", "raised"):
        with pytest.raises(ValueError, match=message):
            await read(model, a_request())


# ---- what it remembers


async def test_requests_can_be_read_and_only_the_last_thousand_are_kept() -> None:
    model = ScriptedModel(["a"], repeat=True)
    with pytest.raises(NotFoundError, match="scripted/inline has not been asked anything yet"):
        _ = model.last_request
    assert model.requests == []
    for number in range(MAX_REQUESTS_KEPT + 5):
        model.stream(a_request(str(number)))
    assert len(model.requests) == MAX_REQUESTS_KEPT == 1_000
    assert model.requests[0].last_input == "5"
    assert model.last_request.last_input == str(MAX_REQUESTS_KEPT + 4)


async def test_requests_of_all_conversations_are_kept_in_order() -> None:
    model = ScriptedModel(["a", "b"])
    requests: list[ModelRequest] = [a_request("first"), a_request("second")]
    for request in requests:
        await read(model, request)
    assert [request.conversation_id for request in model.requests] == [request.conversation_id for request in requests]


# ---- making one


def test_remaining_counts_what_was_never_used() -> None:
    model = ScriptedModel(["a", "b"])
    assert model.remaining == 2
    model.stream(a_request())
    assert model.remaining == 1


@each_row("replies", ["Hello", {"text": "Hello"}])
def test_a_single_reply_must_stand_in_a_list(replies: object) -> None:
    with pytest.raises(InvalidParamsError, match="replies must be a list, even of one reply"):
        ScriptedModel(replies)


def test_a_wrong_reply_is_named_by_its_number() -> None:
    with pytest.raises(InvalidParamsError, match=r"^reply 2: unknown key `txt`; did you mean `text`\?$"):
        ScriptedModel(["a", {"txt": "b"}])
    with pytest.raises(InvalidParamsError, match=r"^reply 1: expected a text or a mapping, not nothing$"):
        ScriptedModel([None])


def test_sizes_must_make_sense() -> None:
    for chunk in (0, -1):
        with pytest.raises(InvalidParamsError, match="chunk must be at least 1"):
            ScriptedModel(["a"], chunk=chunk)
    for window in (0, -1):
        with pytest.raises(InvalidParamsError, match="context_window must be at least 1"):
            ScriptedModel(["a"], context_window=window)


async def test_a_model_is_made_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": [{"text": "a b", "delay_ms": 5}], "repeat": True, "context_window": 9}))
    sleeps = Sleeps()
    model = ScriptedModel.from_file(path, sleep=sleeps)
    assert (model.name, model.family, model.context_window) == (f"scripted/{path}", "scripted", 9)
    assert [await answer(model) for _ in range(2)] == ["a b", "a b"]
    assert sleeps.seconds == [0.005, 0.005]


# ---- the tour


@each_row(
    ("question", "answered"),
    [
        ("Fix the bug in app.py", "not a language model"),
        ("", "not a language model"),
        ("x" * 100_000, "not a language model"),
        ("How do I use OpenAI?", "OPENAI_API_KEY"),
        ("which model are you", "OPENAI_API_KEY"),
        ("How do I test my agent?", "tertulia.testing.ScriptedModel"),
        ("What is Tertulia?", "many isolated conversations"),
    ],
)
async def test_the_tour_answers_anything_says_what_it_is_and_never_ends(question: str, answered: str) -> None:
    model = ScriptedModel.tour()
    assert model.name == "scripted/tour"
    answers = [await answer(model, question) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0].startswith("I am the scripted tour of Tertulia")
    assert answered in answers[0]
