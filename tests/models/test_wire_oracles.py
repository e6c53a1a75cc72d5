"""The official SDKs as oracles: what we send is what they would send, and what they read is what we read.

They are used for nothing else. The streams in `streams/` are the examples of the providers' own documentation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from tertulia.models.wire import AnswerEnd, AnswerPiece
from tertulia.protocol.items import AssistantMessage, Reasoning, ToolCall, Usage
from tests.models.apis import APIS, KEY, RESPONSES, TOOLS, Api, body, every_api, one_of_everything, said
from tests.models.mock_provider import MockProvider, Reply, Told
from tests.models.wire_contract import a_request, check_answer, read
from tests.tables import each_row

STREAMS = Path(__file__).with_name("streams")
EXAMPLES = [(api, path.read_bytes()) for api in APIS for path in sorted(STREAMS.glob(f"{api.name}_*.sse"))]
OWN = [
    (api, b"".join(api.events(reply)))
    for api in APIS
    for reply in (
        Told(text="Zwölf Boxkämpfer 😀 jagen Viktor."),
        Told(thought="Let me see.", text="I look.", calls=(("call_1", "shell", '{"a": 1}'), ("call_2", "plan", "{}"))),
        Told(),
    )
]


@pytest.fixture(scope="module")
def checked() -> dict[str, TypeAdapter[Any]]:
    """The SDKs' request types, which by themselves would let unknown names through."""
    responses = import_module("openai.types.responses.response_create_params").ResponseCreateParamsStreaming
    chat = import_module("openai.types.chat.completion_create_params").CompletionCreateParamsStreaming
    messages = import_module("anthropic.types.message_create_params").MessageCreateParamsStreaming
    for name, module in list(sys.modules.items()):
        if name.startswith(("openai.types", "anthropic.types")):
            for kind in vars(module).values():
                if is_typeddict(kind) and "__pydantic_config__" not in vars(kind):
                    kind.__pydantic_config__ = ConfigDict(extra="forbid")  # pyright: ignore[reportAttributeAccessIssue]
    return {
        "responses": TypeAdapter(responses),
        "chat": TypeAdapter(chat),
        "messages": TypeAdapter(messages),
    }


def walked(value: Any) -> Any:
    """All of it: lists are checked only when somebody walks them."""
    if isinstance(value, dict):
        return {key: walked(held) for key, held in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    return [walked(held) for held in value]


def requests(api: Api) -> list[Any]:
    wire = api.wire("https://api.openai.com/v1")
    items = one_of_everything(wire.dialect.name, "signature:sealed")
    return [
        body(wire, a_request(items=items, tools=TOOLS, dialect=wire.dialect, output_schema='{"type":"object"}')),
        body(wire, a_request(dialect=wire.dialect)),
        body(wire, a_request(dialect=wire.dialect, store=False, instructions="", tools=TOOLS)),
    ]


@every_api
def test_what_we_send_is_of_their_request_types(api: Api, checked: dict[str, TypeAdapter[Any]]) -> None:
    for made in requests(api):
        if api is RESPONSES:
            # The type wants the id of a reasoning item; the API does not when the item brings its sealed content.
            made["input"] = [
                {"id": "rs_1", **item} if item.get("type") == "reasoning" else item for item in made["input"]
            ]
        assert walked(checked[api.name].validate_python(made)) == made


@every_api
def test_the_oracle_can_say_no(api: Api, checked: dict[str, TypeAdapter[Any]]) -> None:
    field = "input" if api is RESPONSES else "messages"
    for broken in ({"role": "nobody", "content": "x"}, {"role": "user", "content": "x", "colour": "red"}):
        made = {**requests(api)[1], field: [broken]}
        with pytest.raises(ValidationError):
            walked(checked[api.name].validate_python(made))


@every_api
async def test_the_sdk_sends_the_same_request(api: Api) -> None:
    """Path, body and the headers that matter, of the same arguments."""
    async with MockProvider(api.answer(Told(text="Yes."))) as mock:
        wire = api.wire(mock.url)
        items = one_of_everything(wire.dialect.name, "signature:sealed")
        request = a_request(items=items, tools=TOOLS, dialect=wire.dialect)
        await read(wire, request)
        await wire.close()
        await theirs(api, mock.url, **{key: value for key, value in body(wire, request).items() if key != "stream"})
    ours, other = mock.seen
    assert ours.path == other.path
    assert ours.json == other.json
    for name in ("authorization", "content-type"):
        assert ours.headers.get(name) == other.headers.get(name)


# ---- answers


@each_row(("api", "stream"), [*EXAMPLES, *OWN], ids=lambda part: getattr(part, "name", ""))
async def test_we_read_what_the_sdk_reads(api: Api, stream: bytes) -> None:
    async with MockProvider(Reply(tuple(part + b"\n\n" for part in stream.split(b"\n\n")[:-1]))) as mock:
        wire = api.wire(mock.url)
        pieces = await read(wire, a_request(dialect=wire.dialect))
        await wire.close()
        check_answer(pieces)
        assert summed(pieces) == await theirs(api, mock.url)


def test_there_are_examples_of_every_api() -> None:
    assert {api.name for api, _ in EXAMPLES} == {api.name for api in APIS}


Read = dict[str, Any]


def summed(pieces: list[AnswerPiece]) -> Read:
    """What matters of an answer."""
    items = said(pieces)
    assert isinstance(pieces[-1], AnswerEnd)
    return {
        "text": "".join(item.text for item in items if isinstance(item, AssistantMessage)),
        # How the reasoning goes back over chat is no word of the SDK's.
        "thoughts": [
            (item.text, None if item.dialect.startswith("chat/") else item.opaque)
            for item in items
            if isinstance(item, Reasoning)
        ],
        "calls": [
            (item.call_id, item.name, item.arguments if item.kind == "custom" else json.loads(item.arguments))
            for item in items
            if isinstance(item, ToolCall)
        ],
        "usage": pieces[-1].usage,
    }


async def theirs(api: Api, url: str, **fields: Any) -> Read:
    """The same, as the SDK tells it."""
    match api.name:
        case "responses":
            return await _responses(url, **{"model": "m", "input": "Hello", **fields})
        case "chat":
            messages = [{"role": "user", "content": "Hello"}]
            return await _chat(url, **{"model": "m", "messages": messages, **fields})
        case "messages":
            messages = [{"role": "user", "content": "Hello"}]
            return await _messages(url, **{"model": "m", "max_tokens": 100, "messages": messages, **fields})


async def _responses(url: str, **fields: Any) -> Read:
    async with import_module("openai").AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0) as client:
        completed: Any = None
        async for event in await client.responses.create(stream=True, **fields):
            completed = event.response if event.type == "response.completed" else completed
    calls = [
        (item.call_id, item.name, item.input if item.type == "custom_tool_call" else json.loads(item.arguments))
        for item in completed.output
        if item.type in ("function_call", "custom_tool_call")
    ]
    counts = completed.usage
    return {
        "text": completed.output_text,
        "thoughts": [
            ("\n\n".join(part.text for part in item.summary), item.encrypted_content)
            for item in completed.output
            if item.type == "reasoning"
        ],
        "calls": calls,
        "usage": Usage(
            counts.input_tokens,
            counts.input_tokens_details.cached_tokens,
            counts.output_tokens,
            counts.output_tokens_details.reasoning_tokens,
            counts.total_tokens,
        ),
    }


async def _chat(url: str, **fields: Any) -> Read:
    text, thought, usage = "", "", Usage()
    calls: dict[int, list[str]] = {}
    async with import_module("openai").AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0) as client:
        async for chunk in await client.chat.completions.create(stream=True, **fields):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                thought += (choice.delta.model_extra or {}).get("reasoning_content") or ""
                for call in choice.delta.tool_calls or ():
                    made = calls.setdefault(call.index, [call.id or "", "", ""])
                    made[1] += call.function.name or "" if call.function else ""
                    made[2] += call.function.arguments or "" if call.function else ""
            if counts := chunk.usage:
                cached, reasoned = counts.prompt_tokens_details, counts.completion_tokens_details
                usage = Usage(
                    counts.prompt_tokens,
                    (cached and cached.cached_tokens) or 0,
                    counts.completion_tokens,
                    (reasoned and reasoned.reasoning_tokens) or 0,
                    counts.total_tokens,
                )
    return {
        "text": text,
        "thoughts": [(thought, None)] if thought else [],
        "calls": [(call_id, name, json.loads(arguments)) for call_id, name, arguments in calls.values()],
        "usage": usage,
    }


async def _messages(url: str, **fields: Any) -> Read:
    async with (
        import_module("anthropic").AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as client,
        client.messages.stream(**fields) as stream,
    ):
        message = await stream.get_final_message()
    counts = message.usage
    cached = counts.cache_read_input_tokens or 0
    total_input = counts.input_tokens + cached + (counts.cache_creation_input_tokens or 0)
    details = counts.output_tokens_details
    thought = details.thinking_tokens if details else 0
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "thoughts": [
            (block.thinking, f"signature:{block.signature}") for block in message.content if block.type == "thinking"
        ],
        "calls": [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"],
        "usage": Usage(total_input, cached, counts.output_tokens, thought, total_input + counts.output_tokens),
    }
