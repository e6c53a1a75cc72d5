"""The Messages wire: the contract of every wire, and what exactly it sends."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
    text_parts,
)
from tests.models.apis import MESSAGES, TOOLS, ApiContract, body, one_of_everything
from tests.models.wire_contract import a_request
from tests.tables import each_row

ID = ItemId("0" * 16)
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
DIALECT = MESSAGES.wire("https://mock.example").dialect.name
MARK = {"type": "ephemeral"}
FREE_TEXT = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


class TestContract(ApiContract):
    """Over the Messages API."""

    api = MESSAGES


def text(message: str) -> dict[str, Any]:
    return {"type": "text", "text": message}


def sent(items: list[Item], **more: Any) -> Any:
    wire = MESSAGES.wire("https://mock.example")
    return body(wire, a_request(items=items, dialect=wire.dialect, **more))


def test_a_request_in_full() -> None:
    """The model-visible request: roles take turns, outputs of one answer are one message, the prefix is marked."""
    wire = MESSAGES.wire("https://mock.example", model="claude-sonnet-4-5")
    items = one_of_everything(wire.dialect.name, "signature:sealed")
    other = "call_b8a6656d36a37b0ac599ceef5f8eb684"
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    grammar = "Changes files.\n\nThe input follows this grammar:\nstart: /.+/"
    assert body(wire, a_request(items=items, tools=TOOLS, dialect=wire.dialect)) == {
        "model": "claude-sonnet-4-5",
        "stream": True,
        "max_tokens": 32_000,
        "system": [{**text("You are a test."), "cache_control": MARK}],
        "tools": [
            {"name": "shell", "description": "Runs a command.", "input_schema": schema},
            {"name": "apply_patch", "description": grammar, "input_schema": FREE_TEXT},
            {"name": "notes", "description": "Takes notes.", "input_schema": FREE_TEXT},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "messages": [
            {
                "role": "user",
                "content": [
                    text("<environment/>"),
                    text("<summary>\nThey said hello.\n</summary>"),
                    text("Look:"),
                    IMAGE,
                    {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Let me see.", "signature": "sealed"},
                    text("I look."),
                    {"type": "tool_use", "id": "call_1", "name": "shell", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "call_2", "name": "apply_patch", "input": {"input": "*** Begin"}},
                    {"type": "tool_use", "id": other, "name": "shell", "input": {"input": "{broken"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": [text("a.txt"), IMAGE]},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": [text("Done.")]},
                    {"type": "tool_result", "tool_use_id": other, "content": [text("not JSON")], "is_error": True},
                    text("And quick!"),
                ],
            },
            {"role": "assistant", "content": [text("It is"), text('a "file".')]},
            {"role": "user", "content": [text("Thanks"), {**text("a lot."), "cache_control": MARK}]},
        ],
    }


def test_the_least_request() -> None:
    assert sent([], instructions="") == {"model": "gpt-5.2", "stream": True, "max_tokens": 32_000, "messages": []}


def test_without_instructions_the_tools_are_the_prefix() -> None:
    wire = MESSAGES.wire("https://mock.example")
    tools = body(wire, a_request(instructions="", tools=TOOLS, dialect=wire.dialect))["tools"]
    assert [tool.get("cache_control") for tool in tools] == [None, None, None, MARK]


def test_an_output_can_bear_the_mark() -> None:
    items: list[Item] = [ToolCall(ID, CallId("c"), "shell", "{}"), ToolOutput(ID, CallId("c"), ())]
    last = sent(items)["messages"][-1]
    assert last["content"] == [{"type": "tool_result", "tool_use_id": "c", "cache_control": MARK}]


def test_what_the_model_said_last_bears_no_mark() -> None:
    """A thought could not."""
    assert sent([AssistantMessage(ID, text_parts("Hi"))])["messages"] == [
        {"role": "assistant", "content": [text("Hi")]}
    ]


@each_row(("window", "most"), [(200_000, 32_000), (8_192, 2_048)])
def test_an_answer_never_takes_more_than_a_quarter_of_the_window(window: int, most: int) -> None:
    wire = MESSAGES.wire("https://mock.example", context_window=window)
    assert body(wire, a_request())["max_tokens"] == most


def test_blank_texts_are_not_sent() -> None:
    """The API refuses them."""
    items: list[Item] = [
        UserMessage(ID, (TextPart(" \n"), TextPart("a"))),
        AssistantMessage(ID, text_parts(" ")),
        AssistantMessage(ID, ()),
        UserMessage(ID, ()),
        UserMessage(ID, text_parts("b")),
    ]
    assert sent(items)["messages"] == [{"role": "user", "content": [text("a"), {**text("b"), "cache_control": MARK}]}]


def test_sealed_thoughts_go_back_as_they_came() -> None:
    items: list[Item] = [
        Reasoning(ID, "", DIALECT, "redacted:xyz"),
        Reasoning(ID, "", DIALECT, "signature:abc"),
        Reasoning(ID, "unsealed", DIALECT),
        Reasoning(ID, "of another provider", "messages/other", "signature:abc"),
        Reasoning(ID, "in no known form", DIALECT, "abc"),
        AssistantMessage(ID, text_parts("So be it.")),
    ]
    assert sent(items)["messages"] == [
        {
            "role": "assistant",
            "content": [
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "thinking", "thinking": "", "signature": "abc"},
                text("So be it."),
            ],
        }
    ]


@each_row("address", ["data:image/svg+xml;base64,AAAA", "data:image/png,raw", "data:image/png;base64,@", "x"])
def test_a_picture_that_the_api_would_refuse_is_mentioned(address: str) -> None:
    content = sent([UserMessage(ID, (ImagePart(address), TextPart("?")))])["messages"][0]["content"]
    assert content[0] == text("(a picture of a kind that this API does not take)")


def test_an_answer_can_be_asked_for_in_a_form() -> None:
    assert sent([], output_schema='{"type":"object"}')["output_config"] == {
        "format": {"type": "json_schema", "schema": {"type": "object"}}
    }


def test_the_key_is_sent_as_its_host_wants_it() -> None:
    version, key = {"anthropic-version": "2023-06-01"}, {"x-api-key": "sk-1"}
    anthropic, gateway = MESSAGES.wire("https://api.anthropic.com"), MESSAGES.wire("https://notanthropic.com")
    assert anthropic.headers_for("sk-1") == {**version, **key}
    assert gateway.headers_for("sk-1") == {**version, **key, "Authorization": "Bearer sk-1"}
    assert anthropic.headers_for(None) == gateway.headers_for(None) == version


seams = ['] },{ "role":"user","content":[', ']  },{ "role":"assistant","content":[', "] }", '"] },{ "role"']
spiteful = st.text(min_size=1) | st.sampled_from(seams)
arguments = st.dictionaries(spiteful, st.lists(spiteful)).map(lambda made: made or {"a": 1})


@given(st.lists(st.tuples(spiteful, st.lists(spiteful, max_size=2), st.lists(arguments, max_size=3)), max_size=6))
def test_whatever_is_said_roles_take_turns_and_nothing_is_lost(
    turns: list[tuple[str, list[str], list[dict[str, list[str]]]]],
) -> None:
    items: list[Item] = []
    expected: list[tuple[str, object]] = []
    for number, (question, texts, calls) in enumerate(turns):
        spaced = [json.dumps(made, separators=(" , ", " : ")) for made in calls]
        items.append(UserMessage(ID, text_parts(question)))
        items += [AssistantMessage(ID, text_parts(text)) for text in texts]
        items += [ToolCall(ID, CallId(f"{number}_{n}"), "tool", pair) for n, pair in enumerate(spaced)]
        items += [ToolOutput(ID, CallId(f"{number}_{n}"), text_parts(pair)) for n, pair in enumerate(spaced)]
        expected += [("user", request) for request in (question,) if request.strip()]
        expected += [("assistant", text) for text in texts if text.strip()]
        expected += [("assistant", f"{number}_{n}") for n in range(len(calls))]
        expected += [("user", f"{number}_{n}") for n in range(len(calls))]
    sent_parts: list[tuple[str, object]] = []
    roles: list[str] = []
    for message in sent(items)["messages"]:
        roles.append(message["role"])
        named = (block.get("text") or block.get("id") or block["tool_use_id"] for block in message["content"])
        sent_parts += [(message["role"], name) for name in named]
    assert sent_parts == expected
    assert all(one != other for one, other in itertools.pairwise(roles))
