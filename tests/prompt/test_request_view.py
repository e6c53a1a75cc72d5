"""History and a turn's own items as one thing to walk and one thing to send, without copying either."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence

import msgspec

from tertulia.models.wire import ItemsDialect
from tertulia.prompt.request import PromptView, build_prompt_view
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, ToolCall, ToolOutput
from tests.history.items import CountingEncoder, call, model, output, rounds, seed, store_of, thought, user
from tests.tables import each_row

DIALECT = ItemsDialect()


class Spelling(CountingEncoder):
    """A dialect that counts."""

    def encode_tools(self, tools: Sequence[object]) -> bytes:
        raise AssertionError("a view has no tools")


def decoded(view: PromptView) -> list[Item]:
    """What the wire would send, read back."""
    body = b"[" + b",".join(view.chunks) + b"]"
    return msgspec.json.decode(body, type=list[Item])


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that were held at once on behalf of the work."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = work()
        _, peak = tracemalloc.get_traced_memory()
        del result
        return peak - before
    finally:
        tracemalloc.stop()


# ---- what is in it


def test_the_input_of_a_turn_is_the_history_and_then_the_turns_own_items() -> None:
    """S000-14, S002-25: one function builds it, oldest first."""
    store = store_of(*rounds(3), seeds=[seed()])
    extra = [user("one more thing"), user("and another")]
    view = build_prompt_view(store, DIALECT, extra)
    assert list(view) == [*store.snapshot(), *extra]
    assert decoded(view) == list(view)
    assert len(view) == len(list(view)) == store.totals.item_count + 2


def test_the_items_are_the_very_ones_of_the_history() -> None:
    """S002-25: identity, not equality."""
    turns = [[user("a")], [thought(), call("c1"), output("c1"), model("b")]]
    extra = user("c")
    seeds = [seed()]
    walked = list(build_prompt_view(store_of(*turns, seeds=seeds), DIALECT, [extra]))
    expected = [*seeds, *turns[0], *turns[1], extra]
    assert len(walked) == len(expected)
    assert all(one is other for one, other in zip(walked, expected, strict=True))


def test_a_view_can_be_walked_again() -> None:
    view = build_prompt_view(store_of(*rounds(2)), DIALECT, [user()])
    assert list(view) == list(view)


def test_an_empty_history_gives_an_empty_view() -> None:
    view = build_prompt_view(store_of(), DIALECT)
    assert (list(view), view.chunks, len(view)) == ([], (), 0)


def test_items_that_a_dialect_has_no_word_for_leave_no_empty_chunk() -> None:
    """The contract of Request: none is empty."""
    spelling = Spelling(silent=[Reasoning])
    view = build_prompt_view(store_of([thought()]), spelling, [thought()])
    assert view.chunks == ()
    assert len(view) == 2


# ---- what it costs


def test_a_long_history_is_neither_copied_nor_encoded_again() -> None:
    """S002-25: 10,000 items, some 20 MB, and a view of it fits into four kilobytes."""
    store = store_of(*rounds(2_500, "x" * 2_000))
    build_prompt_view(store, DIALECT)
    assert store.totals.byte_count > 10_000_000
    extra = [user("one more thing")]
    assert peak_of(lambda: build_prompt_view(store, DIALECT, extra)) < 4_096


def test_walking_a_long_history_holds_one_item_at_a_time() -> None:
    """S002-25: an iterator over segments, no whole concatenation."""
    view = build_prompt_view(store_of(*rounds(2_500)), DIALECT, [user()])
    assert peak_of(lambda: sum(1 for _ in view)) < 4_096


def test_each_segment_is_encoded_once_however_many_requests_are_made() -> None:
    """S002-25: only the turn's own items are spelled for each request."""
    spelling, store = Spelling(), store_of(seeds=[seed()])
    for turn in rounds(20):
        store.append(turn)
        for _ in range(3):
            build_prompt_view(store, spelling)
    assert set(spelling.encoded.values()) == {1}
    assert len(spelling.encoded) == 41


def test_a_small_history_is_merged_once_and_then_only_handed_over() -> None:
    """S002-26"""
    store = store_of(*rounds(3))
    first = build_prompt_view(store, DIALECT).chunks
    assert build_prompt_view(store, DIALECT).chunks is first
    assert len(first) <= 3


# ---- what does not change it


@each_row("extra", [(), (user("extra"),)], ids=["no-extra", "extra"])
def test_a_view_does_not_change_when_the_history_goes_on(extra) -> None:
    """S002-27: neither what is walked nor what is sent."""
    store = store_of(*rounds(3))
    view = build_prompt_view(store, DIALECT, extra)
    items, chunks, size = list(view), b",".join(view.chunks), len(view)
    reader = iter(view)
    half = [next(reader) for _ in range(5)]
    store.append([user("later")])
    store.append([model("later still")])
    assert [*half, *reader] == list(view) == items
    assert (b",".join(view.chunks), len(view)) == (chunks, size)
    assert len(build_prompt_view(store, DIALECT, extra)) == size + 2


def test_a_view_does_not_change_with_the_list_of_extra_items() -> None:
    """S002-27"""
    extra = [user("one")]
    view = build_prompt_view(store_of(), DIALECT, extra)
    extra.append(user("two"))
    assert len(view) == len(list(view)) == 1


def test_extra_items_do_not_join_the_history() -> None:
    """S000-14"""
    store = store_of(*rounds(1))
    before = (list(store.snapshot()), store.totals.digest, store.revision)
    build_prompt_view(store, DIALECT, [user("only for this request")])
    assert (list(store.snapshot()), store.totals.digest, store.revision) == before


# ---- pairing


def test_a_call_that_is_still_open_is_answered_for_this_request_only() -> None:
    """X-34: the sanitiser proves pairing on every request, both ways; history keeps its open calls."""
    store = store_of([user()], [call("a"), call("b"), output("a")], [call("c")])
    extra = user("write the notes")
    before = (list(store.snapshot()), store.open_calls)
    view = build_prompt_view(store, DIALECT, [extra])
    *earlier, first, second, last = view
    assert earlier == before[0]
    assert last is extra
    for closing, call_id in ((first, "b"), (second, "c")):
        assert isinstance(closing, ToolOutput)
        assert (closing.call_id, closing.success) == (call_id, False)
        assert "still open" in closing.text
    assert decoded(view) == list(view)
    assert (list(store.snapshot()), store.open_calls) == before


def test_closing_an_open_call_twice_says_the_same() -> None:
    """X-34: the bytes of two requests do not differ, so that a provider's cache holds."""
    store = store_of([call("a")])
    assert build_prompt_view(store, DIALECT).chunks == build_prompt_view(store, DIALECT).chunks


def test_the_kind_of_a_call_is_the_kind_of_its_answer() -> None:
    custom = msgspec.structs.replace(call("a"), kind="custom")
    *_, closing = build_prompt_view(store_of([custom]), DIALECT)
    assert isinstance(closing, ToolOutput)
    assert closing.kind == "custom"


def test_every_call_in_a_view_has_one_output() -> None:
    """X-34"""
    turns = [*rounds(5), [model("so"), call("x"), call("y")], [output("y")]]
    view = build_prompt_view(store_of(*turns), DIALECT)
    calls = [item.call_id for item in view if isinstance(item, ToolCall)]
    outputs = [item.call_id for item in view if isinstance(item, ToolOutput)]
    assert sorted(calls) == sorted(outputs)
    assert len(set(outputs)) == len(outputs)
    assert any(isinstance(item, AssistantMessage) for item in view)
