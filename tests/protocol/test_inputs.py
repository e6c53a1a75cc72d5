"""What comes in: parsed once, unknown fields refused, absent and null told apart."""

from __future__ import annotations

from time import thread_time

import msgspec
import pytest
from msgspec import UNSET

from tertulia.errors import InvalidParamsError
from tertulia.protocol import inputs
from tertulia.protocol.inputs import (
    MAX_TEXT_BYTES,
    AgentSpec,
    ContextFields,
    ImageInput,
    LocalImageInput,
    Message,
    NewConversation,
    SetContext,
    TextInput,
    check_text,
)
from tertulia.protocol.name_hints import near_names
from tests.tables import Large, each_row

STRUCTS = [
    value
    for value in vars(inputs).values()
    if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == inputs.__name__
]


@each_row("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_input_is_frozen_and_refuses_unknown_fields_by_name(struct) -> None:
    assert struct.__struct_config__.frozen
    optional = len(struct.__struct_defaults__)
    required = dict.fromkeys(struct.__struct_fields__[: len(struct.__struct_fields__) - optional], "x")
    if "decision" in required:
        required["decision"] = "allow"
    if struct.__struct_config__.tag:
        required["type"] = struct.__struct_config__.tag
    with pytest.raises(msgspec.ValidationError, match="unknown field `surprise`"):
        msgspec.convert(required | {"surprise": 1}, struct)


def test_a_conversation_can_be_opened_with_the_fields_of_the_contract() -> None:
    """S000-32"""
    assert set(NewConversation.__struct_fields__) == {
        *("base_instructions", "user_instructions", "mcp_tool_allowlist", "include_plan_tool"),
        *("include_apply_patch_tool", "include_conv_tools", "tools_web_search_request", "shell_mode", "model"),
        *(
            "backend",
            "agent",
            "cwd",
            "approval_policy",
            "sandbox",
            "network",
            "include_fetch_tool",
            "storage_policy",
            "limits",
            "title",
        ),
        *("fallback_models", "visibility", "on_restart", "parent_id", "allow_git", "project_instructions", "workspace"),
        *("reasoning_effort", "temperature", "max_output_tokens", "tool_profile"),
    }


@each_row("field", ContextFields.__struct_fields__)
def test_absent_and_null_are_different_things(field) -> None:
    """X-67: absent keeps, null resets."""
    absent = msgspec.convert({"conversation_id": "c"}, SetContext)
    null = msgspec.convert({"conversation_id": "c", field: None}, SetContext)
    assert getattr(absent, field) is UNSET
    assert getattr(null, field) is None


def test_every_field_that_can_be_opened_with_can_be_changed() -> None:
    """S000-34"""
    assert set(NewConversation.__struct_fields__) - set(SetContext.__struct_fields__) == {"parent_id"}
    assert set(SetContext.__struct_fields__) - set(NewConversation.__struct_fields__) == {
        "conversation_id",
        "refresh_mcp_view",
    }


def test_a_message_is_text_and_items_and_how_it_is_to_be_sent() -> None:
    message = msgspec.convert(
        {
            "conversation_id": "root",
            "text": "look",
            "items": [
                {"type": "text", "text": "a"},
                {"type": "image", "image_url": "https://x/y.png"},
                {"type": "local_image", "path": "z.png"},
            ],
        },
        Message,
    )
    assert message.items == [TextInput("a"), ImageInput("https://x/y.png"), LocalImageInput("z.png")]
    assert (message.if_busy, message.detach, message.message_id) == (None, None, None)


@each_row(
    "wrong",
    [
        {"text": 5},
        {"items": [{"type": "video", "url": "x"}]},
        {"items": [{"text": "no type"}]},
        {"if_busy": "steal"},
        {"task_type": "poem"},
        {"detach": "yes"},
    ],
)
def test_a_message_of_the_wrong_shape_is_refused(wrong) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"conversation_id": "root"} | wrong, Message)


def test_an_agent_needs_no_more_than_a_name() -> None:
    agent = msgspec.convert({"name": "ana"}, AgentSpec)
    assert (agent.archetype, agent.backend_type) == ("repo", "native")
    assert (agent.workspace_policy, agent.launch_mode) == ("persistent", "managed")


# ---- texts


@each_row("text", ["", "hello", "ñ😀", "\0", "\u2028", Large(lambda: "x" * MAX_TEXT_BYTES)])
def test_a_text_that_can_be_kept_is_given_back(text) -> None:
    assert check_text(text, "text") is text


@each_row(
    "text",
    [Large(lambda: "x" * (MAX_TEXT_BYTES + 1)), Large(lambda: "ñ" * (MAX_TEXT_BYTES // 2 + 1))],
    ids=["ascii", "wide"],
)
def test_a_text_over_16_megabytes_of_utf8_is_refused_with_its_size(text) -> None:
    with pytest.raises(InvalidParamsError, match=r"^text is 16,777,21[78] bytes long; the limit is 16,777,216$"):
        check_text(text, "text")


@each_row(("text", "position"), [("\ud800", 0), ("ab\udfffc", 2), ("\ude00\ud83d", 0)])
def test_a_lone_surrogate_is_refused_with_its_position(text, position) -> None:
    """D9"""
    with pytest.raises(InvalidParamsError, match=rf"^user_instructions has a lone surrogate at position {position};"):
        check_text(text, "user_instructions")


def test_only_a_name_that_may_be_a_slip_is_compared() -> None:
    """L1: an unknown name of 16 MB held the loop for seconds, with 40 bytes for each of its characters."""
    assert near_names("max_depht", ["max_depth", "other"]) == ["max_depth"]
    began = thread_time()
    assert near_names("max_depth" * 1_000_000, ["max_depth"]) == []
    assert thread_time() - began < 0.1
