"""OpenAI's own client talks to conversations at `/v1`, over a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tertulia.models.scripted.script import ScriptedRequest, call, fail, say
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.items import UserMessage
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.server.served import TOKEN, Place, served

AGENTS = {"reviewer": {"instructions": "You review."}}


class ChatClient:
    """A server, a client of it, and the model behind."""

    def __init__(self, place: Place, client: AsyncOpenAI, model: ScriptedModel) -> None:
        self.place = place
        self.client = client
        self.model = model

    async def ask(self, *texts: str, model: str = "conversation:root", **fields: Any) -> str:
        """Send a history, the user's turn first; the answer."""
        messages: Any = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
        answer: Any = await self.client.chat.completions.create(model=model, messages=messages, **fields)
        return answer.choices[0].message.content or ""

    @property
    def requested(self) -> list[str]:
        """What users said, in the newest request to the model."""
        return [item.text for item in self.model.last_request.items if isinstance(item, UserMessage)]

    @property
    def conversations(self) -> int:
        return len(self.place.host.sessions[0].conversations())


@asynccontextmanager
async def connected(replies: Any = None, **settings: Any) -> AsyncGenerator[ChatClient]:
    model = ScriptedModel(replies or [say(text) for text in ("one", "two", "three", "four", "five")])
    async with asyncio.timeout(HANG_S), served(Settings(model=model, agents=AGENTS, **settings)) as place:
        url = f"http://127.0.0.1:{place.port}/v1"
        async with AsyncOpenAI(base_url=url, api_key=TOKEN, max_retries=2) as client:
            yield ChatClient(place, client, model)


async def test_only_what_follows_our_last_answer_is_new() -> None:
    """Such clients send the whole history again."""
    async with connected() as chat:
        assert await chat.ask("a") == "one"
        assert await chat.ask("a", "one", "b") == "two"
        assert chat.requested[-2:] == ["a", "b"]
        assert await chat.ask("a", "one", "b", "two", "c") == "three"
        assert chat.requested[-3:] == ["a", "b", "c"]
        assert chat.conversations == 1


async def test_a_request_that_goes_back_to_an_earlier_answer_gets_a_fork_which_is_found_again() -> None:
    async with connected() as chat:
        await chat.ask("a")
        await chat.ask("a", "one", "b")
        assert await chat.ask("a", "one", "other") == "three"
        assert chat.requested[-2:] == ["a", "other"]
        assert await chat.ask("a", "one", "other", "three", "more") == "four"
        assert chat.requested[-3:] == ["a", "other", "more"]
        assert chat.conversations == 2


async def test_a_history_that_is_not_ours_gets_a_conversation_that_is_told_of_it() -> None:
    async with connected() as chat:
        await chat.ask("a")
        assert await chat.ask("x", "foreign", "y") == "two"
        assert (chat.requested[-1], "a" in chat.requested, chat.conversations) == ("y", False, 2)
        assert "assistant: foreign" in "".join(chat.requested)
        assert await chat.ask("x", "foreign", "y", "two", "z") == "three"
        assert chat.conversations == 2


async def test_two_requests_with_one_history_at_once_get_a_conversation_each() -> None:
    began, gate = asyncio.Event(), asyncio.Event()

    async def left(request: ScriptedRequest) -> str:
        began.set()
        await gate.wait()
        return "left"

    async with connected([say("one"), left, say("right")], slots=2) as chat:
        await chat.ask("a")
        first = asyncio.ensure_future(chat.ask("a", "one", "b"))
        await began.wait()
        assert await chat.ask("a", "one", "b") == "right"
        gate.set()
        assert await first == "left"
        assert chat.conversations == 2


async def test_an_agent_gets_a_conversation_for_each_chat_with_the_instructions_of_the_client() -> None:
    async with connected() as chat:
        messages: Any = [{"role": "system", "content": "In Spanish."}, {"role": "user", "content": "a"}]
        await chat.client.chat.completions.create(model="reviewer", messages=messages)
        assert "You review." in chat.model.last_request.instructions
        assert "In Spanish." in "".join(chat.requested)
        await chat.ask("a", model="reviewer")
        assert "In Spanish." not in "".join(chat.requested)
        assert chat.conversations == 3


async def test_conversations_of_other_clients_are_named_by_id_and_title_and_listed() -> None:
    async with connected() as chat:
        listed = [entry.id async for entry in await chat.client.models.list()]
        assert listed == ["conversation:root", "reviewer"]
        assert (await chat.client.models.retrieve("conversation:root")).id == "conversation:root"
        session = await chat.place.host.start()
        one = await session.open(title="plans")
        assert await chat.ask("a", model="conversation:plans") == "one"
        assert await chat.ask("a", "one", "b", model=f"conversation:{one.id}") == "two"
        assert [entry.text for entry in await one.history()] == ["a", "one", "b", "two"]
        await session.open(title="plans")
        with pytest.raises(openai.BadRequestError, match="2 conversations are called 'plans'"):
            await chat.ask("a", model="conversation:plans")


async def test_a_streamed_chat_completion_tells_words_and_tokens() -> None:
    async with connected([say("Hello there", reasoning="hm"), say("again")]) as chat:
        messages: Any = [{"role": "user", "content": "a"}]
        stream = await chat.client.chat.completions.create(
            model="conversation:root", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        words = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        assert ("".join(words), len(words) > 3) == ("Hello there", True)
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.total_tokens > 0
        assert await chat.ask("a", "Hello there", "b") == "again"
        assert chat.conversations == 1


async def test_a_stream_shows_every_message_of_a_task_and_its_history_is_found_again() -> None:
    replies = [say("Let me see.", call("conv_list")), say("One is open."), say("bye")]
    async with connected(replies) as chat:
        messages: Any = [{"role": "user", "content": "a"}]
        stream = await chat.client.chat.completions.create(model="conversation:root", messages=messages, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text == "Let me see.\n\nOne is open."
        assert await chat.ask("a", text, "b") == "bye"
        assert chat.conversations == 1


async def test_responses_follow_each_other_by_id_and_a_second_one_after_the_same_gets_a_fork() -> None:
    async with connected() as chat:
        first = await chat.client.responses.create(model="conversation:root", input="a")
        assert (first.output_text, first.status) == ("one", "completed")
        second = await chat.client.responses.create(model="conversation:root", input="b", previous_response_id=first.id)
        assert (second.output_text, chat.conversations) == ("two", 1)
        other = await chat.client.responses.create(model="conversation:root", input="c", previous_response_id=first.id)
        assert (other.output_text, chat.requested[-2:], chat.conversations) == ("three", ["a", "c"], 2)
        with pytest.raises(openai.NotFoundError, match="no response 'resp_x'"):
            await chat.client.responses.create(model="conversation:root", input="b", previous_response_id="resp_x")


async def test_a_streamed_response_is_one_that_the_client_can_put_together() -> None:
    async with connected([say("Hello there")]) as chat:
        async with chat.client.responses.stream(model="conversation:root", input="a") as stream:
            kinds = [event.type async for event in stream]
            whole = await stream.get_final_response()
        assert (whole.output_text, whole.status) == ("Hello there", "completed")
        assert whole.usage is not None
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"


async def test_an_answer_that_must_fit_a_schema_does() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with connected([say("no json"), say('{"n": 3}')]) as chat:
        form: Any = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
        assert await chat.ask("a", response_format=form) == '{"n": 3}'


async def test_a_task_that_fails_is_not_sent_again() -> None:
    """The client would repeat a request that ended with 5xx, and the task with what it did."""
    async with connected([fail("broken"), say("never")]) as chat:
        with pytest.raises(openai.InternalServerError, match="broken"):
            await chat.ask("a")
        assert len(chat.model.requests) == 1
    async with connected([fail("broken"), say("never")]) as chat:
        messages: Any = [{"role": "user", "content": "a"}]
        stream = await chat.client.chat.completions.create(model="conversation:root", messages=messages, stream=True)
        with pytest.raises(openai.APIError, match="broken"):
            [chunk async for chunk in stream]
        assert len(chat.model.requests) == 1


async def test_a_request_with_an_idempotency_key_runs_once() -> None:
    async with connected() as chat:
        headers = {"Idempotency-Key": "k1"}
        assert await chat.ask("a", model="reviewer", extra_headers=headers) == "one"
        assert await chat.ask("a", model="reviewer", extra_headers=headers) == "one"
        assert len(chat.model.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_stops_its_task(stream: bool) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    async def wait(request: ScriptedRequest) -> Any:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with connected([wait, "next"]) as chat:
        messages: Any = [{"role": "user", "content": "a"}]
        create: Any = chat.client.chat.completions.create
        sent = asyncio.ensure_future(create(model="conversation:root", messages=messages, stream=stream))
        if stream:
            await (await sent).close()
        else:
            await began.wait()
            sent.cancel()
        await stopped.wait()
        assert await chat.ask("b") == "next"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": "gpt-5"}, "there is no model 'gpt-5'"),
    ({"model": "conversation:nothing"}, "no open conversation has the id or the title 'nothing'"),
    ({"messages": []}, "the last message must be a user's"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "the last message must be a user's"),
    ({"messages": [{"role": "robot", "content": "x"}]}, r"messages\[0\].role: expected one of assistant"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, r"messages\[0\].content\[0\]"),
    ({"messages": [{"role": "user", "content": ""}]}, "empty"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools of its own"),
    ({"n": 2}, "one answer"),
    ({"response_format": {"type": "yaml"}}, "json_schema"),
    ({"model": 7}, "model"),
]


async def test_what_cannot_be_answered_is_refused_and_leaves_nothing_behind() -> None:
    async with connected() as chat:
        await chat.ask("a")
        before = (chat.conversations, len(chat.model.requests))
        for fields, message in REFUSED:
            body: Any = {"model": "conversation:root", "messages": [{"role": "user", "content": "b"}], **fields}
            with pytest.raises((openai.BadRequestError, openai.NotFoundError), match=message):
                await chat.client.post("/chat/completions", body=body, cast_to=object)
        assert (chat.conversations, len(chat.model.requests)) == before
        with pytest.raises(openai.AuthenticationError):
            await chat.client.with_options(api_key="wrong").models.list()


async def test_fields_that_have_no_effect_are_named_in_the_answer() -> None:
    async with connected() as chat:
        messages: Any = [{"role": "user", "content": "a"}]
        raw = await chat.client.chat.completions.with_raw_response.create(
            model="conversation:root", messages=messages, temperature=0.2, max_tokens=5
        )
        assert raw.headers["x-tertulia-ignored"] == "max_tokens, temperature"


async def test_a_response_that_followed_another_is_not_found_by_its_last_words_alone() -> None:
    """A history that only ends like it is another chat, and is told nothing of what was said before."""
    async with connected() as chat:
        client = chat.client.responses
        first = await client.create(model="reviewer", input="secret")
        await client.create(model="reviewer", input="b", previous_response_id=first.id)
        assert await chat.ask("b", "two", "c", model="reviewer") == "three"
        assert "secret" not in "".join(chat.requested)
        assert chat.conversations == 3


async def test_a_history_that_only_ends_like_a_named_conversation_gets_one_of_its_own() -> None:
    async with connected() as chat:
        await chat.ask("a")
        assert await chat.ask("another question", "one", "b") == "two"
        assert "a" not in chat.requested
        assert chat.conversations == 2


async def test_a_stream_that_is_asked_for_again_has_the_answer_again() -> None:
    async with connected() as chat:
        headers = {"idempotency-key": "k"}
        texts: list[str] = []
        for _ in range(2):
            pieces = await chat.client.chat.completions.create(
                model="conversation:root",
                messages=[{"role": "user", "content": "a"}],
                stream=True,
                extra_headers=headers,
            )
            texts.append("".join([piece.choices[0].delta.content or "" async for piece in pieces]))
        assert texts == ["one", "one"]
        assert len(chat.model.requests) == 1
