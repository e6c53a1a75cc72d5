"""The history of one conversation. The only module that changes a history and enforces its invariants."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from tertulia.errors import InternalError
from tertulia.history.encoding import Encoding, ItemEncoder
from tertulia.history.sanitiser import complete_prefix
from tertulia.history.segment import Segment, estimate_tokens, seal, supersedes
from tertulia.history.view import NO_SEGMENTS, HistoryView
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import AssistantMessage, Item, Summary, ToolCall, UserMessage
from tertulia.protocol.storage import HeadersOnly, NoStorage, StoragePolicy

_CORRECTION = (0.25, 4.0)
_TEXTLESS = (HeadersOnly, NoStorage)


class HistoryLimits(msgspec.Struct, frozen=True):
    """How large a history may become. None is no limit; all that are set hold."""

    max_tokens: int | None = None
    max_items: int | None = None
    max_bytes: int | None = None

    def allow(self, tokens: float, items: int, held: int) -> bool:
        """Whether a history of this size is within every limit."""
        return (
            (self.max_tokens is None or tokens <= self.max_tokens)
            and (self.max_items is None or items <= self.max_items)
            and (self.max_bytes is None or held <= self.max_bytes)
        )


class Cut(msgspec.Struct, frozen=True):
    """Which segments are dropped: all before `end`, except pinned ones and the spared one."""

    end: int
    spared: int | None = None
    """The index of the segment with the newest request, if it lies before `end`."""

    def keeps(self, index: int, segment: Segment) -> bool:
        """Whether the cut keeps the segment at that index."""
        return index >= self.end or segment.pinned or index == self.spared

    def prove(self, segments: Sequence[Segment]) -> None:
        """Raise Internal unless every call before the cut has its output before it."""
        if sum(len(segment.opens) - len(segment.closes) for segment in segments[: self.end]):
            raise InternalError("a cut would part a call from its output")
        if self.spared is not None and (segments[self.spared].opens or segments[self.spared].closes):
            raise InternalError("a cut would keep half of a call and its output")

    def dropped(self, segments: Iterable[Segment]) -> list[Segment]:
        """The segments that the cut drops; `segments` are those that it was planned for."""
        return [segment for index, segment in enumerate(segments) if not self.keeps(index, segment)]


class Rewrite(msgspec.Struct, frozen=True):
    """How a cut changed the segment list: to `kept[:place]`, the summary, `kept[place:]`, and all from `end` on."""

    kept: tuple[int, ...]
    """Positions of the segments before `end` that were kept."""
    end: int
    place: int
    summary: Summary | None
    total: int
    """How many segments there were before the rewrite."""
    shortened: tuple[int, ...] = ()
    """Positions of the segments whose tool outputs were shortened; then nothing was dropped."""
    shortened_to: int = 0
    """What was left of each of those outputs, in bytes."""


class HistoryStore:
    """Segments of frozen items, appended turn by turn.

    Promises: every output has its call before it and every call at most one output; pinned segments and open
    calls are never dropped; a view, once taken, never changes; appending costs as much as what is appended.
    A change is made whole or, when it raises, not at all. No method awaits.
    """

    __slots__ = (
        "_encoding", "_guarded", "_open", "_revision", "_seeds", "_segments",
        "correction", "kept_by", "limits", "totals",
    )  # fmt: skip

    def __init__(self, limits: HistoryLimits, seeds: Sequence[Item] = ()) -> None:
        self.limits = limits
        self._segments: list[Segment] = []
        self.totals = NO_SEGMENTS
        """The totals of all segments, seeds included."""
        self._open: dict[CallId, ToolCall] = {}
        self._revision = 0
        self.correction = 1.0
        """How many tokens the model counts for one estimated token, as learnt by `calibrate`: 0.25 to 4."""
        self.kept_by: StoragePolicy | None = None
        """The storage policy of older items, if a looser one has been set since; it still binds their summaries."""
        self._guarded = False
        self._encoding: Encoding | None = None
        self._seeds = 0
        self.append(seeds, pinned=True)
        self._seeds = len(self._segments)

    @property
    def revision(self) -> int:
        """Grows with every rewrite and never with an append; a cut planned on an older revision is stale."""
        return self._revision

    @property
    def may_be_kept_elsewhere(self) -> bool:
        """Whether a provider may store the history: no item has a policy that forbids storing its text."""
        return not self._guarded and not isinstance(self.kept_by, _TEXTLESS)

    @property
    def approx_tokens(self) -> int:
        """A token for every four bytes, corrected by what the model reported."""
        return self.approximate(self.totals.weight)

    def approximate(self, weight: int) -> int:
        """The estimated tokens of a weight, with the correction of this history."""
        return math.ceil(estimate_tokens(weight) * self.correction)

    @property
    def open_calls(self) -> tuple[CallId, ...]:
        """Calls without an output, oldest first."""
        return tuple(self._open)

    def open_call_items(self) -> tuple[ToolCall, ...]:
        """The open calls as items."""
        return tuple(self._open.values())

    def calibrate(self, estimated_tokens: int, reported_tokens: int) -> None:
        """Update the correction from one request: how many tokens were estimated, and how many the model reported.

        The estimate is `approx_tokens` at that time plus the rest of the request, at one token for four bytes.
        """
        if estimated_tokens > 0 and reported_tokens > 0:
            low, high = _CORRECTION
            self.correction = min(max(self.correction * reported_tokens / estimated_tokens, low), high)

    def over_limit(self) -> bool:
        """Whether any limit is exceeded. The caller has to trim; appending never does."""
        return not self.limits.allow(self.approx_tokens, self.totals.item_count, self.totals.byte_count)

    def append(self, items: Sequence[Item], *, pinned: bool = False) -> Segment | None:
        """Append the items as one sealed segment; None, and no change, when there are no items.

        A pinned segment that supersedes an earlier one unpins it: a user who changes instructions a thousand times
        must not make a history that cannot be trimmed. The seeds stay pinned. Raises Internal when a call or an
        output would break the pairing, and for pinned calls: a segment that is never dropped must not hold half a pair.
        """
        if not items:
            return None
        segment = seal(items, pinned=pinned)
        calls = {item.call_id: item for item in segment.items if isinstance(item, ToolCall)}
        _admit(segment, calls, self._open)
        for call_id in segment.closes:
            del self._open[call_id]
        for call_id in segment.opens:
            self._open[call_id] = calls[call_id]
        if pinned:
            self._segments = _without_pins_of(self._segments, self._seeds, segment)
        self._segments.append(segment)
        self.totals = self.totals.plus(segment)
        self._guarded = self._guarded or any(isinstance(item.storage, _TEXTLESS) for item in segment.items)
        return segment

    def snapshot(self) -> HistoryView:
        """A view of the history as it is now; later changes do not affect it."""
        return HistoryView(self._segments, len(self._segments), self.totals, self.open_calls, self._revision)

    def messages(self, limit: int | None = None) -> list[UserMessage | AssistantMessage]:
        """The newest messages of users and model, oldest first, injected ones left out."""
        return self.snapshot().messages(limit)

    def encoded(self, encoder: ItemEncoder, *, most_bytes: int | None = None) -> tuple[bytes, ...]:
        """The whole history in a dialect, as chunks to be joined with commas, none of them empty.

        Only what was appended since the last call is encoded. Another dialect than last time discards the earlier
        encoding and encodes the whole history once. With `most_bytes` only about that much more is encoded, and
        returned after what was encoded before; when the tuple is the same as last time, everything is encoded.
        """
        if self._encoding is None or self._encoding.encoder.name != encoder.name:
            self._encoding = Encoding(encoder)
        self._encoding.catch_up(self._segments, most_bytes)
        return self._encoding.chunks()

    def rewrite(self, plan: Cut, summary: Summary | None, *, expected_revision: int) -> Rewrite | None:
        """Drop the planned segments and insert the summary; None, and no change, if another rewrite came first.

        Appends since the plan do no harm: they lie behind the cut. Raises Internal for a plan that would part a call
        from its output.
        """
        if expected_revision != self._revision:
            return None
        plan.prove(self._segments)
        stayed = tuple(i for i in range(plan.end) if plan.keeps(i, self._segments[i]))
        place = len(stayed) if plan.spared is None else stayed.index(plan.spared)
        inserted = [] if summary is None else [seal((summary,))]
        stay = [range(i, i + 1) for i in stayed]
        total = len(self._segments)
        tail = range(plan.end, total)
        self._rearrange([*stay[:place], *inserted, *stay[place:], tail])
        self._revision += 1
        return Rewrite(stayed, plan.end, place, summary, total)

    def shorten(self, places: Sequence[int], most_bytes: int) -> Rewrite:
        """Reduce the tool outputs of the segments at these places to their beginning and end."""
        # Imported here: most histories stay short.
        from tertulia.history.shortening import shortened

        total, next_place = len(self._segments), 0
        layout: list[range | Segment] = []
        for place in places:
            old = self._segments[place]
            short = seal(shortened(old.items, most_bytes), pinned=old.pinned)
            layout += [range(next_place, place), short]
            next_place = place + 1
        self._rearrange([*layout, range(next_place, total)])
        self._revision += 1
        return Rewrite((), 0, 0, None, total, tuple(places), most_bytes)

    def fork(self, at: ItemId | int | None = None, limits: HistoryLimits | None = None) -> HistoryStore:
        """A new, independent history with this one's items up to `at`: an item, a round, or everything.

        It ends before the oldest call that is open at that point, and has all seeds. Segments and their bytes are
        shared. NotFound for an unknown item or round, InvalidParams for round 0 and below.
        """
        view = self.snapshot()
        items = tuple(view)
        seeded = sum(len(segment.items) for segment in takewhile(_is_pinned, self._segments))
        count = max(complete_prefix(items if at is None else items[: view.end_of(at)]), seeded)
        forked = HistoryStore(self.limits if limits is None else limits)
        forked.correction = self.correction
        forked.kept_by, forked._guarded = self.kept_by, self._guarded
        forked._segments, forked._encoding, forked._seeds = self._segments, self._encoding, self._seeds
        forked._rearrange(_first(count, self._segments))
        return forked

    def _rearrange(self, layout: Sequence[range | Segment]) -> None:
        """Replace the segment list by ranges of the old list and new segments, and the encoding accordingly."""
        if self._encoding is not None:
            self._encoding.catch_up(self._segments)
            self._encoding = self._encoding.rearranged(layout)
        old, self._segments, self.totals = self._segments, [], NO_SEGMENTS
        for entry in layout:
            self._segments.extend(old[entry.start : entry.stop] if isinstance(entry, range) else (entry,))
        for segment in self._segments:
            self.totals = self.totals.plus(segment)


def _admit(segment: Segment, calls: Iterable[CallId], open_calls: Container[CallId]) -> None:
    """Raise Internal unless the segment, with these calls, can follow a history that has these open calls."""
    closes = frozenset(segment.closes)
    for call_id in segment.closes:
        if call_id not in open_calls:
            raise InternalError("an output has no open call before it", call_id=call_id)
    for call_id in calls:
        if call_id in open_calls and call_id not in closes:
            raise InternalError("a call id is used again before its call was answered", call_id=call_id)
    if segment.pinned and (segment.opens or segment.closes):
        raise InternalError("a pinned segment cannot hold half of a call and its output")


def _without_pins_of(segments: list[Segment], seeds: int, newer: Segment) -> list[Segment]:
    """The segments, with those unpinned that the newer one supersedes; the same list if it supersedes none."""
    if not any(supersedes(newer, older) for older in segments[seeds:]):
        return segments
    return segments[:seeds] + [replace(s, pinned=False) if supersedes(newer, s) else s for s in segments[seeds:]]


def _first(item_count: int, segments: Sequence[Segment]) -> list[range | Segment]:
    """The layout of the first `item_count` items: whole segments, and the first part of the next one if needed."""
    whole = 0
    while whole < len(segments) and len(segments[whole].items) <= item_count:
        item_count -= len(segments[whole].items)
        whole += 1
    if not item_count:
        return [range(whole)]
    parted = segments[whole]
    return [range(whole), seal(parted.items[:item_count], pinned=parted.pinned)]


def _is_pinned(segment: Segment) -> bool:
    return segment.pinned
