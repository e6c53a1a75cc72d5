"""What a hook may answer at which moment, and that no answer gives a call more than it has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.policy.hook_answer import MAX_CONTEXT, HookAnswer, narrow_rights, parse_hook_answer
from tertulia.policy.rights import TOP, leq
from tertulia.protocol.tool_events import HookMoment
from tests.policy.strategies import rights
from tests.tables import each_row


def test_no_answer_means_to_go_on() -> None:
    assert parse_hook_answer(None, "before_tool") == parse_hook_answer({}, "task_end") == HookAnswer()


def test_an_answer_takes_a_right_away() -> None:
    after, refused = narrow_rights(TOP, HookAnswer(narrow={"network": False}))
    assert (after.network, refused) == (False, ())


def test_a_whole_answer_is_parsed() -> None:
    answer = parse_hook_answer(
        {
            "decision": "continue",
            "reason": "",
            "context": "careful",
            "narrow": {"sandbox": "read-only", "network": False, "writable_roots": ["/a/b", "/a"]},
        },
        "before_tool",
    )
    assert (answer.reason, answer.context) == (None, "careful")
    assert answer.narrow == {"sandbox": "read_only", "network": False, "writable_roots": ("/a",)}
    assert parse_hook_answer({"decision": "refuse", "reason": "no"}, "approval").reason == "no"


@each_row(
    "moment, answer, why",
    [
        ("before_tool", [], "must be a JSON object"),
        ("before_tool", {"decision": "allow"}, "must be continue or refuse"),
        ("before_tool", {"decision": ["refuse"]}, "must be continue or refuse"),
        ("task_end", {"decision": "refuse"}, "must be continue"),
        ("task_end", {"context": "x"}, "no field 'context'"),
        ("after_tool", {"narrow": {}}, "no field 'narrow'"),
        ("before_tool", {"arguments": {}}, "no field 'arguments'"),
        ("before_tool", {"reason": 3}, "reason must be a text"),
        ("before_tool", {"context": "x" * (MAX_CONTEXT + 1)}, "context must be a text of at most"),
        ("before_tool", {"context": "\ud800"}, "lone surrogate"),
        ("before_tool", {"narrow": []}, "narrow must be an object"),
        ("before_tool", {"narrow": {"storage_policy": "none"}}, "no right 'storage_policy'"),
        ("before_tool", {"narrow": {"sandbox": "open"}}, "sandbox"),
        ("before_tool", {"narrow": {"writable_roots": "/a"}}, "must be a list"),
        ("before_tool", {"narrow": {"writable_roots": [3]}}, "must be a list"),
        ("before_tool", {"narrow": {"writable_roots": ["a"]}}, "absolute"),
    ],
)
def test_what_it_may_not_say_is_refused(moment: HookMoment, answer: Any, why: str) -> None:
    with pytest.raises(InvalidParamsError, match=why):
        parse_hook_answer(answer, moment)


WIDEST = HookAnswer(narrow={"sandbox": "danger_full_access", "network": True, "writable_roots": ("/",)})


@given(rights)
def test_no_answer_widens(before: Any) -> None:
    after, _ = narrow_rights(before, WIDEST)
    assert leq(after, before)


@given(rights)
def test_fewer_rights_are_given(before: Any) -> None:
    after, refused = narrow_rights(replace(before, network=True), HookAnswer(narrow={"network": False}))
    assert after.network is False
    assert refused == ()
