"""How a conversation gets its terms: absent keeps, null resets, nothing rises above the ceiling, and it is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.conversation.resolve_terms import TermsBase, resolve_terms
from tertulia.conversation.terms import Terms
from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.models.wire import Wire
from tertulia.policy.approval_policy import NEVER, ON_FAILURE, ON_REQUEST, UNTRUSTED
from tertulia.policy.limits import Limits
from tertulia.policy.rights import TOP, Narrowing, leq, meet
from tertulia.protocol.inputs import MAX_TEXT_BYTES, ContextFields
from tertulia.protocol.storage import Full, HeadersOnly, Ttl
from tests.conversation.conversations import OTHER_WIRE, WIRE, find_wire, terms, terms_base
from tests.policy.strategies import rights
from tests.tables import each_row
from tests.thorough import examples

STRICT = replace(
    TOP,
    approval_policy=UNTRUSTED,
    sandbox="read_only",
    storage_policy=HeadersOnly(),
    mcp_tool_allowlist=frozenset({"fs__read"}),
    include_plan_tool=False,
    include_apply_patch_tool=False,
    include_conv_tools=False,
    tools_web_search_request=False,
    shell=False,
    visibility="subtree",
    on_restart="close",
    limits=Limits(max_conversations=5),
)
CHANGED: dict[str, Any] = {
    "base_instructions": "new base",
    "user_instructions": "new user",
    "mcp_tool_allowlist": ["web__get"],
    "include_plan_tool": False,
    "include_apply_patch_tool": False,
    "include_conv_tools": False,
    "tools_web_search_request": False,
    "shell_mode": "streamable",
    "model": "acme/two",
    "cwd": "/elsewhere",
    "approval_policy": "never",
    "sandbox": "read-only",
    "storage_policy": {"ttl": 60},
    "limits": {"max_output_bytes": 10},
    "visibility": "subtree",
}


def asked(**fields: Any) -> ContextFields:
    return ContextFields(**fields)


def values(found: Terms) -> dict[str, Any]:
    """What each input decides."""
    return {
        **{name: getattr(found.context, name) for name in ("base_instructions", "user_instructions")},
        **{name: getattr(found.rights, name) for name in CHANGED if hasattr(found.rights, name)},
        "model": found.wire,
        "cwd": found.cwd,
        "shell_mode": found.shell_mode,
    }


# ---- absent, null, given


def test_asking_for_nothing_changes_nothing() -> None:
    """X-67, S000-15: absent keeps."""
    current = terms(STRICT, base="base", user="user", shell_mode="local", cwd="/here")
    resolved = resolve_terms(asked(), current, terms_base())
    assert resolved.terms == current
    assert resolved.terms.rights is current.rights
    assert resolved.terms.context.mcp_view is current.context.mcp_view
    assert (resolved.narrowed, resolved.warnings) == ((), ())


@each_row("field", CHANGED)
def test_a_field_that_is_given_changes_itself_and_nothing_else(field) -> None:
    """S000-34, S000-36, X-67"""
    current = terms(base="base", user="user")
    resolved = resolve_terms(asked(**{field: CHANGED[field]}), current, terms_base())
    before, after = values(current), values(resolved.terms)
    assert after[field] != before[field]
    assert {name for name in before if before[name] != after[name]} == {field}
    assert resolved.narrowed == ()


@each_row("field", CHANGED)
def test_a_field_that_is_null_goes_back_to_the_default(field) -> None:
    """X-67: null resets."""
    default = terms()
    changed = resolve_terms(asked(**CHANGED), default, terms_base(default)).terms
    resolved = resolve_terms(asked(**{field: None}), changed, terms_base(default))
    back = values(default)[field]
    assert values(resolved.terms) == values(changed) | {field: back}
    assert resolved.narrowed == ()


def test_all_fields_that_are_null_give_the_default() -> None:
    """X-67"""
    default = terms()
    changed = resolve_terms(asked(**CHANGED), default, terms_base(default)).terms
    assert resolve_terms(asked(**dict.fromkeys(CHANGED)), changed, terms_base(default)).terms == default


def test_terms_are_new_and_the_old_ones_stay_as_they_were() -> None:
    """S000-03: whoever runs under the old ones is not disturbed."""
    current = terms(base="base")
    before = values(current)
    resolved = resolve_terms(asked(**CHANGED), current, terms_base())
    assert values(current) == before
    assert values(resolved.terms) != before


def test_what_the_model_is_offered_follows_from_the_new_rights() -> None:
    """S000-06, S000-08: preferences and view are never set beside the rights."""
    resolved = resolve_terms(asked(include_plan_tool=False, mcp_tool_allowlist=["fs__*"]), terms(), terms_base())
    context = resolved.terms.context
    assert context.tools_prefs.include_plan_tool is False
    assert [tool.name for tool in context.mcp_view.list_tools()] == ["fs__read", "fs__write"]


def test_a_limit_that_is_not_named_stays() -> None:
    current = terms(replace(TOP, limits=Limits(max_output_bytes=7, mcp_concurrency=3)))
    limits = resolve_terms(asked(limits={"mcp_concurrency": 2.0}), current, terms_base()).terms.rights.limits
    assert (limits.max_output_bytes, limits.mcp_concurrency) == (7, 2)


@each_row(("policy", "shell_mode"), [("on-request", "with_request"), ("never", "default"), ("on_failure", "default")])
def test_the_shell_follows_the_approval_policy_until_it_is_asked_for(policy, shell_mode) -> None:
    """X-19"""
    resolved = resolve_terms(asked(approval_policy=policy), terms(), terms_base()).terms
    assert resolved.context.tools_prefs.shell_mode == shell_mode
    explicit = resolve_terms(asked(approval_policy=policy, shell_mode="local"), terms(), terms_base()).terms
    assert explicit.context.tools_prefs.shell_mode == "local"


def test_a_shell_that_was_given_up_can_be_had_again() -> None:
    """X-19, X-67: a conversation narrows itself, its ceiling stays."""
    without = resolve_terms(asked(shell_mode="none"), terms(), terms_base()).terms
    assert (without.rights.shell, without.context.tools_prefs.shell_mode) == (False, "none")
    again = resolve_terms(asked(shell_mode="with-request"), without, terms_base()).terms
    assert (again.rights.shell, again.shell_mode) == (True, "with_request")
    reset = resolve_terms(asked(shell_mode=None), without, terms_base()).terms
    assert (reset.rights.shell, reset.shell_mode) == (True, None)


# ---- narrowing


@each_row(
    ("field", "wanted", "value"),
    [
        ("approval_policy", "on-failure", "untrusted"),
        ("sandbox", "danger_full_access", "read-only"),
        ("storage_policy", "full", "headers_only"),
        ("mcp_tool_allowlist", ["fs__read", "web__get"], ["fs__read"]),
        ("include_plan_tool", True, False),
        ("include_apply_patch_tool", True, False),
        ("include_conv_tools", True, False),
        ("tools_web_search_request", True, False),
        ("visibility", "session", "subtree"),
        ("limits", {"max_conversations": 9}, {"max_conversations": 5}),
        ("limits", {"max_conversations": None}, {"max_conversations": 5}),
        ("shell_mode", "streamable", "none"),
        ("shell_mode", "local", "none"),
    ],
)
def test_asking_for_too_much_gives_what_is_allowed_and_says_so(field, wanted, value) -> None:
    """S000-16, S000-17, S000-36, B7: what was asked, what was given, and why."""
    current = terms(STRICT)
    resolved = resolve_terms(asked(**{field: wanted}), current, terms_base(ceiling=STRICT, because="ancestor:42"))
    (cut,) = resolved.narrowed
    spelled = "danger-full-access" if wanted == "danger_full_access" else wanted
    assert cut == Narrowing(field, spelled, value, "ancestor:42")
    assert resolved.terms.rights == STRICT
    assert resolved.terms.context.tools_prefs == current.context.tools_prefs


def test_only_what_was_asked_for_is_told() -> None:
    """S000-17"""
    resolved = resolve_terms(
        asked(sandbox="workspace-write", shell_mode="none"), terms(STRICT), terms_base(ceiling=STRICT)
    )
    assert [cut.field for cut in resolved.narrowed] == ["sandbox"]


def test_a_reset_asks_for_nothing_and_is_met_with_the_ceiling() -> None:
    """X-67: to the default as far as the ceiling allows, without a word."""
    fields = [name for name in CHANGED if hasattr(TOP, name)]
    resets = asked(**dict.fromkeys([*fields, "shell_mode"]))
    resolved = resolve_terms(resets, terms(STRICT), TermsBase(terms(TOP), STRICT, "session", find_wire))
    assert resolved.terms.rights == STRICT
    assert resolved.narrowed == ()


_words = {
    "mcp_tool_allowlist": st.lists(
        st.sampled_from(["fs__read", "fs__write", "web__get", "fs__*", "web__*", "fs/read"])
    ),
    "include_plan_tool": st.booleans(),
    "include_apply_patch_tool": st.booleans(),
    "include_conv_tools": st.booleans(),
    "tools_web_search_request": st.booleans(),
    "shell_mode": st.sampled_from(["default", "with_request", "with-request", "local", "streamable", "none"]),
    "approval_policy": st.sampled_from(
        ["untrusted", "on-request", "on_request", "on-failure", "never", UNTRUSTED, ON_REQUEST, ON_FAILURE, NEVER]
    ),
    "sandbox": st.sampled_from(["read-only", "workspace-write", "workspace_write", "danger-full-access"]),
    "storage_policy": st.sampled_from(["full", "headers_only", "none", {"ttl": 5}, {"ttl": 600}, Full(), Ttl(30)]),
    "visibility": st.sampled_from(["session", "subtree"]),
    "limits": st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(Limits.__struct_fields__, st.sampled_from([None, 1, 2.0, 1_000])),
            "compact_at": st.sampled_from([None, 0.5, 1]),
        },
    ),
    "base_instructions": st.text(max_size=5),
    "user_instructions": st.text(max_size=5),
    "cwd": st.just("/elsewhere"),
    "model": st.just("acme/two"),
    "backend": st.just("native"),
}
context_fields = st.fixed_dictionaries({}, optional={name: value | st.none() for name, value in _words.items()}).map(
    lambda fields: ContextFields(**fields)
)


@settings(max_examples=examples(500))
@given(context_fields, rights, rights)
def test_no_terms_rise_above_their_ceiling_whatever_is_asked(wanted, ceiling, default) -> None:
    """S000-16, S000-19, B7"""
    current = terms(meet(default, ceiling))
    measured = TermsBase(terms(default), ceiling, "session", find_wire)
    resolved = resolve_terms(wanted, current, measured)
    found = resolved.terms
    assert leq(found.rights, ceiling)
    assert found.context.mcp_view.allowlist == found.rights.mcp_tool_allowlist
    assert found.rights.shell or found.context.tools_prefs.shell_mode == "none"
    for cut in resolved.narrowed:
        if cut.because == "storage_policy":
            # What keeps no texts cannot go on after a crash, whether that was asked for or inherited.
            assert (cut.field, found.rights.on_restart) == ("on_restart", "close")
            continue
        assert getattr(wanted, cut.field) not in (None, msgspec.UNSET)
        assert cut.asked != cut.given
        assert cut.because == "session"
    again = resolve_terms(wanted, found, measured)
    assert again.terms == found, "asking twice gives the same"


# ---- the old spelling of allowlists


def test_the_old_spelling_of_an_allowlist_is_warned_of_once() -> None:
    """S000-26"""
    resolved = resolve_terms(asked(mcp_tool_allowlist=["fs/read", "web/get"]), terms(), terms_base())
    assert resolved.terms.rights.mcp_tool_allowlist == {"fs__read", "web__get"}
    (warning,) = resolved.warnings
    assert "deprecated" in warning


@each_row(("allowlist", "visible"), [([], []), (None, ["fs__read", "fs__write", "web__get"])])
def test_an_empty_allowlist_is_none_and_null_is_all(allowlist, visible) -> None:
    """X-24"""
    narrow = resolve_terms(asked(mcp_tool_allowlist=["fs__read"]), terms(), terms_base()).terms
    resolved = resolve_terms(asked(mcp_tool_allowlist=allowlist), narrow, terms_base()).terms
    assert [tool.name for tool in resolved.context.mcp_view.list_tools()] == visible


# ---- refusals


class WatchedGround:
    """Counts the wires that were made."""

    def __init__(self) -> None:
        self.made: list[object] = []

    def find_wire(self, model: object) -> Wire:
        self.made.append(model)
        return OTHER_WIRE


@each_row(
    ("field", "wrong", "expected"),
    [
        ("mcp_tool_allowlist", ["fs__raed"], "did you mean fs__read"),
        ("mcp_tool_allowlist", ["no such/tool"], "not a tool name"),
        ("shell_mode", "loud", "shell_mode must be one of default, with_request, local, streamable, none, not 'loud'"),
        ("shell_mode", "", "shell_mode must be one of"),
        ("backend", "codex", "backend 'codex' is unknown; there is only native"),
        ("cwd", "relative", "cwd must be an absolute path"),
        ("cwd", "", "cwd must be an absolute path"),
        ("cwd", "/a\0b", "cwd must be an absolute path"),
        ("cwd", "/" + "x" * 5_000, "at most 4,096 characters"),
        ("cwd", "/\ud800", "cwd has a lone surrogate"),
        ("visibility", "everybody", "visibility must be one of subtree, session, not"),
        ("approval_policy", "always", "approval_policy must be"),
        ("sandbox", "open", "sandbox must be one of"),
        ("storage_policy", "forever", "storage_policy must be"),
        ("storage_policy", {"ttl": 0}, "storage_policy ttl must be"),
        ("limits", {"max_conversation": 1}, "did you mean max_conversations"),
        ("limits", {"max_conversations": 0}, "limits.max_conversations must be a positive whole number"),
        ("base_instructions", "a\udfff", "base_instructions has a lone surrogate at position 1"),
        ("user_instructions", "\ud800", "user_instructions has a lone surrogate at position 0"),
    ],
)
def test_a_wrong_value_is_refused_and_leaves_nothing_behind(field, wrong, expected) -> None:
    """S000-29, S000-42, X-24: no terms, no wire, and the old terms as they were."""
    watched, current = WatchedGround(), terms(base="base")
    before = values(current)
    with pytest.raises(InvalidParamsError) as refused:
        resolve_terms(
            asked(**{field: wrong, "model": "acme/two"}), current, TermsBase(current, TOP, "session", watched.find_wire)
        )
    assert expected in refused.value.message
    assert values(current) == before
    assert watched.made == []


def test_a_backend_that_cannot_ask_is_refused_where_the_narrowed_policy_needs_it() -> None:
    """DESIGN: refused at open under a policy that needs asking. What counts is what was given, not what was asked."""
    current = terms(replace(TOP, approval_policy=NEVER))
    known = {"native": True, "mute": False, "asks": True}
    place = TermsBase(current, TOP, "session", find_wire, lambda: known)
    assert resolve_terms(asked(backend="mute"), current, place).terms.backend == "mute"
    with pytest.raises(InvalidParamsError, match="backend mute cannot ask a person"):
        resolve_terms(asked(backend="mute", approval_policy="untrusted"), current, place)
    assert resolve_terms(asked(backend="asks", approval_policy="untrusted"), current, place).terms.backend == "asks"
    narrow = TermsBase(current, replace(TOP, approval_policy=NEVER), "session", find_wire, lambda: known)
    assert resolve_terms(asked(backend="mute", approval_policy="on-failure"), current, narrow).terms.backend == "mute"
    with pytest.raises(InvalidParamsError, match="did you mean mute"):
        resolve_terms(asked(backend="mut"), current, place)
    gone = replace(current, backend="gone")
    assert resolve_terms(asked(title="x"), gone, place).terms.backend == "gone"


def test_an_unknown_model_is_refused() -> None:
    current = terms()
    with pytest.raises(InvalidParamsError, match="no provider of that name"):
        resolve_terms(asked(model="nobody/x"), current, terms_base())
    assert current.wire is WIRE


@each_row("field", ["base_instructions", "user_instructions", "cwd"])
def test_a_text_over_16_megabytes_is_refused(field) -> None:
    with pytest.raises(InvalidParamsError, match=f"^{field} is 16,777,217 bytes long"):
        resolve_terms(asked(**{field: "/" + "x" * MAX_TEXT_BYTES}), terms(), terms_base())


@each_row("field", ["shell_mode", "backend", "cwd", "visibility"])
def test_a_refusal_does_not_repeat_a_megabyte(field) -> None:
    with pytest.raises(TertuliaError) as refused:
        resolve_terms(asked(**{field: "x" * 1_000_000}), terms(), terms_base())
    assert len(refused.value.message) < 250
