"""The Responses wire: the contract of every wire, and what exactly it sends."""

from __future__ import annotations

import msgspec

from tertulia.models.wire import AnswerItem
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import ToolCall, ToolOutput, UserMessage, text_parts
from tertulia.protocol.tool_spec import ToolSpec
from tests.models.apis import PNG, RESPONSES, TOOLS, ApiContract, body, one_of_everything
from tests.models.wire_contract import a_request
from tests.tables import each_row

ID = ItemId("0" * 16)
IMAGE = {"type": "input_image", "image_url": PNG, "detail": "auto"}


class TestContract(ApiContract):
    """Over the Responses API."""

    api = RESPONSES


def test_a_request_in_full() -> None:
    """The model-visible request: reasoning of ours is sent back sealed, other reasoning is left out."""
    wire = RESPONSES.wire("https://mock.example/v1")
    items = one_of_everything(wire.dialect.name, "sealed")
    sent = body(wire, a_request(items=items, tools=TOOLS, dialect=wire.dialect))
    assert sent == {
        "model": "gpt-5.2",
        "stream": True,
        "store": True,
        "include": ["reasoning.encrypted_content"],
        "instructions": "You are a test.",
        "tools": [
            {
                "type": "function",
                "name": "shell",
                "description": "Runs a command.",
                "strict": False,
                "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
            },
            {
                "type": "custom",
                "name": "apply_patch",
                "description": "Changes files.",
                "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
            },
            {"type": "custom", "name": "notes", "description": "Takes notes.", "format": {"type": "text"}},
            {"type": "web_search"},
        ],
        "input": [
            {"type": "message", "role": "user", "content": "<environment/>"},
            {"type": "message", "role": "user", "content": "<summary>\nThey said hello.\n</summary>"},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look:"},
                    IMAGE,
                    {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "auto"},
                ],
            },
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Let me see."}],
                "encrypted_content": "sealed",
            },
            {"type": "message", "role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "call_1", "name": "shell", "arguments": '{"command": "ls"}'},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin"},
            {"type": "function_call", "call_id": "call.3:x", "name": "shell", "arguments": '{"input":"{broken"}'},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{"type": "input_text", "text": "a.txt"}, IMAGE],
            },
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done."},
            {"type": "function_call_output", "call_id": "call.3:x", "output": "not JSON"},
            {"type": "message", "role": "user", "content": "And quick!"},
            {"type": "message", "role": "assistant", "content": "It is"},
            {"type": "message", "role": "assistant", "content": 'a "file".'},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Thanks"}, {"type": "input_text", "text": "a lot."}],
            },
        ],
    }


def test_the_least_request() -> None:
    wire = RESPONSES.wire("https://mock.example", model="gpt-4.1")
    assert body(wire, a_request(items=[], instructions="", store=False, dialect=wire.dialect)) == {
        "model": "gpt-4.1",
        "stream": True,
        "store": False,
        "input": [],
    }


@each_row(
    ("model", "expected"),
    [("gpt-5.2", True), ("o4-mini", True), ("qwen3", True), ("gpt-4o", False), ("gpt-3.5-turbo", False)],
)
def test_only_models_that_reason_are_asked_for_sealed_reasoning(model: str, expected: bool) -> None:
    wire = RESPONSES.wire("https://mock.example", model=model)
    assert ("include" in body(wire, a_request())) is expected


@each_row("store", [True, False])
def test_whether_the_provider_may_keep_it_follows_the_request(store: bool) -> None:
    """X-33."""
    assert body(RESPONSES.wire("https://mock.example"), a_request(store=store))["store"] is store


def test_an_answer_can_be_asked_for_in_a_form() -> None:
    wire = RESPONSES.wire("https://mock.example")
    assert body(wire, a_request(output_schema='{"type":"object"}'))["text"] == {
        "format": {"type": "json_schema", "name": "answer", "strict": True, "schema": {"type": "object"}}
    }


def test_a_call_id_that_is_too_long_is_shortened_for_the_call_and_its_output() -> None:
    wire = RESPONSES.wire("https://mock.example")
    long = CallId("x" * 65)
    items = [ToolCall(ID, long, "shell", "{}"), ToolOutput(ID, long, text_parts("done"))]
    call, output = body(wire, a_request(items=items, dialect=wire.dialect))["input"]
    assert call["call_id"] == output["call_id"]
    assert len(call["call_id"]) <= 64


def test_an_empty_message_and_an_empty_output_are_empty_texts() -> None:
    wire = RESPONSES.wire("https://mock.example")
    items = [UserMessage(ID, ()), ToolCall(ID, CallId("c"), "shell", "{}"), ToolOutput(ID, CallId("c"), ())]
    sent = body(wire, a_request(items=items, dialect=wire.dialect))["input"]
    assert sent[0] == {"type": "message", "role": "user", "content": ""}
    assert sent[2]["output"] == ""


def test_the_key_is_a_bearer_token() -> None:
    wire = RESPONSES.wire("https://mock.example")
    assert wire.headers_for("sk-1") == {"Authorization": "Bearer sk-1"}
    assert wire.headers_for(None) == {}


def test_another_provider_address_or_model_is_another_dialect() -> None:
    """Its sealed reasoning opens nowhere else. A password or a query of the address is no part of the name."""
    names = {
        RESPONSES.wire(url, model=model).dialect.name
        for url in (
            "https://mock.example",
            "https://mock.example:444",
            "http://mock.example",
            "https://mock.example/v2",
        )
        for model in ("gpt-5.2", "gpt-5-mini")
    }
    assert len(names) == 8
    assert all(name.startswith("responses/mock/gpt-5") for name in names)
    plain, secret = RESPONSES.wire("https://mock.example"), RESPONSES.wire("https://me:pass@mock.example?api-key=x")
    assert plain.dialect.name == secret.dialect.name


def test_the_providers_own_shell_is_offered_and_repeated_in_its_own_form() -> None:
    """X-19: its output goes back like a function's; what was not written as an action stays a function call."""
    dialect = RESPONSES.wire("https://mock.example").dialect
    own = ToolSpec.define("local_shell", "Runs a command.", {"type": "object"})
    foreign = ToolSpec.define("local_shell", "Another.", {"type": "object"}, source="mcp", server="x")
    offered = msgspec.json.decode(dialect.encode_tools([own, foreign]))
    assert [tool["type"] for tool in offered] == ["local_shell", "function"]
    made = ToolCall(ItemId("i"), CallId("c"), "local_shell", '{"command":["ls"],"timeout_ms":5}')
    assert msgspec.json.decode(dialect.encode_items([made])) == {
        "type": "local_shell_call",
        "call_id": "c",
        "status": "completed",
        "action": {"type": "exec", "env": {}, "command": ["ls"], "timeout_ms": 5},
    }
    broken = ToolCall(ItemId("i"), CallId("c"), "local_shell", "[")
    assert msgspec.json.decode(dialect.encode_items([broken]))["type"] == "function_call"


def test_azure_gets_sealed_reasoning_back_with_its_id() -> None:
    """Azure refuses it without (400, invalid_payload), and OpenAI looks for a stored item where there is one."""
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAB+/=="}
    event = msgspec.json.encode({"type": "response.output_item.done", "output_index": 0, "item": sealed})
    for url, expected in (
        ("https://me.openai.azure.com/openai/v1", sealed),
        ("https://me.services.ai.azure.com/openai/v1", sealed),
        ("https://openai.azure.com.evil.example/v1", {key: value for key, value in sealed.items() if key != "id"}),
        ("https://api.openai.com/v1", {key: value for key, value in sealed.items() if key != "id"}),
    ):
        wire = RESPONSES.wire(url)
        items = [piece.item for piece in wire.reader().take(event) if isinstance(piece, AnswerItem)]
        assert msgspec.json.decode(wire.dialect.encode_items(items)) == expected
        # What was stored by an earlier version has no id.
        older = [msgspec.structs.replace(item, opaque="gAAAAB+/==") for item in items]
        assert "id" not in msgspec.json.decode(wire.dialect.encode_items(older))
