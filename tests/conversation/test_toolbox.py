"""Which tools a conversation is offered, made of its terms and its rights and of nothing else."""

from __future__ import annotations

import gc
import inspect
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tertulia.conversation import toolbox as module
from tertulia.conversation.terms import Terms
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import McpError
from tertulia.mcp.view import McpView
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.policy.approval_policy import NEVER, ON_REQUEST
from tertulia.policy.rights import TOP, Rights
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_spec import CONV_TOOLS, ToolSpec
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.tool import CallContext, Result
from tests.conversation.conversations import terms
from tests.prompt.specs import BUILTINS, mcp, spec
from tests.tables import each_row

SHELLS = {"shell", "local_shell", "exec_command", "write_stdin"}
OWN = [
    *(spec(name) for name in BUILTINS),
    *(spec(name, "conv") for name in CONV_TOOLS),
    spec("canvas", "injector"),
    spec("greet", "function"),
]


class Named:
    """A tool that is only looked at."""

    parallel_safe = read_only = True

    def __init__(self, definition: ToolSpec) -> None:
        self.spec = definition

    def check(self, arguments: Any, call: CallContext) -> None:
        raise AssertionError("nothing is run here")

    async def run(self, arguments: Any, call: CallContext) -> Result:
        raise AssertionError("nothing is run here")


def toolbox() -> Toolbox:
    return Toolbox(ToolRegistry(Named(one) for one in OWN))


def offered(conversation_terms: Terms, rights: Rights | None = None) -> list[str]:
    return [tool.name for tool in toolbox().offered(conversation_terms, rights or conversation_terms.rights).specs]


# ---- what is offered


def test_a_conversation_that_asks_for_nothing_is_offered_everything_in_order() -> None:
    """S000-15, S002-29, X-27: one form of shell, and every other tool."""
    assert offered(terms()) == [
        *("shell", "apply_patch", "grep", "glob", "update_plan", "view_image", "web_search"),
        *CONV_TOOLS,
        *("canvas", "greet", "fs__read", "fs__write", "web__get"),
    ]


@each_row(
    ("right", "gone"),
    [
        ("include_plan_tool", {"update_plan"}),
        ("include_apply_patch_tool", {"apply_patch"}),
        ("tools_web_search_request", {"web_search"}),
        ("include_conv_tools", set(CONV_TOOLS)),
        ("shell", {"shell", "grep", "glob", "view_image"}),
    ],
)
def test_each_switch_takes_its_tools_away_and_no_other(right, gone) -> None:
    """S000-08, S000-16, X-20"""
    assert set(offered(terms())) - set(offered(terms(replace(TOP, **{right: False})))) == gone


@each_row(
    ("shell_mode", "shells"),
    [
        ("default", {"shell"}),
        ("with_request", {"shell"}),
        ("local", {"local_shell"}),
        ("streamable", {"exec_command", "write_stdin"}),
        ("none", set()),
    ],
)
def test_the_form_of_the_shell_decides_which_tools_it_has(shell_mode, shells) -> None:
    """X-19"""
    assert SHELLS & set(offered(terms(shell_mode=shell_mode))) == shells


def test_the_view_of_a_conversation_decides_which_mcp_tools_it_has() -> None:
    """S000-08, S000-38"""
    narrow = terms(replace(TOP, mcp_tool_allowlist=frozenset({"fs__*"})))
    assert [name for name in offered(narrow) if "__" in name] == ["fs__read", "fs__write"]


def test_where_nobody_more_may_wait_the_tools_that_interrupt_are_not_offered() -> None:
    """X-20: the other three stay, and the whole list is another one than the usual."""
    box = toolbox()
    usual, last = (box.offered(terms(), TOP, delegating=delegating) for delegating in (True, False))
    assert usual.names - last.names == {"conv_create", "conv_send"}
    assert box.offered(terms(), TOP) is usual
    assert box.offered(terms(), TOP, delegating=False) is last


def test_the_rights_of_the_whole_chain_hold_and_not_only_the_conversations() -> None:
    """S000-16, B11: no confused deputy."""
    chain = replace(TOP, include_plan_tool=False, shell=False, mcp_tool_allowlist=frozenset({"web__get"}))
    names = offered(terms(TOP), chain)
    assert "update_plan" not in names
    assert not SHELLS & set(names)
    assert [name for name in names if "__" in name] == ["web__get"]


def test_a_function_with_the_name_of_a_switched_off_tool_is_offered() -> None:
    """A switch is about our tools; what a user registers is the user's."""
    box = Toolbox(ToolRegistry([Named(spec("web_search", "function"))]))
    off = replace(TOP, tools_web_search_request=False)
    assert "web_search" in box.offered(terms(off), off).names


def test_merging_adds_one_tool_and_leaves_the_list_without_it_alone() -> None:
    """Issue 20 (8): the five of seed 004 stay as they are."""
    box = Toolbox(ToolRegistry([Named(spec("conv_list", "conv")), Named(spec("conv_merge", "conv"))]))
    usual = box.offered(terms(TOP), TOP)
    merging = box.offered(terms(TOP), TOP, merging=True)
    assert "conv_list" in usual.names
    assert [tool.name for tool in merging.specs] == [*(tool.name for tool in usual.specs), "conv_merge"]
    assert box.offered(terms(TOP), TOP).digest == usual.digest
    off = replace(TOP, include_conv_tools=False)
    assert not {"conv_list", "conv_merge"} & box.offered(terms(off), off, merging=True).names


def test_tools_are_assembled_from_terms_and_rights_alone() -> None:
    """S000-08: there is no tools_config of a session or a turn to ask."""
    flags = ["delegating", "merging"]
    assert list(inspect.signature(Toolbox.offered).parameters) == ["self", "terms", "rights", *flags]


# ---- one list for many


def test_conversations_with_the_same_preferences_share_one_list() -> None:
    """G1"""
    box, view = toolbox(), McpView((mcp("fs", "read"),))
    one, other = (_viewing(view, base=base) for base in ("one", "other"))
    assert box.offered(one, TOP) is box.offered(other, TOP)
    assert box.offered(one, replace(TOP, include_plan_tool=False)) is not box.offered(one, TOP)


def _viewing(view: McpView, base: str | None = None) -> Terms:
    offered_terms = terms(base=base)
    return replace(offered_terms, context=replace(offered_terms.context, mcp_view=view))


def test_the_derived_form_of_the_shell_follows_the_rights_of_the_chain() -> None:
    """X-19"""
    box, offered_terms = toolbox(), terms()
    asking = box.offered(offered_terms, replace(TOP, approval_policy=ON_REQUEST))
    assert asking is not box.offered(offered_terms, replace(TOP, approval_policy=NEVER))


def test_a_tool_that_is_added_or_removed_is_seen_at_once() -> None:
    box, offered_terms = toolbox(), terms()
    before = box.offered(offered_terms, TOP)
    box.registry.add(Named(spec("late", "function")))
    assert "late" in box.offered(offered_terms, TOP).names
    box.registry.remove("late")
    assert box.offered(offered_terms, TOP) == before


def test_a_view_that_is_gone_leaves_its_list_to_no_other() -> None:
    """A list belongs to the snapshot it was made of, not to the place where that lay in memory."""
    box = toolbox()
    for number in range(300):
        view = McpView((mcp("fs", f"tool{number}"),))
        assert f"fs__tool{number}" in box.offered(_viewing(view), TOP).names
        del view
        gc.collect(0)


def test_the_lists_that_are_kept_are_bounded_and_the_oldest_unused_go_first(monkeypatch) -> None:
    monkeypatch.setattr(module, "_KEPT_LISTS", 3)
    box = toolbox()
    views = [_viewing(McpView((mcp("fs", f"tool{number}"),))) for number in range(4)]
    first, second, *_ = (box.offered(view, TOP) for view in views[:3])
    assert box.offered(views[0], TOP) is first
    box.offered(views[3], TOP)
    assert box.offered(views[0], TOP) is first
    assert box.offered(views[1], TOP) is not second
    assert box.offered(views[1], TOP) == second


def test_a_name_is_known_when_a_tool_has_it_or_a_conversation_was_offered_it() -> None:
    """HARDENING E6: what a model makes up is neither."""
    box = toolbox()
    assert [box.knows(name) for name in ("greet", "conv.send", "fs__read", "sk-made-up")] == [True, True, False, False]
    box.offered(_viewing(McpView((mcp("fs", "read"),))), TOP)
    assert (box.knows("fs__read"), box.knows("sk-made-up")) == (True, False)


def test_what_is_offered_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        toolbox().offered(terms(), TOP).specs = ()  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(toolbox().offered(terms(), TOP), msgspec.Struct)


PROVIDER = "str_replace_based_edit_tool"


@each_row(
    ("name", "dialect", "request", "rights", "tools"),
    [
        ("x/gpt-5", "responses/x", {}, {}, ["shell", "apply_patch", "grep", "glob"]),
        ("x/qwen3", "chat/x", {}, {}, ["shell", "view", "edit", "write", "grep", "glob"]),
        ("x/qwen3", "chat/x", {}, {"include_apply_patch_tool": False}, ["shell", "view", "grep", "glob"]),
        ("x/qwen3", "chat/x", {}, {"shell": False}, ["edit", "write"]),
        ("x/qwen3", "chat/x", {"shell_mode": "local"}, {}, ["local_shell", "view", "edit", "write", "grep", "glob"]),
        (
            "x/claude-opus-4-1",
            "messages/x",
            {"shell_mode": "with_request"},
            {},
            ["shell", "bash", PROVIDER, "grep", "glob"],
        ),
        ("x/claude-opus-4-1", "messages/x", {"shell_mode": "default"}, {}, ["bash", PROVIDER, "grep", "glob"]),
        ("x/claude-opus-4-1", "messages/x", {"tool_profile": "patch"}, {}, ["shell", "apply_patch", "grep", "glob"]),
        (
            *("x/claude-opus-4-1", "messages/x", {}),
            {"include_apply_patch_tool": False},
            ["bash", "view", "grep", "glob"],
        ),
        ("x/claude-opus-4-1", "messages/x", {}, {"shell": False}, ["edit", "write"]),
    ],
)
def test_the_tools_for_files_fit_the_model_and_the_rights(
    name: str, dialect: str, request: dict[str, Any], rights: dict[str, Any], tools: list[str]
) -> None:
    """Issue 24: after the shell, in the order of the contract; a switch takes the tools of every profile."""
    wire = ScriptedModel([], name=name, family="x")
    wire.dialect = SimpleNamespace(name=dialect)  # pyright: ignore[reportAttributeAccessIssue]
    own = replace(terms(), wire=wire, **request)
    names = offered(own, replace(own.rights, **rights))
    assert names[: names.index("update_plan")] == tools


def test_one_tool_may_have_another_form_in_another_mode() -> None:
    """S000-06, X-19: the name stays, what may be asked for does not."""
    plain = ToolSpec.define("shell", "Plain.")
    box = Toolbox(ToolRegistry(map(Named, OWN)), {("default", "patch"): plain})
    assert box.offered(terms(shell_mode="default"), TOP).specs[0] is plain
    assert box.offered(terms(shell_mode="with_request"), TOP).specs[0] is OWN[0]


def test_why_a_tool_of_a_server_is_missing_is_told_only_where_the_conversation_may_call_it() -> None:
    """Issue 19, 11: of a server that it may not use a conversation learns nothing."""
    starting = McpError("MCP server 'slow' is still starting")
    box = Toolbox(ToolRegistry(), absence=lambda name, _: starting if name.startswith("slow__") else None)

    def why(rights: Rights, name: str = "slow__echo") -> str:
        offered_terms = terms(rights)
        return box.reach(box.offered(offered_terms, rights), ConversationId("c"), offered_terms).absence(name).message

    assert why(TOP) == starting.message
    assert why(TOP, "other__echo") == "there is no tool 'other__echo' here"
    for allowed in ({"slow__echo"}, {"slow__*"}):
        assert why(replace(TOP, mcp_tool_allowlist=frozenset(allowed))) == starting.message
    for forbidden in (set[str](), {"fs__*"}, {"slow__other"}):
        assert why(replace(TOP, mcp_tool_allowlist=frozenset(forbidden))) == "there is no tool 'slow__echo' here"
