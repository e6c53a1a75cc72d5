"""What makes a conversation itself, and which shell it gets."""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.conversation.terms import ConversationContext, Terms, ToolsPrefs, TurnContext, tool_preferences
from tertulia.mcp.view import McpView
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.policy.approval_policy import NEVER, ON_FAILURE, ON_REQUEST, UNTRUSTED, ApprovalPolicy
from tertulia.policy.rights import TOP
from tertulia.prompt.tool_list import has_provider_tools
from tests.tables import each_row

NAMELESS = ApprovalPolicy("trusted", may_ask=False, retry_outside_on_failure=False)


def test_a_context_has_exactly_four_fields() -> None:
    """S000-04"""
    fields = ("base_instructions", "user_instructions", "mcp_view", "tools_prefs")
    assert ConversationContext.__struct_fields__ == fields


def test_a_view_holds_an_allowlist_that_is_none_for_all() -> None:
    """S000-05"""
    assert McpView.__struct_fields__ == ("tools", "allowlist", "seen", "pins")
    assert McpView().allowlist is None


def model(family: str, name: str = "scripted/inline") -> ScriptedModel:
    return ScriptedModel([], family=family, name=name)


def test_preferences_are_five_switches_and_the_form_of_shell_and_tools() -> None:
    """S000-06, X-20: conv tools have a switch too."""
    assert ToolsPrefs.__struct_fields__ == (
        *("include_plan_tool", "include_apply_patch_tool", "include_conv_tools", "web_search_request"),
        "include_fetch_tool",
        *("shell_mode", "tool_profile", "provider_tools"),
    )


def test_a_turn_knows_six_things_and_neither_instructions_nor_tools() -> None:
    """S000-07: nothing is written twice."""
    assert TurnContext.__struct_fields__ == (
        *("client", "cwd", "approval_policy", "sandbox_policy", "shell_environment_policy", "storage_policy"),
    )
    assert not {"base_instructions", "user_instructions", "tools_config"} & set(TurnContext.__struct_fields__)


@each_row("kind", [ConversationContext, TurnContext, ToolsPrefs, Terms, McpView])
def test_what_a_conversation_is_made_of_never_changes(kind) -> None:
    """It is replaced whole: whoever read it before still has what was true then."""
    assert kind.__struct_config__.frozen


# ---- preferences


@each_row(
    ("right", "switch"),
    [
        ("include_plan_tool", "include_plan_tool"),
        ("include_apply_patch_tool", "include_apply_patch_tool"),
        ("include_conv_tools", "include_conv_tools"),
        ("tools_web_search_request", "web_search_request"),
    ],
)
def test_each_switch_follows_its_right(right, switch) -> None:
    """S000-06"""
    off = tool_preferences(replace(TOP, **{right: False}), model("acme"), None)
    assert off == replace(tool_preferences(TOP, model("acme"), None), **{switch: False})


def test_equal_preferences_are_one_object() -> None:
    """G1: ten thousand conversations share them."""
    assert tool_preferences(TOP, model("acme"), "local") is tool_preferences(
        replace(TOP, network=False), model("other"), "local"
    )


@each_row(
    ("approval", "request", "family", "shell_mode"),
    [
        (ON_REQUEST, None, "acme", "with_request"),
        (ON_REQUEST, None, "codex-mini", "with_request"),
        (ON_FAILURE, None, "codex-mini", "local"),
        (NEVER, None, "codex-mini", "local"),
        (ON_FAILURE, None, "acme", "default"),
        (UNTRUSTED, None, "acme", "default"),
        (NEVER, None, "acme", "default"),
        (NAMELESS, None, "acme", "default"),
        (ON_REQUEST, "streamable", "acme", "streamable"),
        (ON_REQUEST, "default", "codex-mini", "default"),
        (NEVER, "local", "acme", "local"),
        (NEVER, "with_request", "acme", "with_request"),
        (ON_REQUEST, "none", "acme", "none"),
    ],
)
def test_the_form_of_the_shell_is_asked_for_or_derived(approval, request, family, shell_mode) -> None:
    """X-19, S000-06: what was asked; else on-request asks with the call; else the family's own; else the default."""
    assert tool_preferences(replace(TOP, approval_policy=approval), model(family), request).shell_mode == shell_mode


@each_row("request", [None, "default", "with_request", "local", "streamable", "none"])
def test_without_the_right_there_is_no_shell_in_any_form(request) -> None:
    """X-19: the form is a preference, the shell a right."""
    assert tool_preferences(replace(TOP, shell=False), model("codex-mini"), request).shell_mode == "none"


@each_row(
    ("name", "family", "request", "profile"),
    [
        ("openai/gpt-5.2", "gpt-5", None, "patch"),
        ("acme/unknown", "acme", None, "patch"),
        ("scripted/claude.yaml", "scripted", None, "patch"),
        ("scripted/inline", "claude", None, "editor"),
        ("openrouter/qwen/qwen3-coder", "openrouter", None, "editor"),
        ("anthropic/claude-sonnet-4-5", "claude", None, "editor"),
        ("anthropic/claude-sonnet-4-5", "claude", "patch", "patch"),
        ("openai/gpt-5.2", "gpt-5", "editor", "editor"),
    ],
)
def test_the_profile_of_tools_is_asked_for_or_that_of_the_model(name, family, request, profile) -> None:
    """Issue 24: by the family, unless the conversation or the session says otherwise."""
    assert tool_preferences(TOP, model(family, name), None, request).tool_profile == profile


@each_row(
    ("name", "dialect", "provider"),
    [
        ("anthropic/claude-opus-4-1", "messages/anthropic", True),
        ("gateway/claude-haiku-4-5", "messages/gateway", True),
        ("anthropic/claude-3-7-sonnet", "messages/anthropic", False),
        ("anthropic/claude-opus-5", "messages/anthropic", False),
        ("openrouter/anthropic/claude-sonnet-4", "chat/openrouter", False),
    ],
)
def test_only_the_messages_api_has_tools_of_its_own_and_only_for_some_models(name, dialect, provider) -> None:
    """Issue 24: a model is offered a type of its provider only where the provider documents it."""
    assert has_provider_tools(name, dialect) is provider
