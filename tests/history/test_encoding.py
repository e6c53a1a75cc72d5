"""Each segment's bytes are made once; chunks are few; every rearrangement equals encoding anew."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tertulia.history.encoding import LARGE, Encoding
from tertulia.history.segment import Segment, seal
from tertulia.models.wire import ItemsDialect
from tertulia.protocol.items import Reasoning
from tests.history.items import CountingEncoder, model, thought, user

SIZES = st.lists(st.one_of(st.none(), st.integers(0, 3_000)), max_size=40)


def segment_of(size: int | None) -> Segment:
    """A segment of about that many bytes; one without a word in the dialect for None."""
    return seal([thought()] if size is None else [user("x" * size)])


def encoding_of(segments: list[Segment], encoder: CountingEncoder) -> Encoding:
    encoding = Encoding(encoder)
    encoding.catch_up(segments)
    return encoding


def naive(segments: list[Segment], encoder: CountingEncoder) -> bytes:
    return encoder.spell(item for segment in segments for item in segment.items)


def test_a_dialect_of_a_wire_is_an_encoder() -> None:
    encoding = Encoding(ItemsDialect())
    items = [user("a\u2028b\u0085c\x00d"), model("🙂")]
    encoding.append(seal(items))
    texts = [item["parts"][0]["text"] for item in msgspec.json.decode(b"[" + b",".join(encoding.chunks()) + b"]")]
    assert texts == ["a\u2028b\u0085c\x00d", "🙂"], "E11: one record, character for character"


@given(SIZES)
def test_chunks_joined_are_the_whole_history(sizes: list[int | None]) -> None:
    encoder = CountingEncoder(silent=[Reasoning])
    segments = [segment_of(size) for size in sizes]
    encoding = encoding_of(segments, encoder)
    assert b",".join(encoding.chunks()) == naive(segments, encoder)
    assert all(encoding.chunks())
    assert encoding.segment_count == len(segments)
    assert all(times == 1 for times in encoder.encoded.values())


@given(SIZES, st.data())
def test_a_rearrangement_equals_encoding_anew_but_encodes_only_what_is_new(
    sizes: list[int | None], data: st.DataObject
) -> None:
    encoder = CountingEncoder(silent=[Reasoning])
    segments = [segment_of(size) for size in sizes]
    encoding = encoding_of(segments, encoder)
    before = encoding.chunks()
    bounds = st.integers(0, len(segments))
    layout: list[range | Segment] = []
    expected: list[Segment] = []
    for _ in range(data.draw(st.integers(0, 4))):
        start, stop = sorted((data.draw(bounds), data.draw(bounds)))
        new = segment_of(data.draw(st.one_of(st.none(), st.integers(0, 50))))
        layout += [range(start, stop), new]
        expected += [*segments[start:stop], new]

    made = encoding.rearranged(layout)

    assert b",".join(made.chunks()) == naive(expected, encoder)
    assert made.segment_count == len(expected)
    assert all(times == 1 for times in encoder.encoded.values())
    assert encoding.chunks() is before, "the original is not disturbed"
    made.append(last := segment_of(7))
    assert b",".join(made.chunks()) == naive([*expected, last], encoder), "and what is made goes on growing"
    again = made.rearranged([range(made.segment_count)])
    assert b",".join(again.chunks()) == b",".join(made.chunks())


def test_a_copy_of_everything_shares_every_chunk() -> None:
    encoding = encoding_of([segment_of(size) for size in (5_000, 900, 80, 3)], CountingEncoder())
    copy = encoding.rearranged([range(4)])
    assert len(copy.chunks()) == 4
    assert all(theirs is ours for theirs, ours in zip(copy.chunks(), encoding.chunks(), strict=True))


def test_a_thousand_segments_lie_in_a_handful_of_chunks() -> None:
    """S002-26: small pieces are merged, and each byte a bounded number of times."""
    encoder = CountingEncoder()
    encoding = Encoding(encoder)
    most = 0
    for number in range(1_000):
        encoding.append(segment_of(50 + number % 7))
        most = max(most, len(encoding.chunks()))
    assert most <= 17


def test_shrinking_segments_are_merged_as_well() -> None:
    encoding = encoding_of([segment_of(size) for size in range(1_000, 0, -1)], CountingEncoder())
    assert len(encoding.chunks()) <= 20


def test_large_chunks_are_left_alone() -> None:
    encoding = encoding_of([segment_of(LARGE)], CountingEncoder())
    (large,) = encoding.chunks()
    encoding.append(segment_of(2 * LARGE))
    assert encoding.chunks()[0] is large
    assert len(encoding.chunks()) == 2


def test_a_snapshot_is_made_once_and_never_changes() -> None:
    """S002-26, S002-27"""
    encoding = encoding_of([segment_of(10), segment_of(10)], CountingEncoder())
    snapshot = encoding.chunks()
    joined = b",".join(snapshot)
    assert encoding.chunks() is snapshot
    encoding.append(segment_of(10))
    assert b",".join(snapshot) == joined
    assert len(b",".join(encoding.chunks())) > len(joined)


def test_nothing_has_no_chunks() -> None:
    encoding = Encoding(CountingEncoder(silent=[Reasoning]))
    assert encoding.chunks() == ()
    encoding.append(segment_of(None))
    assert encoding.chunks() == ()
    assert encoding.segment_count == 1
