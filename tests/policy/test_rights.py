"""The lattice of rights, proved; and what is said when somebody asks for too much."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from msgspec.structs import asdict, replace

from tertulia.errors import InvalidParamsError
from tertulia.policy.approval_policy import NEVER, ON_FAILURE, ON_REQUEST, UNTRUSTED, ApprovalPolicy
from tertulia.policy.limits import NO_LIMITS, Limits
from tertulia.policy.rights import RIGHTS_ORDER, TOP, Narrowing, Rights, leq, meet, narrow, parse_right, to_wire
from tertulia.protocol.conversation_fields import SWITCH_OF_TOOL, TOOL_SWITCHES
from tertulia.protocol.inputs import ContextFields
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, Ttl
from tests.policy.strategies import requests, rights, with_only
from tests.tables import each_row
from tests.thorough import examples

proof = settings(max_examples=examples(300))


# ---- the lattice (S000-16, S000-18, B7)


@proof
@given(rights, rights, rights)
def test_the_meet_is_associative(a, b, c) -> None:
    """S000-18"""
    assert meet(meet(a, b), c) == meet(a, meet(b, c))


@proof
@given(rights, rights)
def test_the_meet_is_commutative(a, b) -> None:
    """S000-18"""
    assert meet(a, b) == meet(b, a)


@proof
@given(rights)
def test_the_meet_is_idempotent_and_the_top_is_neutral(a) -> None:
    """S000-18"""
    assert meet(a, a) is a
    assert meet(a, replace(a)) is a
    assert meet(a, TOP) is a
    assert meet(TOP, a) is a


@proof
@given(rights, rights)
def test_the_meet_is_never_above_either_side(a, b) -> None:
    """S000-16, B7: strictest wins."""
    met = meet(a, b)
    assert leq(met, a)
    assert leq(met, b)


@proof
@given(rights, rights, rights)
def test_whatever_is_below_both_sides_is_below_the_meet(a, b, c) -> None:
    """Nothing is taken that neither side forbids: the meet is the greatest of all that are below both."""
    below_both = meet(b, meet(c, a))
    assert leq(below_both, a)
    assert leq(below_both, b)
    assert leq(below_both, meet(a, b))


@proof
@given(rights, rights)
def test_below_means_that_the_meet_changes_nothing(a, b) -> None:
    assert leq(a, b) == (meet(a, b) == a) == (meet(b, a) == a)
    if leq(a, b):
        assert meet(a, b) is a


@proof
@given(rights, rights, rights)
def test_below_is_a_partial_order(a, b, c) -> None:
    assert leq(a, a)
    assert (leq(a, b) and leq(b, a)) == (a == b)
    lower, middle = meet(meet(a, b), c), meet(a, b)
    assert leq(lower, middle)
    assert leq(middle, a)
    assert leq(lower, a)


@proof
@given(rights, rights)
def test_rights_are_below_others_exactly_when_each_field_is(a, b) -> None:
    by_field = [
        leq(with_only(TOP, field, x), with_only(TOP, field, asdict(b)[field])) for field, x in asdict(a).items()
    ]
    assert leq(a, b) == all(by_field)


TTL = Ttl(60)
PAIRS = [
    ("sandbox", "read_only", "workspace_write"),
    ("sandbox", "workspace_write", "danger_full_access"),
    ("sandbox", "read_only", "danger_full_access"),
    ("network", False, True),
    ("allow_git", False, True),
    ("writable_roots", (), ("/a",)),
    ("writable_roots", ("/a",), None),
    ("writable_roots", ("/a/b",), ("/a",)),
    ("storage_policy", NoStorage(), HeadersOnly()),
    ("storage_policy", HeadersOnly(), Ttl(0.001)),
    ("storage_policy", Ttl(59), TTL),
    ("storage_policy", TTL, Full()),
    ("storage_policy", NoStorage(), Full()),
    ("mcp_tool_allowlist", frozenset(), frozenset(["fs__read"])),
    ("mcp_tool_allowlist", frozenset(["fs__read"]), frozenset(["fs__*"])),
    ("mcp_tool_allowlist", frozenset(["fs__*"]), None),
    ("approval_policy", UNTRUSTED, ON_REQUEST),
    ("approval_policy", ON_REQUEST, ON_FAILURE),
    ("approval_policy", UNTRUSTED, ON_FAILURE),
    ("approval_policy", NEVER, ON_REQUEST),
    ("approval_policy", NEVER, ON_FAILURE),
    ("include_plan_tool", False, True),
    ("include_apply_patch_tool", False, True),
    ("include_conv_tools", False, True),
    ("tools_web_search_request", False, True),
    ("include_fetch_tool", False, True),
    ("shell", False, True),
    ("visibility", "subtree", "session"),
    ("on_restart", "close", "continue"),
    ("limits", replace(NO_LIMITS, mcp_wait_s=1.0), NO_LIMITS),
    ("limits", replace(NO_LIMITS, max_conversations=1), replace(NO_LIMITS, max_conversations=2)),
]


@each_row(("field", "stricter", "looser"), PAIRS)
def test_strictness_pairwise(field, stricter, looser) -> None:
    """S000-18"""
    low, high = with_only(TOP, field, stricter), with_only(TOP, field, looser)
    assert meet(low, high) is low
    assert meet(high, low) is low
    assert leq(low, high)
    assert not leq(high, low)


def test_the_table_of_pairs_speaks_of_every_right() -> None:
    assert {field for field, _, _ in PAIRS} == set(Rights.__struct_fields__)


@each_row(
    ("field", "a", "b", "met"),
    [
        (
            "approval_policy",
            NEVER,
            UNTRUSTED,
            ApprovalPolicy("trusted", may_ask=False, retry_outside_on_failure=False),
        ),
        ("writable_roots", ("/a", "/b/c"), ("/a/x", "/b"), ("/a/x", "/b/c")),
        ("writable_roots", ("/a",), ("/b",), ()),
        (
            "mcp_tool_allowlist",
            frozenset(["fs__*", "git__log"]),
            frozenset(["fs__read"]),
            frozenset(["fs__read"]),
        ),
    ],
)
def test_values_of_which_neither_is_stricter_meet_below_both(field, a, b, met) -> None:
    """S000-18: never and untrusted give: safe reads run, the rest is denied, nobody is asked."""
    assert asdict(meet(with_only(TOP, field, a), with_only(TOP, field, b)))[field] == met


@given(rights)
def test_rights_hold_their_patterns_in_normal_form(a) -> None:
    assert replace(a) == a
    said_twice = replace(TOP, writable_roots=("/a/b", "/a", "/a/./c"), mcp_tool_allowlist=frozenset(["f__*", "f__x"]))
    assert said_twice == replace(TOP, writable_roots=("/a",), mcp_tool_allowlist=frozenset(["f__*"]))


def test_rights_cannot_be_made_with_a_relative_root() -> None:
    with pytest.raises(InvalidParamsError, match="writable_roots"):
        replace(TOP, writable_roots=("src",))


@each_row(("tool", "switch"), SWITCH_OF_TOOL.items())
def test_a_tool_is_allowed_where_its_switch_is_on(tool, switch) -> None:
    assert TOP.allows_tool(tool)
    assert not replace(TOP, **{switch: False}).allows_tool(tool)


def test_a_tool_without_a_switch_is_always_allowed() -> None:
    assert replace(TOP, **dict.fromkeys(TOOL_SWITCHES, False)).allows_tool("view_image")


@each_row(
    ("right", "written", "value"),
    [
        ("approval_policy", "never", NEVER),
        ("sandbox", "read-only", "read_only"),
        ("network", False, False),
        ("writable_roots", ["/a"], ("/a",)),
        ("storage_policy", "none", NoStorage()),
        ("include_plan_tool", True, True),
        ("visibility", "subtree", "subtree"),
        ("on_restart", "continue", "continue"),
        ("shell", "none", False),
        ("shell", "streamable", True),
        ("limits", NO_LIMITS, NO_LIMITS),
        ("mcp_tool_allowlist", frozenset(["fs__read"]), frozenset(["fs__read"])),
    ],
)
def test_a_right_is_read_from_what_its_field_says(right, written, value) -> None:
    assert parse_right(right, written) == value


def test_every_right_has_its_order() -> None:
    with pytest.raises(TypeError, match="each field of Rights"):
        type(RIGHTS_ORDER)(Rights, {})


def test_a_right_is_named_as_the_input_that_sets_it() -> None:
    """A conversation cannot ask for roots at all, and its shell is asked for as a mode."""
    assert set(Rights.__struct_fields__) - set(ContextFields.__struct_fields__) == {"writable_roots", "shell"}


# ---- narrowing what is asked for (S000-16, S000-17, S000-47, B7)


@proof
@given(requests, rights, rights)
def test_nobody_gets_more_than_the_ceiling_or_more_than_asked(request, default, ceiling) -> None:
    """B7, S000-16"""
    given_rights, _ = narrow(request, default, ceiling, "session")
    assert leq(given_rights, ceiling)
    assert given_rights == meet(replace(default, **request), ceiling)


@proof
@given(requests, rights, rights)
def test_exactly_what_was_asked_and_cut_is_listed(request, default, ceiling) -> None:
    """S000-47"""
    given_rights, narrowed = narrow(request, default, ceiling, "session")
    ceilings = asdict(ceiling)
    cut = {
        field: value
        for field, value in request.items()
        if not leq(with_only(TOP, field, value), with_only(TOP, field, ceilings[field]))
    }
    spelled = {"shell_mode" if field == "shell" else field for field in cut}
    assert {entry.field for entry in narrowed} == spelled
    assert len(narrowed) == len(cut)
    for entry in narrowed:
        field = "shell" if entry.field == "shell_mode" else entry.field
        result = to_wire(field, asdict(given_rights)[field])
        assert entry.asked != entry.given
        assert entry.given.items() <= result.items() if field == "limits" else entry.given == result


@given(rights, rights)
def test_who_asks_for_nothing_shares_the_default_where_it_fits(default, ceiling) -> None:
    """10,000 conversations that ask for nothing special hold one Rights between them."""
    inside = meet(default, ceiling)
    assert narrow({}, inside, ceiling, "session") == (inside, ())
    assert narrow({}, inside, ceiling, "session")[0] is inside
    assert narrow({}, default, ceiling, "session")[1] == ()


def test_the_explanation_is_in_wire_spelling() -> None:
    """S000-47"""
    ceiling = replace(
        TOP,
        approval_policy=ApprovalPolicy("trusted", may_ask=False, retry_outside_on_failure=False),
        sandbox="read_only",
        storage_policy=Ttl(60),
        mcp_tool_allowlist=frozenset(["b__x", "a__x"]),
        writable_roots=("/w",),
        shell=False,
        visibility="subtree",
        limits=replace(NO_LIMITS, mcp_concurrency=2, task_timeout_s=5),
    )
    fields = {
        "approval_policy": ON_FAILURE,
        "sandbox": "danger_full_access",
        "storage_policy": Full(),
        "mcp_tool_allowlist": None,
        "writable_roots": ("/",),
        "shell": True,
        "visibility": "session",
        "limits": replace(NO_LIMITS, mcp_concurrency=4, task_timeout_s=3),
        "include_plan_tool": True,
    }
    given_rights, narrowed = narrow(fields, ceiling, ceiling, "ancestor:42")
    assert {entry.field: (entry.asked, entry.given) for entry in narrowed} == {
        "approval_policy": (
            "on-failure",
            {"auto_run": "trusted", "may_ask": False, "retry_outside_on_failure": False},
        ),
        "sandbox": ("danger-full-access", "read-only"),
        "storage_policy": ("full", {"ttl": 60}),
        "mcp_tool_allowlist": (None, ["a__x", "b__x"]),
        "writable_roots": (["/"], ["/w"]),
        "shell_mode": ("default", "none"),
        "visibility": ("session", "subtree"),
        "limits": ({"mcp_concurrency": 4}, {"mcp_concurrency": 2}),
    }
    assert {entry.because for entry in narrowed} == {"ancestor:42"}
    assert given_rights.limits.task_timeout_s == 3


def test_an_explanation_is_one_json_object() -> None:
    """S000-47: `narrowed` is [{field, asked, given, because}]."""
    _, narrowed = narrow({"network": True}, TOP, replace(TOP, network=False), "session")
    assert narrowed == (Narrowing("network", asked=True, given=False, because="session"),)
    assert msgspec.json.encode(narrowed) == (b'[{"field":"network","asked":true,"given":false,"because":"session"}]')


def test_asking_for_less_is_not_narrowing() -> None:
    wanted, narrowed = narrow({"sandbox": "read_only", "mcp_tool_allowlist": frozenset()}, TOP, TOP, "session")
    assert (wanted.sandbox, wanted.mcp_tool_allowlist, narrowed) == ("read_only", frozenset(), ())


def test_every_value_on_the_wire_is_plain_data() -> None:
    wire = {field: to_wire(field, value) for field, value in asdict(TOP).items()}
    assert msgspec.json.decode(msgspec.json.encode(wire)) == wire
    assert wire["limits"] == dict.fromkeys(Limits.__struct_fields__)
    assert to_wire("shell", False) == "none"
    assert to_wire("mcp_tool_allowlist", frozenset()) == []


def test_a_cut_is_told_in_words() -> None:
    _, (cut,) = narrow({"sandbox": "danger_full_access"}, TOP, replace(TOP, sandbox="read_only"), "session")
    assert cut.sentence == "sandbox: asked for danger-full-access; given read-only, because of the session"


@each_row(
    ("because", "words"),
    [
        ("session", "the session"),
        ("ancestor:c1", "the conversation c1 that opened it"),
        ("agent:ada", "the agent ada"),
        ("chain", "the conversations that wait for it"),
        (
            "storage_policy",
            "its storage policy, which keeps no texts: neither it nor a chain with it can go on after a crash",
        ),
    ],
)
def test_a_sentence_names_whose_limit_it_is(because: str, words: str) -> None:
    """UI.md 7.13"""
    assert Narrowing("network", asked=True, given=False, because=because).sentence.endswith(f"because of {words}")


@each_row(
    ("auto_run", "may_ask", "retry", "words"),
    [
        ("trusted", True, False, "untrusted"),
        ("sandboxed", False, False, "never"),
        ("trusted", False, False, "only known-safe reads run, the rest is refused unasked"),
        ("trusted", True, True, "asked about the rest (or tried again outside the sandbox)"),
        ("sandboxed", False, True, "what the sandbox holds runs, the rest is refused unasked (or tried again"),
    ],
)
def test_no_dict_is_shown_for_a_policy_without_a_name(auto_run: str, may_ask: bool, retry: bool, words: str) -> None:
    """UI.md 7.13, HARDENING A22"""
    wire = {"auto_run": auto_run, "may_ask": may_ask, "retry_outside_on_failure": retry}
    sentence = Narrowing("approval_policy", asked="on-failure", given=wire, because="session").sentence
    assert words in sentence
    assert not set("{}[]") & set(sentence)
