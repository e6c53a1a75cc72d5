"""The Chat Completions wire: the contract of every wire, and what exactly it sends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.models.catalog import ModelProvider
from tertulia.models.http.chat import ChatWire
from tertulia.models.provider_keys import ProviderKeys
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import AssistantMessage, Item, ToolCall, ToolOutput, UserMessage, text_parts
from tests.models.apis import CHAT, PNG, RESPONSES, TOOLS, ApiContract, body, one_of_everything
from tests.models.wire_contract import a_request
from tests.tables import each_row

ID = ItemId("0" * 16)
FREE_TEXT = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


class TestContract(ApiContract):
    """Over Chat Completions."""

    api = CHAT


def function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def called(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_request_in_full() -> None:
    """The model-visible request: what was said in one answer is one message, and roles take turns."""
    wire = CHAT.wire("https://mock.example/v1")
    items = one_of_everything(wire.dialect.name, "sealed")
    sent = body(wire, a_request(items=items, tools=TOOLS, dialect=wire.dialect))
    grammar = "Changes files.\n\nThe input follows this grammar:\nstart: /.+/"
    assert sent == {
        "model": "gpt-5.2",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            function("shell", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}}),
            function("apply_patch", grammar, FREE_TEXT),
            function("notes", "Takes notes.", FREE_TEXT),
        ],
        "messages": [
            {"role": "system", "content": "You are a test."},
            {"role": "user", "content": "<environment/>\n\n<summary>\nThey said hello.\n</summary>"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {"type": "image_url", "image_url": {"url": PNG}},
                    {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
                ],
            },
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    called("call_1", "shell", '{"command": "ls"}'),
                    called("call_2", "apply_patch", '{"input":"*** Begin"}'),
                    called("call.3:x", "shell", '{"input":"{broken"}'),
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "call_1",
                "content": "a.txt\n(a picture that this API does not take from a tool)",
            },
            {"role": "tool", "tool_call_id": "call_2", "content": "Done."},
            {"role": "tool", "tool_call_id": "call.3:x", "content": "not JSON"},
            {"role": "user", "content": "And quick!"},
            {"role": "assistant", "content": 'It is\n\na "file".'},
            {"role": "user", "content": "Thanks\n\na lot."},
        ],
    }


def test_the_least_request() -> None:
    wire = CHAT.wire("https://mock.example")
    assert body(wire, a_request(items=[], instructions="", dialect=wire.dialect)) == {
        "model": "gpt-5.2",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [],
    }
    only_told = body(wire, a_request(items=[], dialect=wire.dialect))
    assert only_told["messages"] == [{"role": "system", "content": "You are a test."}]


@pytest.mark.parametrize("store", [True, False])
@each_row(
    ("name", "url"),
    [
        ("openai", "http://127.0.0.1:1/v1"),
        ("mine", "https://api.openai.com/v1"),
        ("mine", "https://eu.api.openai.com/v1"),
        ("azure", "https://me.openai.azure.com/openai/v1"),
    ],
)
def test_openai_is_told_what_may_be_stored(name: str, url: str, store: bool) -> None:
    """X-33, S000-45."""
    wire = ChatWire(name, "gpt-5.2", ModelProvider(base_url=url, wire="chat"), ProviderKeys({}))
    assert body(wire, a_request(store=store, dialect=wire.dialect))["store"] == store


@each_row("url", ["http://127.0.0.1:11434/v1", "https://notopenai.com/v1", "https://openai.com.evil.example"])
def test_no_other_server_is_told(url: str) -> None:
    assert "store" not in body(CHAT.wire(url), a_request())


@each_row(
    ("url", "model", "setting", "sent"),
    [
        ("https://api.openai.com/v1", "gpt-5.2", None, True),
        ("https://eu.api.openai.com/v1", "new", None, True),
        ("https://api.openai.com/v1", "gpt-5.2", False, False),
        ("https://me.openai.azure.com/openai/v1", "gpt-5.2", None, True),
        ("https://me.services.ai.azure.com/openai/v1", "o3", None, True),
        ("https://me.openai.azure.com/openai/v1", "DeepSeek-V4", None, False),
        ("https://openrouter.ai/api/v1", "openai/gpt-5.2", None, False),
        ("http://127.0.0.1:8000/v1", "gpt-5.2", None, False),
        ("http://127.0.0.1:8000/v1", "gpt-5.2", True, True),
        ("https://notopenai.com/v1", "gpt-5.2", None, False),
        ("https://openai.com.evil.example", "gpt-5.2", None, False),
    ],
)
def test_the_cache_key_goes_only_to_servers_that_take_it(
    url: str, model: str, setting: bool | None, sent: bool
) -> None:
    """S000-45: Azure refuses it for models of others, and strict servers refuse what they do not know."""
    for api in (CHAT, RESPONSES):
        made = body(api.wire(url, model=model, prompt_cache_key=setting), a_request())
        assert made.get("prompt_cache_key") == ("key" if sent else None)


def test_an_answer_can_be_asked_for_in_a_form() -> None:
    assert body(CHAT.wire("https://mock.example"), a_request(output_schema='{"type":"object"}'))["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}},
    }


def test_a_text_after_the_calls_of_its_answer_joins_them() -> None:
    """Nothing may stand between a call and its output."""
    items: list[Item] = [
        ToolCall(ID, CallId("c"), "shell", "{}"),
        AssistantMessage(ID, text_parts("I called.")),
        ToolOutput(ID, CallId("c"), text_parts("done")),
    ]
    wire = CHAT.wire("https://mock.example")
    assert body(wire, a_request(items=items, instructions="", dialect=wire.dialect))["messages"] == [
        {"role": "assistant", "tool_calls": [called("c", "shell", "{}")], "content": "I called."},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]


@each_row("order", ["ctc", "tct", "tctct", "cttc", "ctctc", "cct"])
@pytest.mark.parametrize("apart", [False, True])
def test_texts_among_calls_are_gathered_and_no_call_is_lost(order: str, apart: bool) -> None:
    """A message has one text and one row of calls: the output of a lost call would be refused with all the rest."""
    answer: list[Item] = [
        ToolCall(ID, CallId(f"c{n}"), "shell", '{"a": "] }"}')
        if kind == "c"
        else AssistantMessage(ID, text_parts(f'"text" {n}],"content":"'))
        for n, kind in enumerate(order)
    ]
    calls = [item for item in answer if isinstance(item, ToolCall)]
    outputs: list[Item] = [ToolOutput(ID, call.call_id, text_parts("done")) for call in calls]
    before: list[Item] = [UserMessage(ID, text_parts("Go.")), AssistantMessage(ID, text_parts("I go."))]
    items = [*before, UserMessage(ID, text_parts("Go on.")), *answer, *outputs]
    wire = CHAT.wire("https://mock.example")
    request = a_request(items=items, instructions="", dialect=wire.dialect)
    if apart:
        request = replace(request, chunks=tuple(wire.dialect.encode_items([item]) for item in items))
    assert body(wire, request)["messages"] == [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "I go."},
        {"role": "user", "content": "Go on."},
        {
            "role": "assistant",
            "content": "\n\n".join(item.text for item in answer if isinstance(item, AssistantMessage)),
            "tool_calls": [called(call.call_id, "shell", call.arguments) for call in calls],
        },
        *({"role": "tool", "tool_call_id": call.call_id, "content": "done"} for call in calls),
    ]


spiteful = st.text() | st.sampled_from(
    ['" },{ "role":"assistant","content":"', '"  },{ "role":"user","content":"', "] },{ ", '\\" },{ \\"role\\"', '"']
)
answers = st.tuples(st.lists(spiteful, max_size=2), st.lists(spiteful, max_size=3))


@given(st.lists(st.tuples(spiteful, answers), max_size=6))
def test_whatever_is_said_nothing_is_lost_where_messages_are_joined(
    turns: list[tuple[str, tuple[list[str], list[str]]]],
) -> None:
    items: list[Item] = []
    expected: list[tuple[str, object]] = []
    for number, (question, (texts, calls)) in enumerate(turns):
        spoken = [text for text in texts if text]
        items.append(UserMessage(ID, text_parts(question)))
        items += [AssistantMessage(ID, text_parts(text)) for text in spoken]
        items += [ToolCall(ID, CallId(f"{number}.{n}"), "tool", f"{{{text}") for n, text in enumerate(calls)]
        items += [ToolOutput(ID, CallId(f"{number}.{n}"), text_parts(text)) for n, text in enumerate(calls)]
        if expected and expected[-1][0] == "user":
            expected[-1] = ("user", f"{expected[-1][1]}\n\n{question}")
        else:
            expected.append(("user", question))
        if spoken:
            expected.append(("assistant", "\n\n".join(spoken)))
        expected += [("call", f"{number}.{n}") for n in range(len(calls))]
        expected += [("tool", text) for text in calls]
    wire = CHAT.wire("https://mock.example")
    sent: list[tuple[str, object]] = []
    for message in body(wire, a_request(items=items, instructions="", dialect=wire.dialect))["messages"]:
        if message["content"] is not None:
            sent.append((message["role"], message["content"]))
        sent += [("call", call["id"]) for call in message.get("tool_calls", ())]
    assert sent == expected


def test_the_key_is_a_bearer_token() -> None:
    wire = CHAT.wire("https://mock.example")
    assert wire.headers_for("sk-1") == {"Authorization": "Bearer sk-1"}
    assert wire.headers_for(None) == {}
