"""Trimming and compaction: whole turns, oldest first, pairs and seeds kept, or nothing at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tertulia.history import compaction
from tertulia.history.compaction import Compaction, compact, keep_rounds, plan_cut, trim
from tertulia.history.store import Cut, HistoryLimits, HistoryStore, Rewrite
from tertulia.history.summariser import ExtractiveSummariser
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import Item, Summary, ToolCall, ToolOutput, UserMessage, text_parts
from tertulia.protocol.storage import Full, HeadersOnly, Ttl
from tests.deadlines import HANG_S
from tests.history.items import CountingEncoder, call, model, output, rounds, seed, store_of, user
from tests.tables import each_row


class Saying:
    """A summariser that says what it is told to, after doing what it is told to."""

    def __init__(self, text: str = "so far", do: Callable[[], object] = lambda: None) -> None:
        self.text = text
        self.do = do
        self.asked: list[tuple[list[Item], int]] = []

    async def summarise(self, items: Sequence[Item], budget_tokens: int) -> str:
        self.asked.append((list(items), budget_tokens))
        self.do()
        return self.text


def contents(store: HistoryStore) -> tuple[list[Item], int, bytes]:
    return (list(store.snapshot()), store.revision, store.totals.digest)


def summaries(store: HistoryStore) -> list[Summary]:
    return [item for item in store.snapshot() if isinstance(item, Summary)]


# ---- planning


def test_the_smallest_cut_that_reaches_the_target_is_planned() -> None:
    """S002-22: oldest first."""
    store = store_of(*rounds(4), seeds=[seed()])
    everything = store.approx_tokens
    assert plan_cut(store, HistoryLimits(max_tokens=everything - 1)) == Cut(2)
    assert plan_cut(store, HistoryLimits(max_items=store.totals.item_count - 2)) == Cut(3)
    assert plan_cut(store, HistoryLimits(max_bytes=store.totals.byte_count - 1)) == Cut(2)


def test_what_is_reserved_for_a_summary_counts() -> None:
    store = store_of(*rounds(4))
    target = HistoryLimits(max_tokens=store.approx_tokens - 1)
    assert plan_cut(store, target) == Cut(1)
    assert plan_cut(store, target, reserve_tokens=150) == Cut(2)


def test_the_largest_cut_is_planned_when_none_reaches_the_target() -> None:
    store = store_of(*rounds(3))
    assert plan_cut(store, HistoryLimits(max_tokens=0), newest_round=False) == Cut(4)
    assert plan_cut(store, HistoryLimits(max_tokens=0)) == Cut(5, spared=4)


@each_row(
    "turns",
    [
        pytest.param([], id="nothing"),
        pytest.param([[user()]], id="one request"),
        pytest.param([[Summary(ItemId("s"), "so far")], [user()]], id="only an earlier summary"),
        pytest.param([[user(), call("a")], [model()], [user()]], id="behind an open call"),
        pytest.param([[model(), call("a")], [user(), output("a")], [model()]], id="a request that closes a call"),
    ],
)
def test_there_is_no_plan_where_nothing_may_go(turns: list[list[Item]]) -> None:
    """S002-24, X-34"""
    store = store_of(*turns, seeds=[seed()])
    assert plan_cut(store, HistoryLimits(max_tokens=0)) is None


def test_turns_without_any_request_can_go_too() -> None:
    store = store_of([model()], [model()], [model()])
    assert plan_cut(store, HistoryLimits(max_tokens=0)) == Cut(2)
    assert plan_cut(store, HistoryLimits(max_tokens=0), newest_round=False) is None


def test_no_cut_falls_between_a_call_and_its_output() -> None:
    """S002-24, X-34"""
    store = store_of([user()], [call("a"), call("b")], [output("b")], [output("a")], [user()])
    assert plan_cut(store, HistoryLimits(max_items=5), newest_round=False) == Cut(1)
    assert plan_cut(store, HistoryLimits(max_items=4), newest_round=False) == Cut(4)


# ---- trimming


def test_a_history_within_its_limits_is_left_alone() -> None:
    store = store_of(*rounds(2), limits=HistoryLimits(max_items=100))
    before = contents(store)
    tokens = store.approx_tokens
    assert trim(store) == Compaction(False, tokens, tokens, 0, compaction.WITHIN_LIMITS)
    assert contents(store) == before


@each_row(
    "limits",
    [HistoryLimits(max_items=20), HistoryLimits(max_tokens=2_000), HistoryLimits(max_bytes=8_000)],
)
def test_passing_any_limit_trims_the_oldest_and_leaves_headroom(limits: HistoryLimits) -> None:
    """S002-21, S002-22"""
    turns, first = rounds(10), seed()
    store = store_of(*turns, seeds=[first], limits=limits)
    before = store.approx_tokens
    done = trim(store)
    assert (done.compacted, done.reason, done.before_tokens, done.after_tokens) == (
        True,
        None,
        before,
        store.approx_tokens,
    )
    snapshot = list(store.snapshot())
    items = [item for turn in turns for item in turn]
    (summary,) = summaries(store)
    assert snapshot[:2] == [first, summary]
    assert snapshot[2:] == items[done.removed_items :]
    assert summary.replaced == done.removed_items
    assert "request 0." in summary.text
    lower = HistoryLimits(
        *(limit and limit * 3 // 4 for limit in (limits.max_tokens, limits.max_items, limits.max_bytes))
    )
    assert lower.allow(store.approx_tokens, store.totals.item_count, store.totals.byte_count)


def test_other_limits_than_its_own_can_be_asked_for() -> None:
    """After an overflow the model's window decides."""
    store = store_of(*rounds(10))
    target = HistoryLimits(max_tokens=store.approx_tokens // 2)
    assert trim(store).reason == compaction.WITHIN_LIMITS
    assert trim(store, limits=target).compacted
    assert target.allow(store.approx_tokens, store.totals.item_count, store.totals.byte_count)
    assert trim(store, limits=target).reason == compaction.WITHIN_LIMITS


def test_the_summary_is_optional() -> None:
    """S002-22"""
    store = store_of(*rounds(10), limits=HistoryLimits(max_items=20))
    assert trim(store, summarise=False).compacted
    assert summaries(store) == []


def test_a_summary_that_would_save_nothing_is_left_out() -> None:
    store = store_of(*([user("a")] for _ in range(10)), limits=HistoryLimits(max_items=8))
    assert trim(store).compacted
    assert summaries(store) == []
    assert not store.over_limit()


def test_trimming_again_replaces_the_summary_and_counts_on() -> None:
    """X-65: one summary, however often."""
    limits = HistoryLimits(max_items=20, max_tokens=4_000)
    store = store_of(limits=limits, seeds=[seed()])
    removed = 0
    for turn in rounds(60):
        store.append(turn)
        removed += trim(store).removed_items
        assert len(summaries(store)) <= 1
        assert not store.over_limit()
    (summary,) = summaries(store)
    assert summary.replaced == removed
    assert store.totals.item_count - 2 + removed == 60 * 4
    assert summary.text.count("Asked:") > 1, "what was summarised before is carried on"


def test_seeds_open_calls_and_what_follows_them_stay() -> None:
    """S002-24, X-34"""
    first, later, waiting = seed(), seed("<rules/>"), call("open")
    store = store_of(*rounds(5), seeds=[first], limits=HistoryLimits(max_items=4))
    store.append([later], pinned=True)
    store.append([user("ask them"), waiting])
    store.append([model("meanwhile")])
    done = trim(store, summarise=False)
    assert [item.text for item in store.messages()] == ["ask them", "meanwhile"]
    assert list(store.snapshot())[:2] == [first, later]
    assert store.open_calls == ("open",)
    assert (done.compacted, done.reason) == (True, compaction.STILL_OVER)
    store.append([output("open")])


def test_the_newest_round_is_kept_while_older_ones_suffice() -> None:
    newest: list[list[Item]] = [[user("newest")], *([model(f"turn {n}")] for n in range(14))]
    store = store_of(*rounds(2), *newest, limits=HistoryLimits(max_items=16))
    assert trim(store).compacted
    items = [item for item in store.snapshot() if not isinstance(item, Summary)]
    assert items == [item for turn in newest for item in turn]


def test_inside_the_newest_round_its_request_and_last_turn_stay() -> None:
    request, last = user("newest"), model("last " * 50)
    turns = [[model("middle " * 50)] for _ in range(20)]
    store = store_of(*rounds(2), [request], *turns, [last], limits=HistoryLimits(max_items=4))
    done = trim(store)
    (summary,) = summaries(store)
    assert list(store.snapshot()) == [summary, request, last]
    assert done.removed_items == summary.replaced == 8 + 20


def test_what_cannot_be_trimmed_is_left_with_the_reason() -> None:
    store = store_of([user("x" * 10_000_000)], seeds=[seed()], limits=HistoryLimits(max_tokens=100))
    before = contents(store)
    done = trim(store)
    assert (done.compacted, done.removed_items, done.reason) == (False, 0, compaction.NOTHING_TO_CUT)
    assert contents(store) == before


# ---- compacting


async def test_compaction_puts_the_summariser_s_words_in_place_of_the_oldest() -> None:
    """S002-22, X-65"""
    turns, first = rounds(5), seed()
    store = store_of(*turns, seeds=[first])
    before = store.approx_tokens
    summariser = Saying()
    done = await compact(store, summariser, target_tokens=before // 2)
    ((items, budget),) = summariser.asked
    (summary,) = summaries(store)
    assert items == [item for turn in turns for item in turn][: len(items)]
    assert (summary.text, summary.replaced) == ("so far", len(items))
    rewrite = Rewrite(kept=(0,), end=7, place=1, summary=summary, total=11)
    assert done == Compaction(True, before, store.approx_tokens, len(items), rewrites=(rewrite,))
    assert store.approx_tokens <= before // 2
    assert 0 < budget <= compaction.MAX_SUMMARY_TOKENS


async def test_compaction_to_nothing_keeps_what_must_be_kept() -> None:
    """S002-24"""
    turns, first = rounds(5), seed()
    store = store_of(*turns, seeds=[first])
    done = await compact(store, ExtractiveSummariser(), target_tokens=0)
    assert done.compacted
    (summary,) = summaries(store)
    assert list(store.snapshot()) == [first, summary, *turns[-2], *turns[-1]]


async def test_the_newest_round_is_compacted_only_when_nothing_older_is_left() -> None:
    request, last = user("newest"), model("last")
    turns = [[model("middle " * 50)] for _ in range(5)]
    store = store_of(*rounds(2), [request], *turns, [last])
    assert (await compact(store, Saying(), target_tokens=0)).removed_items == 8
    assert list(store.snapshot())[1:] == [request, *(turn[0] for turn in turns), last]
    assert (await compact(store, Saying(), target_tokens=0)).removed_items == 5
    assert list(store.snapshot())[1:] == [request, last]
    assert summaries(store)[0].replaced == 13
    assert (await compact(store, Saying(), target_tokens=0)).reason == compaction.NOTHING_TO_CUT


async def test_what_is_appended_meanwhile_stays() -> None:
    encoder = CountingEncoder()
    store = store_of(*rounds(5))
    store.encoded(encoder)
    late = [user("late"), call("late")]
    done = await compact(store, Saying(do=lambda: store.append(late)), target_tokens=300)
    assert done.compacted
    assert list(store.snapshot())[-2:] == late
    assert store.open_calls == ("late",)
    assert done.after_tokens == store.approx_tokens < done.before_tokens
    assert b",".join(store.encoded(encoder)) == encoder.spell(store.snapshot())


async def test_after_a_rewrite_by_others_it_starts_over() -> None:
    store = store_of(*rounds(8))

    def once() -> None:
        if len(summariser.asked) == 1:
            assert store.rewrite(Cut(2), None, expected_revision=store.revision)

    summariser = Saying(do=once)
    done = await compact(store, summariser, target_tokens=300)
    assert done.compacted
    assert len(summariser.asked) == 2
    assert summariser.asked[1][0][0] not in summariser.asked[0][0][:4], "the second attempt saw the new history"
    assert store.revision == 2


async def test_attempts_are_capped_and_the_history_is_as_the_others_left_it() -> None:
    store = store_of(*rounds(8))
    summariser = Saying(do=lambda: store.rewrite(Cut(2), None, expected_revision=store.revision))
    done = await compact(store, summariser, target_tokens=300, max_attempts=2)
    assert (done.compacted, done.reason, done.removed_items) == (False, compaction.REWRITTEN_MEANWHILE, 0)
    assert done.before_tokens == done.after_tokens == store.approx_tokens
    assert len(summariser.asked) == 2
    assert summaries(store) == []


@each_row(
    ("text", "reason"),
    [("x" * 100_000, compaction.NOT_SMALLER), ("", compaction.NO_TEXT), (" \n", compaction.NO_TEXT)],
)
async def test_a_summary_that_does_not_help_leaves_the_history_as_it_is(text: str, reason: str) -> None:
    """Compaction must shrink or stop."""
    store = store_of(*rounds(5))
    before = contents(store)
    done = await compact(store, Saying(text), target_tokens=100)
    assert done == Compaction(False, store.approx_tokens, store.approx_tokens, 0, reason)
    assert contents(store) == before


@each_row(
    ("turns", "reason"),
    [
        ([[user("x" * 4_000)]], compaction.NOTHING_TO_CUT),
        ([[model("a")], [user()]], compaction.NOT_SMALLER),
    ],
)
async def test_nobody_is_asked_to_summarise_nothing(turns: list[list[Item]], reason: str) -> None:
    store = store_of(*turns)
    before, summariser = contents(store), Saying()
    done = await compact(store, summariser, target_tokens=0)
    assert (done.compacted, done.reason) == (False, reason)
    assert summariser.asked == []
    assert contents(store) == before


async def test_a_failing_summariser_leaves_the_history_untouched() -> None:
    def fail() -> None:
        raise ConnectionError("gone")

    store = store_of(*rounds(5))
    before = contents(store)
    with pytest.raises(ConnectionError, match="gone"):
        await compact(store, Saying(do=fail), target_tokens=100)
    assert contents(store) == before


async def test_cancelling_leaves_the_history_untouched() -> None:
    class Endless:
        async def summarise(self, items: Sequence[Item], budget_tokens: int) -> str:
            started.set()
            await asyncio.Event().wait()
            return "never"

    started = asyncio.Event()
    store = store_of(*rounds(5))
    before = contents(store)
    async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
        task = group.create_task(compact(store, Endless(), target_tokens=100))
        await started.wait()
        task.cancel()
    assert task.cancelled()
    assert contents(store) == before


async def test_repeated_compaction_never_grows() -> None:
    """X-65"""
    store = store_of(*rounds(5))
    for number in range(30):
        await compact(store, ExtractiveSummariser(), target_tokens=200)
        assert len(summaries(store)) == 1
        assert len(summaries(store)[0].text.encode()) <= 64 * 4
        store.append([user(f"and then {number}")])
        store.append([model("x" * 400)])


async def test_a_summary_is_stored_as_strictly_as_the_strictest_of_its_sources() -> None:
    """DESIGN "Storage policy is total and travels"."""

    def user_items(text: str, storage: Full | HeadersOnly | Ttl | None) -> list[Item]:
        return [UserMessage(ItemId(text), text_parts(text * 100), storage=storage)]

    strict = store_of(
        user_items("a", Ttl(60)), user_items("b", HeadersOnly()), user_items("c", None), [user()], [model()]
    )
    await compact(strict, Saying(), target_tokens=0)
    assert summaries(strict)[0].storage == HeadersOnly()

    free = store_of(user_items("a", None), user_items("b", None), [user()], [model()])
    await compact(free, Saying(), target_tokens=0)
    assert summaries(free)[0].storage is None


async def test_shrinking_is_judged_by_corrected_tokens() -> None:
    store = store_of([model("x" * 40)], [user("do i")], [model("done")])
    store.calibrate(100, 25)
    before = contents(store)
    done = await compact(store, Saying("y" * 39), target_tokens=0)
    assert (done.compacted, done.reason) == (False, compaction.NOT_SMALLER)
    assert contents(store) == before


def test_outputs_are_never_left_without_their_calls() -> None:
    """X-34, after every single trim of a long history of parallel calls."""
    store = store_of(limits=HistoryLimits(max_items=12), seeds=[seed()])
    for number in range(50):
        store.append([user(f"go {number}"), call("a"), call("b")])
        store.append([output("b")])
        store.append([output("a"), model()])
        trim(store)
        calls: set[str] = set()
        for item in store.snapshot():
            if isinstance(item, ToolOutput):
                calls.remove(item.call_id)
            elif isinstance(item, ToolCall):
                calls.add(item.call_id)
        assert calls == set()


# ---- rounds


@each_row(("count", "left"), [(1, 1), (2, 2), (3, 3), (4, 4), (9, 4)])
def test_only_the_newest_rounds_are_kept_with_all_that_is_pinned(count: int, left: int) -> None:
    store = store_of(*rounds(4), seeds=[seed()])
    before = list(store.snapshot())
    done = keep_rounds(store, count)
    snapshot = list(store.snapshot())
    items = [item for item in snapshot if isinstance(item, UserMessage) and not item.injected]
    assert len(items) == left
    assert snapshot[0] == before[0]
    assert snapshot[1:] == before[-(len(snapshot) - 1) :]
    assert (done is None) is (count >= 4)
    assert store.revision == (count < 4)


def test_a_round_is_not_cut_where_a_call_is_open() -> None:
    """A message that came between a call and its output begins no round of its own."""
    store = store_of([user("one")], [call("a")], [user("between")], [output("a")], [user("two")], [model()])
    assert keep_rounds(store, 2) is None
    assert keep_rounds(store, 1) is not None
    assert [item.text for item in store.messages()] == ["two", "done"]


async def test_a_summary_is_never_put_before_another_one() -> None:
    """S002-22: a fork may begin with what was pinned once, followed by a summary; both go together, or neither."""
    once = Summary(ItemId("s"), "so far", 2)
    forked = HistoryStore(HistoryLimits())
    forked.append([seed("<rules/>" + "y" * 400)])
    forked.append([once])
    assert not (await compact(forked, Saying(), target_tokens=0)).compacted
    forked.append([user("and now?")])
    await compact(forked, Saying(), target_tokens=0)
    assert len(summaries(forked)) == 1


def test_trimming_goes_down_to_three_quarters_and_no_further() -> None:
    """S002-22"""
    store = store_of(*([user("x")] for _ in range(41)), limits=HistoryLimits(max_items=40))
    assert trim(store, summarise=False).compacted
    assert store.totals.item_count == 30


def test_a_summary_takes_an_eighth_of_the_bytes_at_most() -> None:
    """S002-22"""
    store = store_of(*([user("word " * 80)] for _ in range(41)), limits=HistoryLimits(max_bytes=16_000))
    assert trim(store).compacted
    (summary,) = summaries(store)
    assert len(summary.text.encode()) <= 16_000 // 8
