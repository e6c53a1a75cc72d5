"""The proof of call/output pairing, and the mending of what cannot be proved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InternalError
from tertulia.history.sanitiser import closing_outputs, complete_prefix, mend, prove, turns
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import Item, ToolCall, ToolOutput
from tests.history.items import call, model, output, thought, user
from tests.tables import each_row

UNTRUSTED = st.lists(
    st.one_of(
        st.sampled_from("abc").map(call),
        st.sampled_from("abc").map(output),
        st.sampled_from([user, model, thought]).map(lambda make: make()),
    ),
    max_size=12,
)


def is_paired(items: list[Item]) -> bool:
    """The invariant, told naively: of each id, call and output in turn."""
    paired = [item for item in items if isinstance(item, ToolCall | ToolOutput)]
    kinds = [[type(item) for item in paired if item.call_id == call_id] for call_id in {i.call_id for i in paired}]
    return all(kind == [ToolCall, ToolOutput] * (len(kind) // 2) for kind in kinds)


def test_a_turn_with_all_its_outputs_has_no_open_ends() -> None:
    """X-34"""
    assert prove([user(), thought(), call("a"), call("b"), output("b"), output("a"), model()]) == ((), ())


def test_open_calls_and_answers_to_earlier_ones_are_told_in_order() -> None:
    """X-34"""
    assert prove([output("x"), output("w"), call("b"), call("a"), call("c"), output("a")]) == (("b", "c"), ("x", "w"))


def test_an_id_may_be_used_again_after_its_call_was_answered() -> None:
    assert prove([call("a"), output("a"), call("a")]) == (("a",), ())
    assert prove([output("a"), call("a")]) == (("a",), ("a",))
    assert prove([output("a"), call("a"), output("a")]) == ((), ("a",))


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([call("a"), call("a")], id="called twice while open"),
        pytest.param([call("a"), output("a"), output("a")], id="answered twice"),
        pytest.param([output("a"), output("a")], id="answered twice from earlier"),
    ],
)
def test_the_impossible_is_refused_by_its_call_id(items: list[Item]) -> None:
    """X-34"""
    with pytest.raises(InternalError) as caught:
        prove(items)
    assert caught.value.detail == {"call_id": "a"}


def test_what_is_whole_is_not_touched_by_mending() -> None:
    items: list[Item] = [user(), call("a"), output("a"), model()]
    mended = mend(items, "interrupted")
    assert [id(item) for item in mended] == [id(item) for item in items]


def test_mending_drops_outputs_without_call_second_outputs_and_second_calls() -> None:
    """X-34"""
    first, answered = call("a"), output("a")
    assert mend([output("z"), first, call("a"), answered, output("a")], "interrupted") == [first, answered]


def test_mending_answers_an_open_call_before_anything_else_is_said() -> None:
    """X-34: some models accept nothing between a call and its output."""
    a, b, out, later = call("a"), call("b"), output("b"), user()
    mended = mend([a, b, out, later], "interrupted")
    assert [mended[0], mended[1], mended[2], mended[4]] == [a, b, out, later]
    closed = mended[3]
    assert isinstance(closed, ToolOutput)
    assert (closed.call_id, closed.success, closed.text) == ("a", False, "interrupted")


def test_mending_answers_a_call_at_the_very_end() -> None:
    mended = mend([user(), call("a"), output("a"), call("a")], "interrupted")
    assert prove(mended) == ((), ())
    assert len(mended) == 5


def test_the_same_item_twice_is_judged_by_its_places() -> None:
    again = call("a")
    mended = mend([again, output("a"), user(), again], "interrupted")
    assert [type(item) for item in mended[:2]] == [ToolCall, ToolOutput]
    assert prove(mended) == ((), ())
    assert len(mended) == 5


def test_closing_outputs_follow_from_their_calls() -> None:
    custom = ToolCall(ItemId("i"), CallId("c"), "apply_patch", "*** Begin", kind="custom")
    reused = ToolCall(ItemId("j"), CallId("c"), "shell", "{}")
    first, second = closing_outputs([custom, reused], "late")
    assert (first.call_id, first.kind, first.success, first.text) == ("c", "custom", False, "late")
    assert second.kind == "function"
    assert first.id != second.id
    assert closing_outputs([custom], "late") == (first,), "the same call is closed in the same words"


def test_a_call_id_with_a_lone_surrogate_can_be_closed() -> None:
    assert closing_outputs([call("\ud800")], "late")[0].call_id == "\ud800"


@given(UNTRUSTED)
def test_mended_items_always_pass_the_proof_and_keep_all_that_is_said(items: list[Item]) -> None:
    """X-34, both ways, for any order of calls and outputs."""
    mended = mend(items, "interrupted")
    assert prove(mended) == ((), ())
    assert is_paired(mended)
    messages = [item for item in items if not isinstance(item, ToolCall | ToolOutput)]
    assert [item for item in mended if not isinstance(item, ToolCall | ToolOutput)] == messages
    assert mend(mended, "again") == mended


@given(UNTRUSTED)
def test_turns_put_the_same_items_into_runs_that_are_each_paired(items: list[Item]) -> None:
    mended = mend(items, "interrupted")
    runs = list(turns(mended))
    assert [item for run in runs for item in run] == mended
    assert all(prove(run) == ((), ()) and run for run in runs)


def test_turns_begin_with_requests_and_after_the_outputs_of_an_answer() -> None:
    items = [user(), call("a"), call("b"), output("a"), output("b"), model(), user(), model()]
    assert list(turns(items)) == [items[:5], items[5:6], items[6:]]


def test_a_request_between_a_call_and_its_output_begins_no_turn() -> None:
    items = [call("a"), user(), output("a"), user()]
    assert list(turns(items)) == [items[:3], items[3:]]


def test_nothing_has_no_turns() -> None:
    assert list(turns([])) == []


@each_row(
    ("items", "end"),
    [
        ([], 0),
        ([user(), model()], 2),
        ([user(), call("a")], 1),
        ([user(), call("a"), call("b"), output("a")], 1),
        ([call("c"), call("a"), output("c")], 0),
        ([user(), call("a"), output("a"), call("b")], 3),
        ([user(), thought(), call("a")], 1),
        ([thought()], 0),
    ],
)
def test_what_stands_by_itself_ends_before_the_oldest_open_call(items: list[Item], end: int) -> None:
    """X-34: and before reasoning that would lead nowhere."""
    assert complete_prefix(items) == end
