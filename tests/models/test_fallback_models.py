"""Fallback models: who answers where a model has finally failed, over real wires, and what stays as it was."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia import errors
from tertulia.protocol.events import BackgroundEvent, WarningEvent
from tertulia.testing import ScriptedModel
from tests.contract.python_session import past, soon
from tests.contract.test_command_line import run
from tests.models.apis import MESSAGES, RESPONSES
from tests.models.mock_provider import MockProvider, Reply, Seen, Told, refused
from tests.models.test_wire_sessions import weather
from tests.tables import each_row

FREE = {"input": 1.0, "output": 1.0}


class Answers:
    """Says these things, one after another."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = [*replies]

    def __call__(self, seen: Seen) -> Reply:
        return self._replies.pop(0)


def start(first: str, second: str, **more: Any) -> Any:
    once = {"request_max_retries": 0, "stream_max_retries": 0}
    providers = {
        "first": {"base_url": first, "wire": "responses", **once},
        "second": {"base_url": second, "wire": "messages", **once},
    }
    settings = {"model": "first/large", "fallback_models": ["second/small"], "model_providers": providers, **more}
    return tertulia.Session.start(tertulia.Settings(tools=[weather], **settings))


def error(status: str, code: str = "", message: str = "no") -> Reply:
    return refused(status, {"error": {"code": code, "message": message}})


@each_row(
    ("reply", "helps"),
    [
        (error("503 Unavailable"), True),
        (error("529 Overloaded", "overloaded_error"), True),
        (error("429 Too Many", "rate_limit_exceeded"), True),
        (error("429 Too Many", "insufficient_quota"), True),
        (error("404 Not Found", "model_not_found"), True),
        (error("400 Bad Request", "model_not_found"), True),
        (Reply((b"garbage\r\n\r\n",), raw=True), True),
        (Reply((*RESPONSES.begun(Told(text="half of it"), "output_text.delta"), "cut")), True),
        (error("400 Bad Request", "invalid_request_error"), False),
        (error("401 Unauthorized"), False),
        (error("403 Forbidden"), False),
    ],
)
async def test_another_model_answers_what_another_model_can_mend(reply: Reply, helps: bool) -> None:
    """Issue 24 (3): not a request that is wrong, and not a key."""
    async with (
        MockProvider(reply) as first,
        MockProvider(MESSAGES.answer(Told(text="Yes."))) as second,
        start(first.url, second.url) as session,
    ):
        answer = await soon(session.root.message("Is it?"))
    assert (answer.text, answer.status) == (("Yes.", "completed") if helps else (None, "failed"))
    assert (len(first.seen), len(second.seen)) == (1, int(helps))


async def test_the_next_model_has_the_rest_of_the_task_and_an_event_says_why() -> None:
    """Its own tools and wire, nothing that the first wanted for itself; the next task begins with the first again."""
    thinking = Told(thought="hm", seal="canary-sealed", calls=(("c1", "weather", '{"city": "Rome"}'),))
    first = Answers(RESPONSES.answer(thinking), error("503 Unavailable"), RESPONSES.answer(Told(text="Back.")))
    calls = Told(calls=(("c2", "weather", '{"city": "Oslo"}'),))
    second = Answers(MESSAGES.answer(calls), MESSAGES.answer(Told(text="Sunny.")))
    async with MockProvider(first) as one, MockProvider(second) as other, start(one.url, other.url) as session:
        assert (await soon(session.root.message("Weather?"))).text == "Sunny."
        assert (len(one.seen), len(other.seen)) == (2, 2)
        assert b"canary-sealed" not in b"".join(seen.body for seen in other.seen)
        names = {tool["name"] for tool in other.seen[0].json["tools"]}
        assert {"weather", "update_plan"} <= names
        assert (await soon(session.root.message("And?"))).text == "Back."
        events = [event.data for event in await past(session)]
    (warning,) = [data for data in events if isinstance(data, WarningEvent) and data.code == "model_fallback"]
    assert warning.message.startswith("first/large does not answer: first answered 503")
    assert "second/small answers instead" in warning.message
    (asking,) = [data for data in events if isinstance(data, BackgroundEvent) and data.discard_deltas]
    assert asking.message == "asking second/small"


async def test_nobody_is_reached_and_the_last_failure_is_told() -> None:
    async with AsyncExitStack() as stack:
        gone = await stack.enter_async_context(MockProvider(error("500 No")))
        url = gone.url
    async with MockProvider(error("500 Broken", message="worse")) as second, start(url, second.url) as session:
        reply = await soon(session.root.message("Is it?"))
    assert reply.error is not None
    assert reply.error.code == "model_error"
    assert "second answered 500: worse" in reply.error.message


@each_row(
    ("fields", "problem"),
    [
        ({"fallback_models": ["nowhere/x"]}, "fallback_models: model 'nowhere/x': unknown provider"),
        ({"fallback_models": ["first/large"]}, "fallback_models: first/large is the model itself"),
        ({"fallback_models": ["x"]}, "fallback_models must be a list of `provider/model`"),
        ({"fallback_models": "second/small"}, "fallback_models"),
        ({"fallback_models": ["second/a", "second/a"]}, "each of them once"),
        ({"fallback_models": ["second/small"], "temperature": 1.5}, "fallback_models: temperature: the API of second"),
        (
            {"fallback_models": ["second/small"], "backend": "codex"},
            "fallback_models: backend codex asks models itself",
        ),
    ],
)
async def test_what_could_not_answer_is_refused_when_a_conversation_opens(fields: Any, problem: str) -> None:
    async with start("http://127.0.0.1:9", "http://127.0.0.1:9", fallback_models=[]) as session:
        with pytest.raises(errors.InvalidParamsError) as raised:
            await session.open(**fields)
    assert problem in raised.value.message


async def test_settings_are_refused_at_start_and_inherited_models_that_do_not_fit_are_left_out() -> None:
    with pytest.raises(errors.InvalidParamsError, match="fallback_models: model 'nowhere/x'"):
        async with start("http://127.0.0.1:9", "http://127.0.0.1:9", fallback_models=["nowhere/x"]):
            raise AssertionError
    async with start("http://127.0.0.1:9", "http://127.0.0.1:9") as session:
        child = await session.open(temperature=1.5)
        assert [text for text in child.warnings if text.startswith("fallback_models: temperature")]
        assert (await child.context()).fallback_models == []
        same = await session.open()
        assert (await same.context()).fallback_models == ["second/small"]
        assert (await session.open(fallback_models=[])).warnings == ()


async def test_money_needs_the_price_of_every_model_and_holds_for_the_next_one() -> None:
    priced = {"model_prices": {"first/large": FREE, "second/small": FREE}}
    with pytest.raises(errors.InvalidParamsError, match=r"fallback_models: budget\.usd: the price of second/small"):
        async with start(
            "http://127.0.0.1:9", "http://127.0.0.1:9", budget={"usd": 1}, model_prices={"first/large": FREE}
        ):
            raise AssertionError
    second = Answers(
        MESSAGES.answer(Told(calls=(("c2", "weather", '{"city": "Oslo"}'),))), MESSAGES.answer(Told(text="never"))
    )
    async with (
        MockProvider(error("500 No")) as one,
        MockProvider(second) as other,
        start(one.url, other.url, budget={"tokens": 1}, **priced) as session,
    ):
        reply = await soon(session.root.message("Weather?"))
    assert reply.error is not None
    assert reply.error.code == "budget_exceeded"
    assert len(other.seen) == 1


def test_every_prompt_is_proved_and_a_resumed_session_has_its_models(tmp_path: Path) -> None:
    tool = {"tool_calls": [{"name": "update_plan", "arguments": {"plan": []}}]}
    (tmp_path / "a.json").write_text(json.dumps({"replies": [tool, {"text": "half of it", "error": "overloaded"}]}))
    (tmp_path / "b.json").write_text(json.dumps({"replies": [tool, "Done."]}))
    flags = ("-m", "scripted/a.json", "-c", 'fallback_models=["scripted/b.json"]')
    ran = run(tmp_path, "exec", *flags, "Go")
    assert (ran.code, ran.out.strip()) == (0, "Done."), ran.err
    assert "scripted/a.json does not answer: overloaded; scripted/b.json answers instead" in ran.err
    proof = run(tmp_path, "sessions", "replay", "--last", "--verify")
    assert proof.code == 0, proof.out + proof.err
    assert proof.out == "4 of 4 prompts came out as they were sent.\n"


async def test_a_scripted_failure_that_is_no_models_own_is_not_mended(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"replies": ["Done."]}')
    model = ScriptedModel([errors.InvalidParamsError("wrong")])
    settings = tertulia.Settings(model=model, fallback_models=[f"scripted/{tmp_path}/b.json"])
    async with tertulia.Session.start(settings) as session:
        reply = await soon(session.root.message("Go"))
    assert reply.error is not None
    assert reply.error.code == "invalid_params"
