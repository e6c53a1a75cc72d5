"""Trying a model out: what counts as working, and what is measured."""

from __future__ import annotations

import pytest

from tertulia.cli.models.trial import TimedAnswer, try_model
from tertulia.models.scripted.script import ScriptedReply, call, fail
from tertulia.models.scripted.scripted_model import ReplyLike, ScriptedModel
from tertulia.protocol.items import Usage
from tertulia.session.settings.settings import Settings

HELLO = ScriptedReply(text="Hello there.", usage=Usage(30, 0, 4, 0, 34))


class Ticking:
    """A second goes by between any two looks at it."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        self.time += 1.0
        return self.time


def calling(name: str) -> ScriptedReply:
    return ScriptedReply(tool_calls=(call("reserved_table", {"name": name}),))


def model(*replies: ReplyLike, name: str = "scripted/trial") -> ScriptedModel:
    return ScriptedModel(replies, name=name)


async def test_a_model_that_answers_and_calls_the_tool_has_passed() -> None:
    tried = model(HELLO, calling("Ana"), "Table 4217.")
    trial = await try_model(Settings(model=tried), Ticking())
    assert trial.passed
    assert trial.answer == TimedAnswer("Hello there.", None, 1.0, 2.0, Usage(30, 0, 4, 0, 34))
    assert trial.tool_call is not None
    assert trial.tool_call.text == "Table 4217."
    assert "4217" in tried.requests[-1].items[-1].text
    assert tried.remaining == 0


async def test_nothing_of_it_is_stored_and_only_the_one_tool_is_offered() -> None:
    tried = model(HELLO, "Table 5.")
    await try_model(Settings(model=tried, include_plan_tool=True))
    assert [[tool.name for tool in request.request.tools] for request in tried.requests] == [["reserved_table"]] * 2
    assert not any(request.request.store for request in tried.requests)


async def test_a_model_that_gives_no_answer_has_not_passed_and_is_not_asked_again() -> None:
    tried = model(fail("The key was refused"), "never")
    trial = await try_model(Settings(model=tried))
    assert not trial.passed
    assert (trial.answer.error, trial.tool_call) == ("The key was refused", None)
    assert tried.remaining == 1


async def test_a_model_that_calls_no_tool_has_not_passed() -> None:
    trial = await try_model(Settings(model=model(HELLO, "It must be table 12.")))
    assert not trial.passed
    assert trial.tool_error == "it answered without calling the tool"


async def test_a_model_that_calls_it_for_somebody_else_has_not_passed() -> None:
    trial = await try_model(Settings(model=model(HELLO, calling("Bob"), "Table 4217.")))
    assert not trial.passed
    assert trial.tool_error == "it called the tool with another argument than 'Ana'"


async def test_a_model_that_fails_after_the_call_has_not_passed() -> None:
    trial = await try_model(Settings(model=model(HELLO, calling("Ana"), fail("Overloaded"))))
    assert not trial.passed
    assert trial.tool_error == "Overloaded"


async def test_a_model_that_is_known_to_be_offered_no_tools_is_not_tried_with_one() -> None:
    """The embedded model is honest about itself."""
    tried = model(HELLO, "never", name="local/smollm2")
    trial = await try_model(Settings(model=tried))
    assert trial.passed
    assert trial.tool_call is None
    assert tried.remaining == 1


@pytest.mark.parametrize(
    ("timed", "shown"),
    [
        (
            TimedAnswer("x", None, 0.5, 2.5, Usage(9, 0, 100, 0, 109)),
            "first piece after 0.50 s, all after 2.50 s, 100 tokens, 50 a second",
        ),
        (TimedAnswer("", None, None, 2.5, Usage(9, 0, 0, 0, 9)), "2.50 s in all, 0 tokens"),
        (
            TimedAnswer("x", None, 2.5, 2.5, Usage(9, 0, 1, 0, 10)),
            "first piece after 2.50 s, all after 2.50 s, 1 tokens, 1000 a second",
        ),
    ],
)
def test_timings_are_told_in_words(timed: TimedAnswer, shown: str) -> None:
    assert timed.timings == shown
