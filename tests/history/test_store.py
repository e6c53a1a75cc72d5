"""The store holds its invariants through appends, rewrites and forks, and costs what is new."""

from __future__ import annotations

import hashlib
import sys
import tracemalloc

import msgspec
import pytest

from tertulia.errors import InternalError, InvalidParamsError, NotFoundError
from tertulia.history.compaction import plan_cut, trim
from tertulia.history.sanitiser import closing_outputs
from tertulia.history.store import Cut, HistoryLimits, HistoryStore
from tertulia.protocol.ids import CallId, ItemId, new_item_id
from tertulia.protocol.items import Item, Reasoning, Summary, ToolCall, UserMessage, text_parts
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage
from tests.history.items import UNLIMITED, CountingEncoder, call, model, output, rounds, seed, store_of, thought, user
from tests.tables import each_row
from tests.thorough import times


def state(store: HistoryStore) -> tuple[object, ...]:
    """All that must be the same after a refusal."""
    counts = (store.totals.item_count, store.totals.byte_count, store.totals.message_count, store.approx_tokens)
    return (list(store.snapshot()), store.open_calls, store.totals.digest, store.revision, counts)


def joined(store: HistoryStore, encoder: CountingEncoder) -> bytes:
    return b",".join(store.encoded(encoder))


def test_a_history_is_encoded_bit_by_bit_as_it_is_at_once() -> None:
    """L1: another dialect for a long history took all of it in one step."""
    store, encoder, steps = store_of(*rounds(20, "x" * 400)), CountingEncoder(), list[tuple[bytes, ...]]()
    while (encoded := store.encoded(encoder, most_bytes=1_000)) not in steps:
        steps.append(encoded)
    assert len(steps) > 5
    assert b",".join(steps[-1]) == joined(store, CountingEncoder("other")) == joined(store, encoder)


# ---- who else may store it


def test_a_provider_may_store_it_only_while_every_text_may_be_stored() -> None:
    store, guarded = store_of([user()]), msgspec.structs.replace(user(), storage=HeadersOnly())
    assert store.may_be_kept_elsewhere
    store.kept_by = NoStorage()
    assert not store.may_be_kept_elsewhere
    store.kept_by = Full()
    assert store.may_be_kept_elsewhere
    store.append([guarded])
    assert not store.may_be_kept_elsewhere
    assert not store.fork().may_be_kept_elsewhere


# ---- appending


def test_only_what_is_new_is_appended_and_each_item_once() -> None:
    """S002-23"""
    store = store_of(seeds=[seed()])
    turn = [user(), model()]
    segment = store.append(turn)
    assert segment is not None
    assert segment.items == tuple(turn)
    assert [item.id for item in store.snapshot()].count(turn[0].id) == 1
    assert store.totals.item_count == 3


def test_appending_nothing_changes_nothing() -> None:
    store = store_of([user()])
    before = state(store)
    assert store.append([]) is None
    assert state(store) == before


def test_seeds_are_one_pinned_segment_and_none_where_there_are_none() -> None:
    """S002-24"""
    (segment,) = store_of(seeds=[seed(), seed()]).snapshot().segments()
    assert segment.pinned
    assert list(store_of().snapshot().segments()) == []


def test_counts_follow_every_append() -> None:
    """S002-21"""
    store = store_of([user("abcd"), call("a", "t", "{}")], [output("a", "éé"), model("xy")], seeds=[seed("<e/>")])
    assert (store.totals.item_count, store.totals.byte_count, store.totals.message_count) == (5, 4 + 4 + 3 + 4 + 2, 2)
    assert store.approx_tokens == 5


@each_row(
    ("broken", "call_id"),
    [
        pytest.param([output("z")], "z", id="output without call"),
        pytest.param([output("a"), output("b")], "b", id="second output"),
        pytest.param([call("a")], "a", id="id of an open call"),
        pytest.param([call("a"), output("a")], "a", id="id of an open call, closed at once"),
        pytest.param([call("n"), call("n")], "n", id="called twice at once"),
    ],
)
def test_a_segment_that_would_break_the_pairing_is_refused_and_changes_nothing(
    broken: list[Item], call_id: str
) -> None:
    """S002-24, X-34"""
    store = store_of([user()], [call("a"), call("b")], [output("b")])
    before = state(store)
    with pytest.raises(InternalError) as caught:
        store.append(broken)
    assert caught.value.detail == {"call_id": call_id}
    assert state(store) == before
    store.append([output("a")])
    assert store.open_calls == ()


def test_open_calls_are_told_in_order_across_segments() -> None:
    store = store_of([call("a"), call("b")], [output("a"), call("c")], [output("c"), call("a")])
    assert store.open_calls == ("b", "a")
    assert [item.call_id for item in store.open_call_items()] == ["b", "a"]


def test_an_id_can_be_answered_and_used_again_in_one_segment() -> None:
    store = store_of([call("a")], [output("a"), call("a")])
    assert store.open_calls == ("a",)


def test_what_is_pinned_cannot_hold_half_of_a_pair() -> None:
    """S002-24"""
    store = store_of([call("a")])
    before = state(store)
    for half in ([call("b")], [output("a")]):
        with pytest.raises(InternalError, match="pinned"):
            store.append(half, pinned=True)
    assert state(store) == before


def test_a_text_of_10_mb_and_nul_are_kept_as_they_are() -> None:
    """NUL, U+2028 and U+0085 (E11) included."""
    text = "\x00\u2028\u0085" + "x" * 10_000_000
    store = store_of([user(text)])
    (held,) = store.messages()
    assert held.text == text
    assert store.totals.byte_count == len(text.encode())


def test_a_lone_surrogate_is_refused_and_changes_nothing() -> None:
    store = store_of([user()])
    before = state(store)
    with pytest.raises(InvalidParamsError, match="surrogate"):
        store.append([user("\ud800")])
    assert state(store) == before


def test_the_digest_is_chained_over_the_segments() -> None:
    store = store_of(seeds=[seed()])
    expected = b""
    for turn in rounds(3):
        store.append(turn)
    for segment in store.snapshot().segments():
        expected = hashlib.sha256(expected + segment.digest).digest()
    assert store.totals.digest == expected


def test_closing_answers_every_open_call_once_with_the_reason() -> None:
    """X-34"""
    custom = ToolCall(ItemId("k"), CallId("b"), "apply_patch", "***", kind="custom")
    store = store_of([call("a"), custom, call("c")], [output("c")])
    closed = closing_outputs(store.open_call_items(), "interrupted")
    store.append(closed)
    assert [(out.call_id, out.kind, out.success, out.text) for out in closed] == [
        ("a", "function", False, "interrupted"),
        ("b", "custom", False, "interrupted"),
    ]
    assert store.open_calls == ()
    assert tuple(store.snapshot())[-2:] == closed
    assert closing_outputs(store.open_call_items(), "interrupted") == ()


# ---- limits and tokens


@each_row(
    ("limits", "over"),
    [
        (HistoryLimits(), False),
        (HistoryLimits(max_tokens=10, max_items=2, max_bytes=40), False),
        (HistoryLimits(max_tokens=9), True),
        (HistoryLimits(max_items=1), True),
        (HistoryLimits(max_bytes=39), True),
        (HistoryLimits(max_tokens=9, max_items=99, max_bytes=99), True),
    ],
)
def test_each_limit_that_is_set_is_a_threshold(limits: HistoryLimits, over: bool) -> None:
    """S002-21"""
    assert store_of([user("x" * 20), model("y" * 20)], limits=limits).over_limit() is over


def test_reported_usage_corrects_the_estimate_within_bounds() -> None:
    """S002-21"""
    store = store_of([user("x" * 400)], limits=HistoryLimits(max_tokens=150))
    assert (store.approx_tokens, store.over_limit()) == (100, False)
    store.calibrate(store.approx_tokens, 160)
    assert (store.approx_tokens, store.over_limit()) == (160, True)
    store.calibrate(store.approx_tokens, 160)
    assert store.approx_tokens == 160, "an estimate that was right is not touched"
    store.calibrate(store.approx_tokens, 1)
    assert store.approx_tokens == 25
    store.calibrate(1, 2)
    assert store.approx_tokens == 50, "the smallest estimate counts too"
    store.calibrate(store.approx_tokens, 1_000_000)
    assert store.approx_tokens == 400
    for senseless in ((0, 5), (5, 0), (-1, 5)):
        store.calibrate(*senseless)
        assert store.approx_tokens == 400
    assert store.fork().approx_tokens == 400


def test_the_estimate_settles_when_more_than_history_goes_out() -> None:
    """S002-21: instructions and tools are estimated beside it; the sum comes to what the model counts."""
    store, instructions = store_of([user("x" * 8_000)]), 500
    for _ in range(20):
        store.calibrate(store.approx_tokens + instructions, 3_250)
    assert abs(store.approx_tokens + instructions - 3_250) <= 10


# ---- bytes


def test_each_segment_is_encoded_once_in_its_life_whatever_happens() -> None:
    """DESIGN "Speed": append, trim, rewrite and fork only move bytes."""
    encoder = CountingEncoder(silent=[Reasoning])
    store = store_of(seeds=[seed()], limits=HistoryLimits(max_items=40))
    forks: list[HistoryStore] = []
    for number, turn in enumerate(rounds(60)):
        store.append([*turn, thought()] if number % 3 else turn)
        if number % 4 != 1:
            assert joined(store, encoder) == encoder.spell(store.snapshot())
        if store.over_limit():
            assert trim(store).compacted
        if number % 25 == 0:
            forks.append(store.fork())
    assert store.revision > 3
    for fork in forks:
        assert joined(fork, encoder) == encoder.spell(fork.snapshot())
    assert joined(store, encoder) == encoder.spell(store.snapshot())
    assert set(encoder.encoded.values()) == {1}


def test_a_history_that_nobody_asks_for_bytes_is_never_encoded() -> None:
    encoder = CountingEncoder()
    store = store_of(*rounds(5), limits=HistoryLimits(max_items=8))
    trim(store)
    store.fork()
    assert not encoder.encoded


def test_another_dialect_takes_the_place_of_the_old_one_and_translates_once() -> None:
    chat, responses = CountingEncoder("chat"), CountingEncoder("responses", silent=[Reasoning])
    store = store_of([user(), thought()], [model()])
    assert joined(store, chat) == chat.spell(store.snapshot())
    assert joined(store, responses) == responses.spell(store.snapshot())
    store.append([user()])
    assert joined(store, responses) == responses.spell(store.snapshot())
    assert set(responses.encoded.values()) == {1}
    assert joined(store, chat) == chat.spell(store.snapshot())
    assert set(chat.encoded.values()) == {1, 2}


def test_bytes_taken_before_an_append_do_not_change() -> None:
    """S002-27"""
    encoder = CountingEncoder()
    store = store_of(*rounds(3))
    chunks = store.encoded(encoder)
    before = b",".join(chunks)
    store.append([user()])
    store.encoded(encoder)
    assert b",".join(chunks) == before


def test_an_encoder_that_fails_leaves_a_history_that_can_be_encoded() -> None:
    class Failing(CountingEncoder):
        def encode_items(self, items: object) -> bytes:
            raise ValueError("no word for it")

    good = CountingEncoder()
    store = store_of([user()], [model()])
    joined(store, good)
    before = state(store)
    with pytest.raises(ValueError, match="no word"):
        store.encoded(Failing("other"))
    with pytest.raises(ValueError, match="no word"):
        store.rewrite(Cut(1), Summary(ItemId("s"), "so far"), expected_revision=0)
    assert state(store) == before
    assert joined(store, good) == good.spell(store.snapshot())


# ---- rewriting


def test_a_rewrite_puts_a_summary_where_the_oldest_segments_were() -> None:
    """S002-22"""
    encoder = CountingEncoder()
    first, newest = seed(), [user("new"), model()]
    store = store_of([user("old")], [model()], newest, seeds=[first])
    joined(store, encoder)
    summary = Summary(ItemId("s"), "so far", 2)
    assert store.rewrite(Cut(3), summary, expected_revision=0)
    assert list(store.snapshot()) == [first, summary, *newest]
    assert (store.revision, store.totals.item_count, store.totals.message_count) == (1, 4, 2)
    assert joined(store, encoder) == encoder.spell(store.snapshot())


def test_a_rewrite_can_leave_the_summary_out() -> None:
    """S002-22"""
    newest = [user("new")]
    store = store_of([user("old")], newest)
    assert store.rewrite(Cut(1), None, expected_revision=0)
    assert list(store.snapshot()) == newest


def test_a_cut_behind_the_newest_request_keeps_the_request_after_the_summary() -> None:
    first, later, request = seed(), seed("<rules/>"), [user("do it")]
    turn = [call("b"), output("b")]
    store = store_of([model("old")], request, [call("a"), output("a")], seeds=[first])
    store.append([later], pinned=True)
    store.append(turn)
    summary = Summary(ItemId("s"), "so far")
    assert store.rewrite(Cut(5, spared=2), summary, expected_revision=0)
    assert list(store.snapshot()) == [first, summary, *request, later, *turn]


def test_a_rewrite_that_comes_too_late_changes_nothing() -> None:
    store = store_of([user()], [model()], [user()])
    assert store.rewrite(Cut(1), None, expected_revision=0)
    before = state(store)
    assert not store.rewrite(Cut(1), None, expected_revision=0)
    assert state(store) == before


def test_appends_between_plan_and_rewrite_do_no_harm() -> None:
    store = store_of([user("old")], [user("new")])
    revision = store.revision
    store.append([model("late")])
    assert store.rewrite(Cut(1), None, expected_revision=revision)
    assert [item.text for item in store.messages()] == ["new", "late"]


def test_views_outlive_a_rewrite() -> None:
    """S002-27"""
    store = store_of(*rounds(3))
    view = store.snapshot()
    seen, digest = list(view), view.totals.digest
    store.rewrite(Cut(4), None, expected_revision=0)
    store.append([user()])
    assert (list(view), view.totals.digest, view.revision) == (seen, digest, 0)


@each_row("plan", [Cut(1), Cut(4), Cut(3, spared=0), Cut(3, spared=1)])
def test_a_plan_that_would_split_a_pair_or_drop_an_open_call_is_refused(plan: Cut) -> None:
    """S002-24, X-34"""
    store = store_of([user(), call("a")], [output("a"), model()], [user()], [call("open")], [user()])
    before = state(store)
    with pytest.raises(InternalError, match="cut would"):
        store.rewrite(plan, None, expected_revision=0)
    assert state(store) == before


# ---- forking


def test_a_fork_shares_segments_and_goes_its_own_way() -> None:
    store = store_of(*rounds(3), seeds=[seed()])
    fork = store.fork()
    assert [id(s) for s in fork.snapshot().segments()] == [id(s) for s in store.snapshot().segments()]
    assert fork.totals == store.totals
    before = state(store)
    fork.append([user("elsewhere")])
    fork.rewrite(Cut(3), None, expected_revision=fork.revision)
    assert state(store) == before
    store.append([user("here")])
    assert "here" not in [item.text for item in fork.messages()]


def test_a_fork_ends_with_an_item_or_with_a_round() -> None:
    first, a, b, c = seed(), user("1"), model("2"), user("3")
    store = store_of([a, b], [c, model("4")], seeds=[first])
    assert list(store.fork(a.id).snapshot()) == [first, a]
    assert list(store.fork(b.id).snapshot()) == [first, a, b]
    assert list(store.fork(1).snapshot()) == [first, a, b]
    assert list(store.fork(2).snapshot()) == list(store.snapshot())
    assert store.fork(2).totals.digest == store.totals.digest


@each_row(
    ("items", "at", "left"),
    [
        pytest.param([user(), call("a"), call("b")], None, 1, id="open at the end"),
        pytest.param([user(), call("a"), call("b"), output("a")], None, 1, id="a sibling is answered"),
        pytest.param([user(), call("a"), output("a"), model()], 1, 1, id="at the call"),
        pytest.param([user(), call("a"), output("a"), model()], 2, 3, id="at the output"),
        pytest.param([user(), thought(), call("a"), output("a")], 2, 1, id="reasoning goes with its call"),
    ],
)
def test_a_fork_ends_before_the_oldest_call_that_is_open_there(items: list[Item], at: int | None, left: int) -> None:
    """X-34, DESIGN "One history"."""
    store = store_of(*([item] for item in items))
    fork = store.fork(None if at is None else items[at].id)
    assert list(fork.snapshot()) == items[:left]
    assert fork.open_calls == ()
    fork.append([call("a"), output("a")])


def test_a_fork_inside_a_segment_takes_its_part() -> None:
    items = [user(), model("one"), model("two")]
    encoder = CountingEncoder()
    store = store_of(items)
    joined(store, encoder)
    fork = store.fork(items[1].id)
    assert list(fork.snapshot()) == items[:2]
    assert joined(fork, encoder) == encoder.spell(items[:2])


def test_a_fork_has_all_seeds_wherever_it_is_made() -> None:
    """S002-24"""
    seeds = [seed(), seed()]
    store = store_of([user()], seeds=seeds)
    fork = store.fork(seeds[0].id)
    assert list(fork.snapshot()) == seeds
    assert all(segment.pinned for segment in fork.snapshot().segments())


def test_a_fork_inside_a_pinned_segment_pins_its_part() -> None:
    """S002-24"""
    rules = [seed("<one/>"), seed("<two/>")]
    store = store_of([user()])
    store.append(rules, pinned=True)
    *_, part = store.fork(rules[0].id).snapshot().segments()
    assert (part.items, part.pinned) == ((rules[0],), True)


def test_a_fork_can_have_limits_of_its_own() -> None:
    tight = HistoryLimits(max_items=1)
    store = store_of([user(), model()])
    assert store.fork(limits=tight).limits is tight
    assert store.fork().limits is UNLIMITED


def test_forking_where_nothing_is_says_so() -> None:
    store = store_of([user()], seeds=[seed()])
    before = state(store)
    with pytest.raises(NotFoundError):
        store.fork(ItemId("nobody"))
    with pytest.raises(NotFoundError):
        store.fork(2)
    for number in (0, -3):
        with pytest.raises(InvalidParamsError):
            store.fork(number)
    assert state(store) == before


# ---- memory


def test_any_number_of_items_under_limits_stays_within_them() -> None:
    """S002-28: a hundred thousand in `make torture`."""
    encoder = CountingEncoder()
    store = store_of(seeds=[seed()], limits=HistoryLimits(max_items=500, max_tokens=20_000))
    blocks: list[int] = []
    for number in range(times(25_000, 8_000)):
        name = f"c{number}"
        store.append([user(f"request {number}")])
        store.append([call(name), output(name, "x" * 200), model("y" * 50)])
        chunks = store.encoded(encoder)
        encoder.encoded.clear()
        if store.over_limit():
            assert trim(store).reason is None
            blocks.append(sys.getallocatedblocks())
    assert store.totals.item_count <= 500
    assert sum(map(len, chunks)) < 200_000
    assert len(blocks) > 30
    assert max(blocks[10:]) < blocks[10] + 5_000


def test_one_endless_round_stays_within_limits_and_keeps_its_request() -> None:
    """S002-28: an agent that works for hours on one request."""
    request = user("Port it all.")
    store = store_of([request], seeds=[seed()], limits=HistoryLimits(max_items=100))
    for number in range(2_000):
        store.append([call(f"c{number}"), output(f"c{number}")])
        trim(store)
        assert not store.over_limit()
    assert request in store.messages()


def test_an_idle_store_costs_well_below_a_kilobyte() -> None:
    """DESIGN: ten thousand conversations at most 4 KB each; this is history's share."""
    item = UserMessage(ItemId("s"), text_parts("<env/>"), injected=True)
    HistoryStore(UNLIMITED, [item])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        stores = [HistoryStore(UNLIMITED, [item]) for _ in range(1_000)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = (after - before - sys.getsizeof(stores)) / len(stores)
    assert size < 800


def test_planning_is_read_only() -> None:
    store = store_of(*rounds(5), limits=HistoryLimits(max_items=3))
    before = state(store)
    assert plan_cut(store, store.limits) is not None
    assert state(store) == before


def test_what_is_said_anew_takes_the_pin_of_what_it_replaces_and_trimming_works_again() -> None:
    """S002-24, S002-28: a thousand changes of mind do not make a history that cannot be trimmed."""

    def injected_message(tag: str, text: str) -> UserMessage:
        return UserMessage(new_item_id(), text_parts(f"<{tag}>{text}</{tag}>"), injected=True)

    store = HistoryStore(HistoryLimits(max_items=10), [injected_message("environment_context", "seed")])
    before = store.snapshot()
    for number in range(50):
        store.append([injected_message("user_instructions", f"number {number}")], pinned=True)
    store.append([injected_message("environment_context", "elsewhere")], pinned=True)
    pinned = [segment.items[0].text for segment in store.snapshot().segments() if segment.pinned]
    assert [text.partition(">")[2].partition("<")[0] for text in pinned] == ["seed", "number 49", "elsewhere"]
    assert len(before) == 1
    store.append([UserMessage(new_item_id(), text_parts("hello"))])
    assert trim(store, summarise=False).compacted
    texts = [item.text for item in store.snapshot()]
    assert len(texts) <= 10
    assert any("number 49" in text for text in texts)
    assert any("seed" in text for text in texts)
