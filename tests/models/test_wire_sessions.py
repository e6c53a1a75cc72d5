"""Whole sessions over each wire: turns with tools, a model that changes between them, failures as a user meets them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest

import tertulia
from tertulia.models.http.http_wire import HttpWire
from tertulia.testing import RecordedEvents, check_invariants
from tests.deadlines import HANG_S
from tests.models.apis import ENV_KEY, KEY, MESSAGES, RESPONSES, Api, every_api
from tests.models.mock_provider import MockProvider, Reply, Seen, Told, refused, streamed
from tests.models.wire_contract import until

DEADLINE_S = HANG_S


@tertulia.tool
def weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: Where.
    """
    return f"sunny in {city}"


class Script:
    """Answers from a list, in the words of one API; fails the test when it is asked too often."""

    def __init__(self, api: Api, *answers: Told | Reply) -> None:
        self._api = api
        self._answers = [*answers]

    def __call__(self, seen: Seen) -> Reply:
        answer = self._answers.pop(0)
        return answer if isinstance(answer, Reply) else self._api.answer(answer)


@asynccontextmanager
async def provided(api: Api, *answers: Told | Reply, **settings: Any) -> AsyncIterator[tuple[HttpWire, MockProvider]]:
    async with MockProvider(Script(api, *answers)) as mock:
        wire = api.wire(mock.url, **settings)
        try:
            yield wire, mock
        finally:
            await wire.close()


def start_session(wire: HttpWire, **settings: Any) -> Any:
    return tertulia.Session.start(tertulia.Settings(model=wire, tools=[weather], **settings))


async def soon(something: Any) -> Any:
    async with asyncio.timeout(DEADLINE_S):
        return await something


CALLS = (("call_1", "weather", '{"city": "Rome"}'), ("call_2", "weather", '{"city": "Oslo"}'))
LOOKS = Told(thought="Let me see.", text="I look.", calls=CALLS)


@every_api
async def test_several_turns_with_tools(api: Api) -> None:
    answers = (LOOKS, Told(text="Sunny in both."), Told(text="You are welcome."))
    async with (
        provided(api, *answers) as (wire, mock),
        start_session(wire) as session,
        RecordedEvents(session) as events,
    ):
        first = await soon(session.root.message("How is the weather?"))
        second = await soon(session.root.message("Thanks!"))
        assert (first.status, first.text, first.tool_calls) == ("completed", "Sunny in both.", 2)
        assert (second.status, second.text) == ("completed", "You are welcome.")
        assert first.usage.input_tokens == 200
        assert first.usage.cached_input_tokens == 120
        assert second.usage.reasoning_output_tokens == 5
        assert mock.connections == 1
        assert mock.open_streams == 0
        await session.close()
    check_invariants(events.seen)
    outputs = [event.data.output for event in events.seen if event.type == "tool_call_end"]
    assert outputs == ["sunny in Rome", "sunny in Oslo"]
    assert [seen.path for seen in mock.seen] == [wire.path] * 3
    offered = json.dumps(mock.seen[0].json["tools"])
    assert "weather" in offered
    assert "update_plan" in offered
    last = json.dumps(mock.seen[-1].json)
    for word in ("How is the weather?", "I look.", "sunny in Rome", "sunny in Oslo", "Sunny in both.", "Thanks!"):
        assert word in last
    assert ("sealed" in last) is (api.name != "chat")


@every_api
async def test_each_request_begins_as_the_one_before_it(api: Api) -> None:
    answers = (LOOKS, Told(text="Sunny."), Told(text="Bye."))
    async with provided(api, *answers) as (wire, mock), start_session(wire) as session:
        await soon(session.root.message("How is the weather?"))
        await soon(session.root.message("Thanks!"))
    bodies = [seen.body.replace(b',"cache_control":{"type":"ephemeral"}', b"") for seen in mock.seen]
    for before, after in pairwise(bodies):
        # Up to the brackets that close the last message and the whole.
        assert after.startswith(before.rstrip(b" ]}"))


@every_api
async def test_instructions_tools_and_cache_keys_are_each_conversation_s_own(api: Api) -> None:
    """S002-03, S000-45."""
    async with (
        provided(api, Told(text="A"), Told(text="B"), Told(text="C"), prompt_cache_key=True) as (wire, mock),
        start_session(wire) as session,
    ):
        pirate = await session.open(base_instructions="Talk like a pirate.", storage_policy=tertulia.HeadersOnly())
        await soon(session.root.message("Hello root"))
        await soon(pirate.message("Hello pirate"))
        await soon(pirate.message("Again"))
    first, second, third = (seen.json for seen in mock.seen)
    assert "pirate" not in json.dumps(first)
    assert "Hello root" not in json.dumps(second)
    if api is RESPONSES:
        assert [made["store"] for made in (first, second, third)] == [True, False, False]
        keys = [made["prompt_cache_key"] for made in (first, second, third)]
        assert keys[0] != keys[1] == keys[2]


async def test_the_model_changes_between_turns() -> None:
    """History is translated once; reasoning of the other is left out; calls and their outputs stay together."""
    async with (
        provided(RESPONSES, LOOKS, Told(text="Sunny."), Told(text="Back again.")) as (one, mock_one),
        provided(MESSAGES, Told(thought="Mine.", text="Still sunny.")) as (other, mock_other),
        start_session(one) as session,
    ):
        await soon(session.root.message("How is the weather?"))
        await session.root.set_context(model=other)
        assert (await soon(session.root.message("And now?"))).text == "Still sunny."
        await session.root.set_context(model=one)
        assert (await soon(session.root.message("And at last?"))).text == "Back again."
    messages = mock_other.seen[0].json["messages"]
    assert "Let me see." not in json.dumps(messages)
    assert "sealed" not in json.dumps(messages)
    rows = [(message["role"], [block["type"] for block in message["content"]]) for message in messages]
    assert rows == [
        ("user", ["text", "text"]),
        ("assistant", ["text", "tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
    ]
    assert [block["id"] for block in messages[1]["content"][1:]] == ["call_1", "call_2"]
    assert [block["tool_use_id"] for block in messages[2]["content"]] == ["call_1", "call_2"]
    again = mock_one.seen[-1].json["input"]
    assert [item["encrypted_content"] for item in again if item.get("type") == "reasoning"] == ["sealed"]
    assert "Mine." not in json.dumps(again)
    assert [item["call_id"] for item in again if item.get("type") == "function_call"] == ["call_1", "call_2"]


@every_api
async def test_a_cut_stream_is_made_good(api: Api) -> None:
    cut = streamed(*api.begun(LOOKS, "look."), "cut")
    async with (
        provided(api, cut, LOOKS, Told(text="Sunny.")) as (wire, mock),
        start_session(wire) as session,
        RecordedEvents(session) as events,
    ):
        reply = await soon(session.root.message("How is the weather?"))
        assert (reply.status, reply.text, reply.tool_calls) == ("completed", "Sunny.", 2)
        await session.close()
    check_invariants(events.seen)
    notices = [event.data for event in events.seen if event.type == "background_event"]
    assert [data.discard_deltas for data in notices] == [True]
    assert mock.seen[0].body == mock.seen[1].body


@every_api
async def test_a_history_that_is_too_long_is_trimmed_once(api: Api) -> None:
    full = refused("400 Bad Request", api.overflow)
    answers = (Told(text="A"), Told(text="B"), full, Told(text="C"), full, full)
    async with provided(api, *answers) as (wire, mock), start_session(wire) as session:
        for number in range(2):
            await soon(session.root.message(f"Message {number} " + "x" * 4_000))
        reply = await soon(session.root.message("And now?"))
        assert (reply.status, reply.text) == ("completed", "C")
        assert len(mock.seen[3].body) < len(mock.seen[2].body)
        failed = await soon(session.root.message("And now?"))
        assert failed.status == "failed"
        assert "too long" in failed.error.message


@every_api
async def test_an_interrupt_hangs_up(api: Api) -> None:
    stalls = streamed(*api.begun(Told(text="One two three."), "One"), "stall")
    async with provided(api, stalls, Told(text="Yes.")) as (wire, mock), start_session(wire) as session:
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
            waiting = group.create_task(session.root.message("Tell me"))
            await until(lambda: mock.open_streams == 1)
            await session.root.interrupt()
        assert waiting.result().status == "interrupted"
        assert mock.open_streams == 0
        assert (await soon(session.root.message("Are you there?"))).text == "Yes."


@every_api
@pytest.mark.parametrize("broken", [None, "401"])
async def test_a_key_that_is_missing_or_wrong_fails_the_task_and_is_shown_nowhere(api: Api, broken: str | None) -> None:
    """HARDENING E6."""
    wrong = refused("401 Unauthorized", {"error": {"message": f"Incorrect API key provided: {KEY}"}})
    async with (
        provided(api, wrong, key=KEY if broken else None) as (wire, mock),
        start_session(wire) as session,
        RecordedEvents(session) as events,
    ):
        reply = await soon(session.root.message("Hello"))
        assert reply.status == "failed"
        assert ENV_KEY in reply.error.message
        assert reply.error.code == "model_error"
        await session.close()
        seen = msgspec.json.encode([event.data for event in events.seen])
    assert KEY.encode() not in seen
    assert KEY not in repr(events.seen)
    assert len(mock.seen) == (1 if broken else 0)


@every_api
async def test_a_picture_goes_to_the_model(api: Api) -> None:
    picture = {"type": "image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    async with provided(api, Told(text="A picture.")) as (wire, mock), start_session(wire) as session:
        await soon(session.root.message([{"type": "text", "text": "What is this?"}, picture]))
    assert "iVBORw0KGgo=" in mock.seen[0].body.decode()


@every_api
async def test_an_answer_can_be_asked_for_in_a_form(api: Api) -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    async with provided(api, Told(text='{"sum": 3}')) as (wire, mock), start_session(wire) as session:
        reply = await soon(session.root.message("1+2?", output_schema=schema))
    assert json.loads(reply.text) == {"sum": 3}
    assert '"required":["sum"]' in mock.seen[0].body.decode()
