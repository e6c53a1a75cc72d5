"""What a provider said for itself, in whole sessions: it goes back to it alone, and outlives a resume and a fork."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

import tertulia
from tertulia.models.http.stream_decoder import AnswerLimits
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, ToolCall, UserMessage, text_parts
from tertulia.session.resume.replay_verification import verify_requests
from tertulia.session.session import Session
from tertulia.testing import RecordedEvents, ScriptedModel, say
from tests.models.apis import CHAT, MESSAGES, RESPONSES, Api, body
from tests.models.mock_provider import MockProvider, Reply, Seen, Told
from tests.models.test_provider_streams import SHAPES, Shape
from tests.models.test_wire_sessions import soon, weather
from tests.models.wire_contract import a_request
from tests.session.stored import lines
from tests.tables import each_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STREAMS = Path(__file__).with_name("streams")
ID = ItemId("0" * 16)
KEPT = {
    "deepseek_tools.sse": b'"reasoning_content":"Rome: ask."',
    "gemini_signature.sse": b'"extra_content":{"google":{"thought_signature":"CtABAdHtim+/=="}}',
    "openrouter_reasoning.sse": b'"signature":"EsgD/x=="',
    "openai_phase.sse": b'"phase":"commentary"',
    "anthropic_pause.sse": b'"encrypted_content":"Eq/=="',
}
"""A piece of what goes back, as it is sent."""
ROWS = [shape for shape in SHAPES if shape.file in KEPT]


@asynccontextmanager
async def provider(shape: Shape) -> AsyncIterator[MockProvider]:
    """It streams that file first, and then a text to each request."""

    def answer(seen: Seen) -> Reply:
        return (
            Reply(((STREAMS / shape.file).read_bytes(),)) if len(mock.seen) == 1 else shape.api.answer(Told(text="So."))
        )

    async with MockProvider(answer) as mock:
        yield mock


def settings(shape: Shape, mock: MockProvider, **fields: Any) -> tertulia.Settings:
    return tertulia.Settings(model=shape.api.wire(mock.url), tools=[weather], **fields)


def goes_on(before: Seen, after: Seen) -> bool:
    """Whether a request begins as the one before it, byte for byte, but for the marks of the cache."""
    first, second = (seen.body.replace(b',"cache_control":{"type":"ephemeral"}', b"") for seen in (before, after))
    return second.startswith(first.rstrip(b" ]}"))


@each_row("shape", ROWS, ids=lambda shape: shape.file)
async def test_it_goes_back_after_a_resume_and_in_a_fork_and_never_from_another_conversation(shape: Shape) -> None:
    """S002-15, S000-45: byte for byte, and every request is proved by its record."""
    mark = KEPT[shape.file]
    async with provider(shape) as mock:
        async with Session.start(settings(shape, mock)) as session:
            await soon(session.root.message("How is the weather?"))
            first = mock.seen[-1]
            assert mark in first.body
            fork = await session.root.fork()
            await soon(fork.message("And there?"))
            assert goes_on(first, mock.seen[-1])
            assert mark in mock.seen[-1].body
            other = await session.open()
            await soon(other.message("Hello"))
            assert mark not in mock.seen[-1].body
        async with Session.resume(session.id, settings(shape, mock)) as again:
            await soon(again.root.message("And now?"))
            assert goes_on(first, mock.seen[-1])
            assert mark in mock.seen[-1].body
            await again.root.set_context(model=shape.api.wire(mock.url, model="other"))
            await soon(again.root.message("And you?"))
            assert mark not in mock.seen[-1].body
    assert {verdict.outcome for verdict in verify_requests(lines(session.id))} == {"same"}


@each_row("shape", ROWS, ids=lambda shape: shape.file)
async def test_it_is_stored_by_policy(shape: Shape) -> None:
    """S002-44: with headers alone nothing of it is there after a resume."""
    async with provider(shape) as mock:
        policy = tertulia.HeadersOnly()
        async with Session.start(settings(shape, mock, storage_policy=policy)) as session:
            await soon(session.root.message("How is the weather?"))
            assert KEPT[shape.file] in mock.seen[-1].body
        async with Session.resume(session.id, settings(shape, mock, storage_policy=policy)) as again:
            await soon(again.root.message("And now?"))
            assert KEPT[shape.file] not in mock.seen[-1].body


async def test_what_is_too_long_is_left_out_whole_with_a_warning() -> None:
    shape = next(shape for shape in ROWS if shape.file == "gemini_signature.sse")
    async with provider(shape) as mock:
        wire = CHAT.wire(mock.url)
        wire.limits = AnswerLimits(opaque=20)
        async with (
            Session.start(tertulia.Settings(model=wire, tools=[weather])) as session,
            RecordedEvents(session) as events,
        ):
            await soon(session.root.message("How is the weather?"))
            await session.close()
    warnings = [event.data.message for event in events.seen if event.type == "warning"]
    assert warnings == [
        "the signature of a tool call of mock has more than 20 characters; it is not kept and not sent back"
    ]
    assert b"extra_content" not in mock.seen[-1].body


async def test_a_provider_that_pauses_is_asked_to_go_on_with_what_it_has_said() -> None:
    """The task ends when the answer does, and not for ever with one that never does."""
    paused = replace(say("Searching."), stop_reason="pause")
    async with Session.start(tertulia.Settings(model=(model := ScriptedModel([paused, paused, "Found."])))) as session:
        reply = await soon(session.root.message("Search"))
        assert (reply.text, len(model.requests)) == ("Found.", 3)
    endless = ScriptedModel([paused] * 30)
    async with Session.start(tertulia.Settings(model=endless)) as session:
        assert (await soon(session.root.message("Search"))).status == "completed"
        assert len(endless.requests) == 17


def sent(api: Api, url: str, *items: Item) -> list[Any]:
    wire = api.wire(url)
    own = [item if isinstance(item, UserMessage) else replace(item, dialect=wire.dialect.name) for item in items]
    made = body(wire, a_request(items=own, instructions="", dialect=wire.dialect))
    return made["input"] if api is RESPONSES else made["messages"]


CALL = ToolCall(ID, CallId("c"), "weather", "{}")
THOUGHT = Reasoning(ID, "Rome.", opaque="reasoning_content")
FUNCTION = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@each_row("host", ["api.deepseek.com", "api.moonshot.ai"])
def test_servers_that_want_reasoning_with_every_message_get_an_empty_one_where_there_is_none(host: str) -> None:
    """Or a conversation that began with another model could never go on with this one."""
    text = AssistantMessage(ID, text_parts("Sunny."))
    assert sent(CHAT, f"https://{host}", THOUGHT, CALL, UserMessage(ID, text_parts("?")), text, CALL) == [
        {"role": "assistant", "reasoning_content": "Rome.", "content": None, "tool_calls": [FUNCTION]},
        {"role": "user", "content": "?"},
        {"role": "assistant", "reasoning_content": "", "content": "Sunny.", "tool_calls": [FUNCTION]},
    ]


def test_a_server_that_refuses_reasoning_does_not_get_it_back() -> None:
    assert sent(CHAT, "https://api.groq.com/openai/v1", THOUGHT, CALL) == [
        {"role": "assistant", "content": None, "tool_calls": [FUNCTION]}
    ]


@each_row(
    ("api", "item"),
    [
        (CHAT, Reasoning(ID, "", opaque='{"reasoning_details":[{"data":"a[redacted:secret]b"}]}')),
        (CHAT, Reasoning(ID, "", opaque='{"reasoning_details":[')),
        (CHAT, Reasoning(ID, "x", opaque="another_name")),
        (RESPONSES, Reasoning(ID, "", opaque="gAAA[redacted:token]")),
        (MESSAGES, Reasoning(ID, "", opaque="signature:a[redacted:secret]")),
        (MESSAGES, Reasoning(ID, "my [redacted:secret]", opaque="signature:abc")),
        (MESSAGES, Reasoning(ID, "", opaque="blocks:[5")),
        (MESSAGES, Reasoning(ID, "", opaque="blocks:{}")),
    ],
)
def test_what_a_record_has_changed_or_damaged_is_not_sent_back(api: Api, item: Item) -> None:
    assert sent(api, "https://mock.example", item) == []


def test_a_call_whose_extra_was_damaged_is_sent_without_it() -> None:
    for damaged in ("[1]", "{", '{"extra_content":"[redacted:secret]"}'):
        (message,) = sent(CHAT, "https://mock.example", replace(CALL, opaque=damaged))
        assert message["tool_calls"] == [FUNCTION]


def test_texts_among_calls_with_extras_are_gathered_too() -> None:
    """Brackets in what the provider added do not end the row of calls."""
    extra = replace(CALL, opaque=msgspec.json.encode({"extra_content": {"a": [1, "]"]}}).decode())
    text = AssistantMessage(ID, text_parts("Sunny."))
    assert sent(CHAT, "https://mock.example", THOUGHT, extra, text, extra) == [
        {
            "role": "assistant",
            "reasoning_content": "Rome.",
            "content": "Sunny.",
            "tool_calls": [{**FUNCTION, "extra_content": {"a": [1, "]"]}}] * 2,
        }
    ]
