"""The bytes of a history in one dialect: each segment is encoded once; later its bytes are only copied."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from tertulia.history.segment import Segment
from tertulia.protocol.items import Item

STEP_BYTES = 1 << 18
"""How many bytes of text are encoded in one step of the event loop; a larger segment is encoded in one step too."""
LARGE = 1 << 20
"""A chunk of this many bytes or more is not merged with the chunks after it; smaller ones are."""


class ItemEncoder(Protocol):
    """Encodes items in the dialect of a wire.

    Contract: the bytes of an item do not depend on its neighbours. They are JSON values joined by commas, without
    brackets; empty when the dialect can express none of the items.
    """

    @property
    def name(self) -> str:
        """The name of the dialect; encoders of the same name produce the same bytes."""
        ...

    def encode_items(self, items: Sequence[Item]) -> bytes:
        """The items in this dialect."""
        ...


class Encoding:
    """Encoded segments in order, held as few immutable chunks.

    Chunks merge like the digits of a binary counter: below 1 MiB their bit lengths fall from left to right. So n
    segments lie in O(log n + bytes / 1 MiB) chunks, and each byte is copied at most some twenty times however
    long the history grows. A snapshot is a short tuple that never changes.

    Positions are those of a stream in which every segment that has bytes is followed by a comma. No chunk holds
    the comma behind it: the code that joins the chunks puts it there.
    """

    __slots__ = ("_chunks", "_ends", "_snapshot", "encoder")

    def __init__(self, encoder: ItemEncoder) -> None:
        self.encoder = encoder
        self._chunks: list[bytes] = []
        self._ends = array("q")
        self._snapshot: tuple[bytes, ...] | None = None

    @property
    def segment_count(self) -> int:
        """How many segments were encoded, including those that have no bytes in this dialect."""
        return len(self._ends)

    def append(self, segment: Segment) -> None:
        """Encode a segment and add its bytes."""
        encoded = self.encoder.encode_items(segment.items)
        end = self._start(self.segment_count)
        self._push(encoded)
        self._ends.append(end + len(encoded) + 1 if encoded else end)

    def catch_up(self, segments: Sequence[Segment], most_bytes: int | None = None) -> None:
        """Encode the segments that are not encoded yet; `segments` is a list that only grows at its end.

        With `most_bytes`, stop after the segment with which the texts encoded now reach that size.
        """
        room = most_bytes
        for index in range(self.segment_count, len(segments)):
            self.append(segments[index])
            if room is not None:
                room -= segments[index].byte_count
                if room <= 0:
                    return

    def rearranged(self, layout: Iterable[range | Segment]) -> Encoding:
        """A new encoding made of ranges of this one, whose bytes are copied, and of new segments."""
        made = Encoding(self.encoder)
        for entry in layout:
            if isinstance(entry, Segment):
                made.append(entry)
            else:
                made._adopt(self, entry)
        return made

    def chunks(self) -> tuple[bytes, ...]:
        """All bytes so far, to be joined with commas. None is empty; the same tuple until something is appended."""
        if self._snapshot is None:
            self._snapshot = tuple(self._chunks)
        return self._snapshot

    def _adopt(self, other: Encoding, segments: range) -> None:
        first = other._start(segments.start)
        shift = self._start(self.segment_count) - first
        for piece in other._between(first, other._start(segments.stop)):
            self._push(piece)
        self._ends.extend(end + shift for end in other._ends[segments.start : segments.stop])

    def _start(self, segment: int) -> int:
        return self._ends[segment - 1] if segment else 0

    def _between(self, first: int, last: int) -> Iterator[bytes]:
        position = 0
        for chunk in self._chunks:
            end = position + len(chunk) + 1
            if position < last and first < end:
                # Slicing a whole `bytes` object copies nothing: only the chunks at both edges are copied.
                yield chunk[max(first - position, 0) : min(last, end) - position - 1]
            position = end

    def _push(self, piece: bytes) -> None:
        if not piece:
            return
        chunks = self._chunks
        left, size = len(chunks), len(piece)
        while left and len(chunks[left - 1]) < min(LARGE, 1 << size.bit_length()):
            left -= 1
            size += len(chunks[left]) + 1
        chunks[left:] = [b",".join((*chunks[left:], piece))]
        self._snapshot = None
