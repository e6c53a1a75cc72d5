"""The splitter: the same events however the bytes arrive, and never more in memory than one event."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.models.http import sse
from tertulia.models.http.sse import EventSplitter, EventTooLargeError
from tests.models.apis import APIS
from tests.models.mock_provider import Told
from tests.tables import each_row
from tests.thorough import examples

RECORDED = [
    *(b"".join(api.events(Told("Let me see.", "Zwölf Boxkämpfer 😀", (("c", "shell", "{}"),)))) for api in APIS),
    b"\xef\xbb\xbf: a comment\r\n\r\nevent: x\r\ndata: one\r\ndata: two\r\nid: 7\r\n\r\n:\r\ndata\r\n\r\ndata:3\r\r",
    b"data: a\n\ndata: b\n\ndata: \n\n\ndata: c\n\ndata: d\ndata: e\n\n",
    b"data: a\n\ndata: b\r\rdata: c\r\n\r\ndata:  d\n\n\n\r\r\ndata: never closed\n",
]


def fed(*chunks: bytes) -> list[bytearray]:
    splitter = EventSplitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)]


@each_row(
    ("stream", "events"),
    [
        (b"data: one\n\n", [b"one"]),
        (b"data:one\n\n", [b"one"]),
        (b"data:  one\n\n", [b" one"]),
        (b"event: ping\ndata: one\nid: 1\nretry: 5\n\n", [b"one"]),
        (b"data: one\ndata: two\ndata:\ndata: four\n\n", [b"one\ntwo\n\nfour"]),
        (b": a comment\n\n:\n\ndata: one\n:and another\n\n", [b"one"]),
        (b"data: one\r\n\r\ndata: two\r\rdata: three\n\n", [b"one", b"two", b"three"]),
        (b"data: one\r\ndata: two\r\r\n", [b"one\ntwo"]),
        (b"\xef\xbb\xbfdata: one\n\n", [b"one"]),
        (b"\n\n\ndata: one\n\n\n\n\ndata: two\n\n", [b"one", b"two"]),
        (b"data\n\n", []),
        (b"data:\n\n", []),
        (b"data\ndata: one\n\n", [b"\none"]),
        (b"event: nothing said\n\n", []),
        (b"database: no\n\n", []),
        (b" data: no\n\n", []),
        (b"data: one\n\ndata: never closed\n", [b"one"]),
        (b"data: one\n\ndata: two\n\n", [b"one", b"two"]),
        (b"data: one\n\ndata: two\n:and a comment\n\n", [b"one", b"two"]),
        (b"data: \n\ndata: two\n\ndata: \n\n", [b"two"]),
        (b"data: one\n\n\n\n", [b"one"]),
        (b"data: a\x0bb\x0cc\xe2\x80\xa8d\xc2\x85e\n\n", [b"a\x0bb\x0cc\xe2\x80\xa8d\xc2\x85e"]),
        (b"", []),
    ],
)
def test_events_are_split_as_the_standard_says(stream: bytes, events: list[bytes]) -> None:
    assert fed(stream) == events


@each_row("stream", RECORDED)
def test_every_split_of_a_stream_in_two_gives_the_same_events(stream: bytes) -> None:
    whole = fed(stream)
    assert whole
    for place in range(len(stream) + 1):
        assert fed(stream[:place], stream[place:]) == whole


@each_row("stream", RECORDED)
def test_single_bytes_give_the_same_events(stream: bytes) -> None:
    assert fed(*(bytes([byte]) for byte in stream)) == fed(stream)


@given(
    st.lists(
        st.sampled_from([b"data: ", b"data", b":", b"\r", b"\n", b"\r\n", b"x", b" ", b"y" * 17, b"\xef\xbb\xbf"])
    ),
    st.data(),
)
@settings(max_examples=examples(2_000))
def test_any_bytes_in_any_pieces_give_what_a_plain_reading_of_the_standard_gives(
    tokens: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(tokens)
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    cuts = [0, *places, len(stream)]
    assert fed(*(stream[a:b] for a, b in itertools.pairwise(cuts))) == plainly(stream)


def plainly(stream: bytes) -> list[bytes]:
    """The standard, line by line, on a stream that is all there."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[bytes] = []
    held: list[bytes] = []
    for line in text.split(b"\n")[:-1]:
        field, _, value = line.partition(b":")
        if not line:
            events += [b"\n".join(held)] if b"\n".join(held) else []
            held = []
        elif field == b"data":
            held.append(value.removeprefix(b" "))
    return events


class TestBounds:
    """An event has an end, or there is an end of it."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)

    def test_a_line_without_end(self) -> None:
        splitter = EventSplitter()
        assert splitter.feed(b"data: " + b"x" * 90) == []
        with pytest.raises(EventTooLargeError):
            splitter.feed(b"x" * 10)

    def test_lines_without_end(self) -> None:
        splitter = EventSplitter()
        assert splitter.feed(b"data: xxxx\n" * 9) == []
        with pytest.raises(EventTooLargeError):
            splitter.feed(b"data: xxxx\n" * 2)

    def test_a_long_line_in_one_piece(self) -> None:
        with pytest.raises(EventTooLargeError):
            EventSplitter().feed(b"data: " + b"x" * 100 + b"\n\n")

    def test_one_that_is_not_plain_ascii(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """L1: in order to decode it Python takes five times its bytes."""
        monkeypatch.setattr(sse, "MAX_WIDE_EVENT_BYTES", 50)
        for part in ("é".encode(), rb"\u00e9"):
            assert EventSplitter().feed(b"data: " + part + b"x" * 40 + b"\n\n") == [part + b"x" * 40]
            with pytest.raises(EventTooLargeError, match="not all ASCII"):
                EventSplitter().feed(b"data: " + part + b"x" * 50 + b"\n\n")
        assert EventSplitter().feed(b"data: " + b"x" * 60 + b"\n\n") == [b"x" * 60]

    def test_many_events_are_not_one_large_one(self) -> None:
        splitter = EventSplitter()
        for _ in range(100):
            assert splitter.feed(b"data: " + b"x" * 50 + b"\n\n: " + b"c" * 50 + b"\n\n") == [b"x" * 50]


@pytest.mark.slow
def test_a_long_line_in_many_pieces_is_joined_once() -> None:
    """A megabyte byte by byte: joining at each byte would take hours."""
    stream = b"data: " + b"x" * 1_000_000
    splitter = EventSplitter()
    for byte in stream:
        splitter.feed(bytes([byte]))
    assert splitter.feed(b"\n\n") == [b"x" * 1_000_000]


def test_a_long_line_takes_little_more_memory_than_it_has_bytes() -> None:
    """L1: five copies of it were made."""
    chunk = b"x" * 64 * 1024
    splitter = EventSplitter()
    tracemalloc.start()
    try:
        splitter.feed(b"data: ")
        for _ in range(100):
            splitter.feed(chunk)
        events = splitter.feed(b"\n\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [len(event) for event in events] == [100 * len(chunk)]
    assert peak < 1.5 * 100 * len(chunk)


def test_an_event_of_very_many_lines_takes_little_more_memory_than_it_has_bytes() -> None:
    """L1: at most four times the message."""
    chunk = b"data: ab\n" * 7_000
    splitter = EventSplitter()
    tracemalloc.start()
    try:
        for _ in range(40):
            splitter.feed(chunk)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 4 * 40 * len(chunk)
    assert splitter.feed(b"\n") == [b"\n".join([b"ab"] * 280_000)]
