"""What providers and servers stream, each in its own shape: it is read whole, and what they want back goes back.

The files in `streams/` that are named here were written after the documentation and the issues of each project. A real
server on the loopback sends them to the real client.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tertulia.models.wire import AnswerEnd, AnswerItem, AnswerPiece
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, ToolCall, ToolOutput, UserMessage, text_parts
from tests.models.apis import CHAT, MESSAGES, RESPONSES, Api, body, said
from tests.models.mock_provider import MockProvider, Reply
from tests.models.wire_contract import a_request, check_answer, read
from tests.tables import each_row

STREAMS = Path(__file__).with_name("streams")
KINDS = {".sse": "text/event-stream", ".json": "application/json"}
ROME, OSLO = ("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"})
ID = ItemId("0" * 16)


class Shape(msgspec.Struct, frozen=True):
    """A stream, what it says, and what the next request repeats of it."""

    file: str
    api: Api
    thought: str = ""
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    stop: str = "tool_calls"
    back: tuple[dict[str, Any], ...] = ()
    """What the model's own part of the next request has; ids and arguments of calls are left out."""


def call(**more: Any) -> dict[str, Any]:
    return {"type": "function", **more}


SEARCH = {"type": "server_tool_use", "name": "web_search"}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://a.example",
            "title": "Rome",
            "encrypted_content": "Eq/==",
            "page_age": None,
        }
    ],
}
DETAIL = {"format": "anthropic-claude-v1", "index": 0}
SEALED = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAB+/=="}
FUNCTION_CALL = {"type": "function_call", "name": "weather"}
LOOKS = {"type": "message", "role": "assistant", "content": "I look."}
SHAPES = (
    # `reasoning_content` goes back with the calls, or the next request is answered with 400; also an empty one.
    Shape(
        "deepseek_tools.sse",
        CHAT,
        "Rome: ask.",
        "I ask.",
        (ROME,),
        back=({"role": "assistant", "reasoning_content": "Rome: ask.", "content": "I ask.", "tool_calls": [call()]},),
    ),
    Shape(
        "deepseek_no_thought.sse",
        CHAT,
        calls=(OSLO,),
        back=({"role": "assistant", "reasoning_content": "", "content": None, "tool_calls": [call()]},),
    ),
    # The signature is of one call; both calls have the index 0.
    Shape(
        "gemini_signature.sse",
        CHAT,
        "",
        "I look.",
        (ROME, OSLO),
        back=(
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [call(extra_content={"google": {"thought_signature": "CtABAdHtim+/=="}}), call()],
            },
        ),
    ),
    # Details come in pieces and go back as the whole they were.
    Shape(
        "openrouter_reasoning.sse",
        CHAT,
        "Let me look.",
        calls=(ROME,),
        back=(
            {
                "role": "assistant",
                "content": None,
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "Let me look.", **DETAIL, "signature": "EsgD/x=="},
                    {"type": "reasoning.encrypted", "data": "gAAA=", "id": "rs_1", **DETAIL, "index": 1},
                ],
                "tool_calls": [call()],
            },
        ),
    ),
    # Content as a list; the API has no member in which these thoughts could go back.
    Shape(
        "mistral_thinking.sse",
        CHAT,
        "Two cities.",
        "I look.",
        (ROME,),
        back=({"role": "assistant", "content": "I look.", "tool_calls": [call()]},),
    ),
    Shape(
        "vllm_reasoning.sse",
        CHAT,
        "Rome.",
        calls=(ROME,),
        back=({"role": "assistant", "reasoning": "Rome.", "content": None, "tool_calls": [call()]},),
    ),
    # Arguments as an object.
    Shape(
        "llamacpp_object.sse",
        CHAT,
        "Rome.",
        calls=(("weather", {"city": "Rome", "days": [1, 2]}),),
        back=({"role": "assistant", "reasoning_content": "Rome.", "content": None, "tool_calls": [call()]},),
    ),
    # Calls that share an index, and calls that have neither index nor id.
    Shape(
        "ollama_same_index.sse",
        CHAT,
        calls=(ROME, OSLO),
        back=({"role": "assistant", "content": None, "tool_calls": [call(), call()]},),
    ),
    Shape(
        "ollama_no_ids.sse",
        CHAT,
        calls=(ROME, OSLO, ("clock", {})),
        back=({"role": "assistant", "content": None, "tool_calls": [call(), call(), call()]},),
    ),
    # The name is repeated with every piece.
    Shape(
        "lmstudio_tools.sse",
        CHAT,
        "Rome.",
        calls=(ROME,),
        back=({"role": "assistant", "reasoning_content": "Rome.", "content": None, "tool_calls": [call()]},),
    ),
    Shape("azure_filters.sse", CHAT, "", "Sunny.", stop="stop", back=({"role": "assistant", "content": "Sunny."},)),
    # Reasoning as an object: it is shown, and goes back nowhere.
    Shape(
        "litellm_reasoning_object.sse",
        CHAT,
        "Rome",
        "Sunny.",
        stop="stop",
        back=({"role": "assistant", "content": "Sunny."},),
    ),
    Shape(
        "plain_chat.json",
        CHAT,
        "Rome.",
        "I look.",
        (ROME,),
        back=({"role": "assistant", "reasoning_content": "Rome.", "content": "I look.", "tool_calls": [call()]},),
    ),
    # The phase of a message, and sealed reasoning.
    Shape(
        "openai_phase.sse",
        RESPONSES,
        "",
        "I look.",
        (ROME,),
        back=(SEALED, {**LOOKS, "phase": "commentary"}, FUNCTION_CALL),
    ),
    # Null in place of what an item does not have.
    Shape("azure_nulls.sse", RESPONSES, "", "I look.", (ROME,), back=(LOOKS, FUNCTION_CALL)),
    # Items in the last event alone.
    Shape("litellm_completed.sse", RESPONSES, "", "I look.", (ROME,), back=(SEALED, LOOKS, FUNCTION_CALL)),
    # Arguments in deltas alone, and a call that is begun and never ended.
    Shape("vllm_deltas.sse", RESPONSES, calls=(ROME, OSLO), back=(FUNCTION_CALL, FUNCTION_CALL)),
    Shape(
        "plain_responses.json",
        RESPONSES,
        "",
        "I look.",
        (ROME,),
        back=(SEALED, {**LOOKS, "phase": "commentary"}, FUNCTION_CALL),
    ),
    # The provider paused while it searched: it gets back what it did, and the search that has no result yet.
    Shape(
        "anthropic_pause.sse",
        MESSAGES,
        "",
        "I search.",
        stop="pause",
        back=(
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I search."},
                    {**SEARCH, "id": "srvtoolu_1", "input": {"query": "Rome weather"}},
                    FOUND,
                    {**SEARCH, "id": "srvtoolu_2", "input": {"query": "Oslo"}},
                ],
            },
        ),
    ),
    Shape(
        "plain_messages.json",
        MESSAGES,
        "Rome.",
        "I look.",
        (ROME,),
        back=(
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Rome.", "signature": "EsgD=="},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "name": "weather"},
                ],
            },
        ),
    ),
)


async def answered(shape: Shape, url_path: str = "") -> tuple[list[AnswerPiece], Any]:
    """The pieces of the stream, and the model's part of the request that follows it."""
    path = STREAMS / shape.file
    reply = Reply((path.read_bytes(),), headers=(("Content-Type", KINDS[path.suffix]),))
    async with MockProvider(reply) as mock:
        wire = shape.api.wire(mock.url)
        pieces = await read(wire, a_request(dialect=wire.dialect))
        await wire.close()
    items: list[Item] = [UserMessage(ID, text_parts("Hello")), *said(pieces)]
    items += [ToolOutput(ID, item.call_id, text_parts("sunny")) for item in items if isinstance(item, ToolCall)]
    sent = body(wire, a_request(items=items, instructions="", dialect=wire.dialect))
    history = sent["input"] if shape.api is RESPONSES else sent["messages"]
    return pieces, [bare(message) for message in history if is_model_s(message)]


def is_model_s(message: dict[str, Any]) -> bool:
    return message.get("role") == "assistant" or message.get("type") in ("reasoning", "function_call")


def bare(value: Any) -> Any:
    """Without the ids and arguments of calls, which `calls` are compared with."""
    if isinstance(value, list):
        return [bare(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    left_out = {"function": ("id", "function"), "function_call": ("call_id", "arguments"), "tool_use": ("id", "input")}
    names = left_out.get(value.get("type", ""), ())
    return {key: bare(entry) for key, entry in value.items() if key not in names}


@each_row("shape", SHAPES, ids=lambda shape: shape.file)
async def test_what_a_provider_streams_is_read_whole_and_what_it_wants_back_goes_back(shape: Shape) -> None:
    pieces, back = await answered(shape)
    check_answer(pieces)
    items = said(pieces)
    assert "".join(item.text for item in items if isinstance(item, Reasoning)) == shape.thought
    assert "".join(item.text for item in items if isinstance(item, AssistantMessage)) == shape.text
    calls = [item for item in items if isinstance(item, ToolCall)]
    assert tuple((item.name, msgspec.json.decode(item.arguments)) for item in calls) == shape.calls
    assert len({item.call_id for item in calls}) == len(calls)
    assert isinstance(pieces[-1], AnswerEnd)
    assert pieces[-1].stop_reason == shape.stop
    assert back == list(shape.back)


def test_every_stream_has_its_row() -> None:
    named = {shape.file for shape in SHAPES}
    others = {path.name for path in STREAMS.iterdir() if not path.name.startswith(("chat_", "messages_", "responses_"))}
    assert named == others


@each_row("shape", SHAPES, ids=lambda shape: shape.file)
async def test_nothing_of_it_goes_to_another_model_or_address(shape: Shape) -> None:
    """Texts, calls and outputs do; what the provider said for itself does not."""
    path = STREAMS / shape.file
    reply = Reply((path.read_bytes(),), headers=(("Content-Type", KINDS[path.suffix]),))
    async with MockProvider(reply) as mock:
        wire = shape.api.wire(mock.url)
        items = [p.item for p in await read(wire, a_request(dialect=wire.dialect)) if isinstance(p, AnswerItem)]
        others = [shape.api.wire(mock.url, model="other"), shape.api.wire(f"{mock.url}/elsewhere")]
        await wire.close()
    plain = [msgspec.structs.replace(item, dialect="", opaque=None) for item in items]
    for other in others:
        assert other.dialect.encode_items(items) == other.dialect.encode_items(plain)
