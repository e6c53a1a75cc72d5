"""A history as it was at one moment: for prompts, listings, transcripts and compaction to read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain, islice

import msgspec

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.history.segment import Segment, is_message, is_user_request
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import AssistantMessage, Item, UserMessage


class SegmentTotals(msgspec.Struct, frozen=True, gc=False):
    """The totals of a list of segments."""

    item_count: int = 0
    message_count: int = 0
    """Messages of users and model, injected ones left out."""
    byte_count: int = 0
    """UTF-8 bytes of all texts, arguments and addresses."""
    weight: int = 0
    """The bytes that count as tokens, see `Segment.weight`."""
    digest: bytes = b""
    """SHA-256 over the digest so far and that of the next segment: equal for equal segments."""

    def plus(self, segment: Segment) -> SegmentTotals:
        """The sum with one more segment."""
        return SegmentTotals(
            self.item_count + len(segment.items),
            self.message_count + segment.message_count,
            self.byte_count + segment.byte_count,
            self.weight + segment.weight,
            hashlib.sha256(self.digest + segment.digest).digest(),
        )


NO_SEGMENTS = SegmentTotals()


class HistoryView(msgspec.Struct, frozen=True, eq=False):
    """The items up to one moment, oldest first; iterate as often as you like. It never changes.

    Making one copies nothing: it looks at the first `count` members of a list that only ever grows at its end.
    """

    _segments: list[Segment]
    _count: int
    totals: SegmentTotals
    open_calls: tuple[CallId, ...]
    """Calls that had no output yet, oldest first."""
    revision: int

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(segment.items for segment in self.segments())

    def __len__(self) -> int:
        return self.totals.item_count

    def segments(self) -> Iterator[Segment]:
        """All segments of the view, oldest first."""
        return islice(self._segments, self._count)

    def newest_first(self) -> Iterator[Segment]:
        """All segments of the view, newest first."""
        return map(self._segments.__getitem__, range(self._count - 1, -1, -1))

    def messages(self, limit: int | None = None) -> list[UserMessage | AssistantMessage]:
        """The newest messages of users and model, oldest first, without injected ones; older segments are not read."""
        if limit is not None and limit < 0:
            raise InvalidParamsError(f"limit must not be negative, not {limit}")
        messages = (
            item
            for segment in self.newest_first()
            for item in reversed(segment.items)
            if isinstance(item, UserMessage | AssistantMessage) and is_message(item)
        )
        newest = list(islice(messages, None if limit is None else min(limit, len(self))))
        newest.reverse()
        return newest

    def end_of(self, at: ItemId | int) -> int:
        """How many items there are up to and including an item, or up to the end of a round (the first is 1).

        A round is a user's message and all items that follow it; items before the first message belong to round 1.
        """
        return self._end_of_round(at) if isinstance(at, int) else self._end_of_item(at)

    def _end_of_item(self, item_id: ItemId) -> int:
        for position, item in enumerate(self, start=1):
            if item.id == item_id:
                return position
        raise NotFoundError(f"no item {item_id!r} in this history")

    def _end_of_round(self, number: int) -> int:
        if number < 1:
            raise InvalidParamsError(f"rounds are counted from 1; there is no round {number}")
        rounds = 0
        for position, item in enumerate(self):
            rounds += is_user_request(item)
            if rounds > number:
                return position
        if rounds < number:
            raise NotFoundError(f"there are {rounds} rounds in this history, not {number}")
        return len(self)
