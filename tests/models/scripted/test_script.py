"""What a reply is, and what it cannot be."""

from __future__ import annotations

import asyncio
import math

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models.scripted.script import Match, ScriptedCall, ScriptedError, ScriptedReply, call, fail, say
from tertulia.protocol.inputs import MAX_TEXT_BYTES
from tertulia.protocol.items import Usage
from tests.tables import each_row


def test_say_makes_an_answer_with_calls_after_it() -> None:
    gate = asyncio.Event()
    reply = say("Looking.", call("a"), call("b"), reasoning="Hm.", match="notes", repeat=True, gate=gate)
    assert reply == ScriptedReply(
        text="Looking.",
        reasoning="Hm.",
        tool_calls=(ScriptedCall("a"), ScriptedCall("b")),
        match=Match(contains="notes"),
        repeat=True,
        gate=gate,
    )
    assert say("Yes.", match=Match(regex="x")).match == Match(regex="x")


def test_a_call_writes_its_arguments_as_a_model_would() -> None:
    assert call("shell", {"command": ["ls"], "café": 1}).arguments == '{"command":["ls"],"café":1}'
    assert call("shell").arguments == "{}"
    assert call("shell", "{broken", "call_9") == ScriptedCall("shell", "{broken", "call_9")


def test_fail_makes_a_failure() -> None:
    assert fail("Too long", overflow=True).error == ScriptedError("Too long", "model_error", True)
    assert fail("Late", code="timeout").error == ScriptedError("Late", "timeout", False)


def test_arguments_that_are_not_json_are_refused() -> None:
    endless: dict[str, object] = {}
    endless["again"] = endless
    for arguments in ({"a": object()}, {"a": "\ud800"}, endless):
        with pytest.raises(InvalidParamsError, match="arguments cannot be written as JSON"):
            call("shell", arguments)


@each_row(
    ("match", "last_input", "instructions", "meets"),
    [
        (Match(contains="HELLO"), "well, hello there", "", True),
        (Match(contains="straße"), "STRASSE", "", True),
        (Match(contains="hello"), "", "hello", False),
        (Match(contains=""), "", "", True),
        (Match(regex=r"^\d+$"), "42", "", True),
        (Match(regex=r"^\d+$"), "42 or so", "", False),
        (Match(regex="hello"), "HELLO", "", False),
        (Match(conversation="review"), "anything", "You REVIEW code.", True),
        (Match(conversation="review"), "review", "You write code.", False),
        (Match(contains="app", conversation="review"), "app.py", "You review code.", True),
        (Match(contains="app", conversation="review"), "lib.py", "You review code.", False),
        (Match(contains="app", regex="z"), "app", "", False),
    ],
)
def test_a_match_holds_when_all_its_conditions_do(
    match: Match, last_input: str, instructions: str, meets: bool
) -> None:
    assert match.meets(last_input, instructions) is meets


def test_a_match_needs_a_condition_that_can_hold() -> None:
    with pytest.raises(InvalidParamsError, match="match needs contains, regex or conversation"):
        Match()
    for regex in ("(", "[", "*", "a{99999999999}", "(?P<x>a)(?P<x>b)"):
        with pytest.raises(InvalidParamsError, match="regular expression"):
            Match(regex=regex)


@each_row("delay", [-1, math.nan, math.inf, 3_600_001])
def test_a_delay_is_at_most_an_hour(delay: float) -> None:
    ScriptedReply(text="a", delay_ms=3_600_000, delay_between_ms=3_600_000)
    for field in ("delay_ms", "delay_between_ms"):
        with pytest.raises(InvalidParamsError, match="a delay must lie between 0 and 3,600,000 ms"):
            ScriptedReply(text="a", **{field: delay})


def test_a_reply_must_do_something() -> None:
    for fields in ({"text": ""}, {"reasoning": "a"}, {"tool_calls": (call("a"),)}, {"cut": True}):
        ScriptedReply(**fields)
    for fields in ({}, {"reasoning": ""}, {"delay_ms": 5}, {"retrying": "again"}):
        with pytest.raises(InvalidParamsError, match="a reply needs text, tool_calls, error or cut"):
            ScriptedReply(**fields)


def test_a_reply_has_one_ending() -> None:
    with pytest.raises(InvalidParamsError, match="give one of them"):
        ScriptedReply(error=ScriptedError("a"), cut=True)


def test_usage_cannot_be_negative() -> None:
    with pytest.raises(InvalidParamsError, match="usage cannot be negative"):
        ScriptedReply(text="a", usage=Usage(reasoning_output_tokens=-1))


def test_texts_must_be_valid_unicode_of_bounded_size() -> None:
    for make in (
        say,
        lambda text: say("a", reasoning=text),
        lambda text: ScriptedReply(text="a", retrying=text),
        call,
        lambda text: call("a", text),
        lambda text: call("a", {}, text),
        fail,
    ):
        with pytest.raises(InvalidParamsError, match="lone surrogate"):
            make("\ud800")
        with pytest.raises(InvalidParamsError, match="the limit is"):
            make("x" * (MAX_TEXT_BYTES + 1))
