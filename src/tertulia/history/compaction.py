"""Compaction: makes a history smaller. A cut is planned on a view and applied by compare-and-swap on its revision.

`compact` asks a summariser and may wait for it; `trim` runs when a limit is exceeded and never waits. Both replace the
oldest segments by one `Summary`; both keep pinned segments, open calls, the newest request and the newest turn.
Segments are dropped whole, never in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tertulia.history.carried_facts import carried_block
from tertulia.history.segment import BYTES_PER_TOKEN, Segment, estimate_tokens, is_user_request, seal, utf8_size
from tertulia.history.shortening import SHORT_OUTPUT_BYTES, long_outputs
from tertulia.history.store import Cut, HistoryLimits, HistoryStore, Rewrite
from tertulia.history.summariser import Summariser, extract_summary
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import Item, Summary
from tertulia.protocol.storage import StoragePolicy, strictest

MAX_SUMMARY_TOKENS = 2_000
_MIN_SUMMARY_TOKENS = 64

WITHIN_LIMITS = "the history is within its limits"
NOTHING_TO_CUT = "nothing can be cut: what is left are seeds, open calls, the newest request and the newest turn"
NOT_SMALLER = "a summary would not be smaller than what it stands for"
NO_TEXT = "the summariser returned no text"
REWRITTEN_MEANWHILE = "the history was rewritten by another task during every attempt"
NO_LONG_OUTPUTS = "no older tool output is long"
STILL_OVER = "what must be kept is over the limits"


class Compaction(msgspec.Struct, frozen=True):
    """The outcome of a compaction. When nothing was changed, `compacted` is False and `reason` says why."""

    compacted: bool
    before_tokens: int
    after_tokens: int
    removed_items: int
    """How many items were removed, not counting earlier summaries."""
    reason: str | None = None
    rewrites: tuple[Rewrite, ...] = ()
    """The rewrites of the segment list, in the order in which they were applied."""
    shortened_outputs: int = 0
    """How many segments had their tool outputs shortened."""


class _Option(msgspec.Struct, frozen=True):
    """A possible cut, and the items, bytes and weight that it would remove."""

    cut: Cut
    items: int
    held: int
    weight: int


def plan_cut(
    store: HistoryStore, target: HistoryLimits, *, reserve_tokens: int = 0, newest_round: bool = True
) -> Cut | None:
    """The smallest cut that brings the history down to the target with a summary of the reserved size.

    If no cut reaches the target, the largest possible one; None if nothing can be cut. `newest_round` says whether
    turns of the newest round may be cut too; its request always stays.
    """
    view = store.snapshot()
    extra = reserve_tokens * BYTES_PER_TOKEN
    cut = None
    for option in _options(tuple(view.segments()), newest_round=newest_round):
        cut = option.cut
        tokens = store.approximate(view.totals.weight - option.weight + extra)
        items = len(view) - option.items + (reserve_tokens > 0)
        if target.allow(tokens, items, view.totals.byte_count - option.held + extra):
            break
    return cut


def droppable_tokens(store: HistoryStore) -> int:
    """How many tokens the largest cut would drop, turns of the newest round included."""
    weight = 0
    for option in _options(tuple(store.snapshot().segments()), newest_round=True):
        weight = option.weight
    return store.approximate(weight)


def _options(segments: Sequence[Segment], *, newest_round: bool) -> Iterator[_Option]:
    """Every legal cut, smallest first: it parts no call from its output, and removes more than summaries."""
    request = _newest_request(segments)
    parts_pair = request is not None and bool(segments[request].opens or segments[request].closes)
    end = len(segments) - 1 if newest_round and not parts_pair else request or 0
    open_calls = items = held = weight = 0
    substance = False
    for index, segment in enumerate(segments[:end]):
        open_calls += len(segment.opens) - len(segment.closes)
        if not segment.pinned and index != request:
            items += len(segment.items)
            held += segment.byte_count
            weight += segment.weight
            substance = substance or _count_unsummarised(segment.items) > 0
        # No cut ends right before a summary: the history would then have two summaries in a row.
        if substance and not open_calls and _count_unsummarised(segments[index + 1].items):
            spared = request if request is not None and request <= index else None
            yield _Option(Cut(index + 1, spared), items, held, weight)


def _newest_request(segments: Sequence[Segment]) -> int | None:
    for index in range(len(segments) - 1, -1, -1):
        if any(map(is_user_request, segments[index].items)):
            return index
    return None


def _count_unsummarised(items: Sequence[Item]) -> int:
    """How many of the items are not summaries."""
    return sum(not isinstance(item, Summary) for item in items)


def shorten_outputs(store: HistoryStore) -> Compaction:
    """Reduce long outputs of tools, except the newest ones, to their beginning and end. Never waits."""
    places = long_outputs(tuple(store.snapshot().segments()), SHORT_OUTPUT_BYTES)
    if not places:
        return _unchanged(store, NO_LONG_OUTPUTS)
    before = store.approx_tokens
    done = store.shorten(places, SHORT_OUTPUT_BYTES)
    return Compaction(True, before, store.approx_tokens, 0, rewrites=(done,), shortened_outputs=len(places))


async def compact(
    store: HistoryStore,
    summariser: Summariser,
    *,
    target_tokens: int,
    newest_round: bool = False,
    max_attempts: int = 3,
) -> Compaction:
    """Replace the oldest segments by a summary so that about `target_tokens` are left; 0 for as few as possible.

    Turns of the newest round are replaced only when nothing older can be cut or, with `newest_round`, when older
    ones are not enough; its request and its last turn stay.
    Appends may happen meanwhile; after a rewrite by another task compaction starts over, with at most `max_attempts`
    attempts. The history is unchanged when the result would not be smaller, when the summariser raises, and on
    cancellation.
    """
    target = HistoryLimits(max_tokens=target_tokens)
    for _ in range(max_attempts):
        room = max(_summary_room(target, store.correction), _MIN_SUMMARY_TOKENS)
        view = store.snapshot()
        cut = None if newest_round else plan_cut(store, target, reserve_tokens=room, newest_round=False)
        cut = cut or plan_cut(store, target, reserve_tokens=room)
        if cut is None:
            return _unchanged(store, NOTHING_TO_CUT)
        dropped = cut.dropped(view.segments())
        budget = _budget(dropped, room)
        if not budget:
            return _unchanged(store, NOT_SMALLER)
        items = _items(dropped)
        text = await summariser.summarise(items, budget)
        if not text.strip():
            return _unchanged(store, NO_TEXT)
        facts = carried_block(items, _room_of_facts(dropped, target_tokens), requests=newest_round)
        text = f"{text}\n\n{facts}" if facts else text
        summary = _summary(text, items, store.kept_by)
        before = store.approx_tokens
        if _after(store, dropped, summary) >= before:
            return _unchanged(store, NOT_SMALLER)
        done = store.rewrite(cut, summary, expected_revision=view.revision)
        if done is not None:
            return Compaction(True, before, store.approx_tokens, _count_unsummarised(items), rewrites=(done,))
    return _unchanged(store, REWRITTEN_MEANWHILE)


def trim(store: HistoryStore, *, limits: HistoryLimits | None = None, summarise: bool = True) -> Compaction:
    """Bring a history that exceeds its limits, or those given, down to three quarters of them, oldest turns first.

    Not to the limit itself: each rewrite invalidates the provider's prompt cache, so rewrites should be rare. Rounds
    before the newest are cut first; turns of the newest one only when that is not enough. The summary is extracted
    without a model, and omitted where its budget has no room for any text.
    """
    limits = store.limits if limits is None else limits
    if _within(limits, store):
        return _unchanged(store, WITHIN_LIMITS)
    before, removed = store.approx_tokens, 0
    rewrites: list[Rewrite] = []
    room = _summary_room(limits, store.correction) if summarise else 0
    goal = HistoryLimits(*(limit and limit * 3 // 4 for limit in msgspec.structs.astuple(limits)))
    for newest_round in (False, True):
        if _within(limits, store):
            break
        cut = plan_cut(store, goal, reserve_tokens=room, newest_round=newest_round)
        if cut is not None:
            removed += _drop(store, cut, room, rewrites)
    if not removed:
        return _unchanged(store, NOTHING_TO_CUT)
    reason = None if _within(limits, store) else STILL_OVER
    return Compaction(True, before, store.approx_tokens, removed, reason, tuple(rewrites))


def keep_rounds(store: HistoryStore, count: int) -> Rewrite | None:
    """Drop all but the newest `count` rounds, without a summary; pinned segments stay. None if there are no more."""
    begins: list[int] = []
    open_calls = 0
    for index, segment in enumerate(store.snapshot().segments()):
        if not open_calls and any(map(is_user_request, segment.items)):
            begins.append(index)
        open_calls += len(segment.opens) - len(segment.closes)
    if count >= len(begins):
        return None
    return store.rewrite(Cut(begins[-count]), None, expected_revision=store.revision)


def _within(limits: HistoryLimits, store: HistoryStore) -> bool:
    return limits.allow(store.approx_tokens, store.totals.item_count, store.totals.byte_count)


def _drop(store: HistoryStore, cut: Cut, room: int, rewrites: list[Rewrite]) -> int:
    """Apply the cut, with an extracted summary if there is room for one, and add it to `rewrites`.

    Returns how many items were removed, not counting summaries.
    """
    dropped = cut.dropped(store.snapshot().segments())
    items = _items(dropped)
    budget = _budget(dropped, room)
    facts = carried_block(items, budget * BYTES_PER_TOKEN // 2, requests=True)
    text = "\n".join(filter(None, (extract_summary(items, budget - estimate_tokens(utf8_size(facts))), facts)))
    done = store.rewrite(cut, _summary(text, items, store.kept_by) if text else None, expected_revision=store.revision)
    assert done is not None, "nothing else can have rewritten it: nothing was awaited"
    rewrites.append(done)
    return _count_unsummarised(items)


def _items(segments: Sequence[Segment]) -> list[Item]:
    return [item for segment in segments for item in segment.items]


def _budget(dropped: Sequence[Segment], room: int) -> int:
    """Estimated tokens for a summary: at most `room`, and at most half of what the summary replaces."""
    return min(room, estimate_tokens(sum(segment.weight for segment in dropped)) // 2)


def _room_of_facts(dropped: Sequence[Segment], target_tokens: int) -> int:
    """Bytes: a third of what is replaced, a quarter of what is left: in a large window all requests fit whole."""
    weight = sum(segment.weight for segment in dropped)
    return min(max(MAX_SUMMARY_TOKENS, target_tokens // 4) * BYTES_PER_TOKEN, weight // 3)


def _summary_room(limits: HistoryLimits, correction: float) -> int:
    """Estimated tokens that a summary may take: an eighth of the limits, and at most `MAX_SUMMARY_TOKENS`."""
    rooms = [MAX_SUMMARY_TOKENS]
    if limits.max_tokens is not None:
        rooms.append(int(limits.max_tokens / correction) // 8)
    if limits.max_bytes is not None:
        rooms.append(limits.max_bytes // BYTES_PER_TOKEN // 8)
    return min(rooms)


def _summary(text: str, items: Sequence[Item], kept_by: StoragePolicy | None) -> Summary:
    """The text as a summary item, with the strictest storage policy of the items it was made from."""
    replaced = sum(item.replaced if isinstance(item, Summary) else 1 for item in items)
    policies = [policy for policy in (kept_by, *(item.storage for item in items)) if policy is not None]
    return Summary(new_item_id(), text, replaced, strictest(*policies) if policies else None)


def _after(store: HistoryStore, dropped: Sequence[Segment], summary: Summary) -> int:
    """The tokens that the history would have with the summary in place of the dropped segments."""
    gone = sum(segment.weight for segment in dropped)
    return store.approximate(store.snapshot().totals.weight - gone + seal((summary,)).weight)


def _unchanged(store: HistoryStore, reason: str) -> Compaction:
    return Compaction(False, store.approx_tokens, store.approx_tokens, 0, reason)
