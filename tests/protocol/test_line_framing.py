"""Bytes become lines, however they are cut."""

from __future__ import annotations

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol import line_framing
from tertulia.protocol.line_framing import TOO_LONG, LineSplitter, OversizedLine, release_line
from tests.tables import each_row


def cut(chunks: list[bytes], limit: int = 100) -> list[bytes | OversizedLine]:
    lines = LineSplitter(limit)
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    return [*found, *lines.end()]


def test_each_line_comes_once_without_its_end() -> None:
    assert cut([b'{"a":1}\n{"b":2}\n']) == [b'{"a":1}', b'{"b":2}']


def test_carriage_returns_blanks_and_empty_lines_are_dropped() -> None:
    assert cut([b"\n\r\n a \r\n \t \nb\r\n\n"]) == [b"a", b"b"]


def test_the_last_line_needs_no_newline() -> None:
    assert cut([b"a\nb"]) == [b"a", b"b"]


def test_other_line_separators_do_not_end_a_line() -> None:
    text = "a\u2028b\u2029c\x0bd\x0ce\x85f\rg"
    assert cut([text.encode() + b"\n"]) == [text.encode()]


def test_a_line_of_exactly_the_limit_is_given_and_a_longer_one_is_not() -> None:
    assert cut([b"a" * 100 + b"\n"]) == [b"a" * 100]
    assert cut([b"a" * 101 + b"\nb\n"]) == [TOO_LONG, b"b"]


def test_a_line_that_is_too_long_is_told_once_at_once_and_nothing_of_it_is_held() -> None:
    lines = LineSplitter(100)
    assert list(lines.feed(b"a" * 60)) == []
    assert list(lines.feed(b"a" * 60)) == [TOO_LONG]
    for _ in range(1_000):
        assert list(lines.feed(b"a" * 60)) == []
        assert len(lines._held) == 0
    assert list(lines.feed(b"a\nb\n")) == [b"b"]


def test_a_line_that_is_too_long_may_be_the_last() -> None:
    assert cut([b"a" * 200]) == [TOO_LONG]


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_how_the_bytes_are_cut_makes_no_difference(chunks: list[bytes], limit: int) -> None:
    whole = b"".join(chunks)
    assert cut(chunks, limit) == cut([whole], limit) == cut([bytes([byte]) for byte in whole], limit)


@given(st.binary(max_size=300), st.integers(1, 40))
def test_every_line_gives_at_most_one_result_and_none_is_lost(data: bytes, limit: int) -> None:
    """D9."""
    expected = [TOO_LONG if len(line) > limit else line.strip(b" \t\r") for line in data.split(b"\n")]
    assert cut([data], limit) == [line for line in expected if line]


def test_lines_that_say_nothing_cost_next_to_nothing() -> None:
    """L1: 15 MB of them took 7 to 17 s."""
    before = thread_time()
    for blank, size in ((b"\n", 1), (b"\r\n", 2), (b" \n", 10), (b"\t\r\n", 10)):
        data = blank * (65_536 // len(blank))
        assert cut([data] * (32 // size), 1_000) == []
    assert thread_time() - before < 0.5


@given(st.binary(max_size=20), st.text(" \t\r").map(str.encode), st.text(" \t\r").map(str.encode))
def test_a_long_line_is_stripped_like_a_short_one(line: bytes, before: bytes, after: bytes) -> None:
    """L1: without a copy of it, which alone took 85 ms of 119 MB."""
    text = before + line.replace(b"\n", b"") + after
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_framing, "_LONG", 0)
        patch.setattr(line_framing, "_PIECE", 3)
        assert cut([text]) == [line for line in [text.strip(b" \t\r")] if line]


@each_row("end", [b"\n", b"\r\n", b" " * 1_000_000 + b"\n"])
def test_a_long_line_is_not_copied(end: bytes) -> None:
    """L1."""
    lines = LineSplitter()
    for _ in range(160):
        assert list(lines.feed(b"x" * 100_000)) == []
    held = lines._held
    [line] = lines.feed(end)
    assert line is held
    assert line == b"x" * 16_000_000


@given(st.lists(st.binary(max_size=30), max_size=6), st.integers(1, 40))
def test_a_splitter_that_is_asked_to_says_how_long_a_dropped_line_was(lines: list[bytes], size: int) -> None:
    data = b"\n".join(line.replace(b"\n", b"x") for line in lines)
    splitter = LineSplitter(10, sized=True)
    cut = [line for at in range(0, len(data), size) for line in splitter.feed(data[at : at + size])]
    expected = [OversizedLine(len(line)) if len(line) > 10 else line.strip(b" \t\r") for line in data.split(b"\n")]
    assert [*cut, *splitter.end()] == [line for line in expected if line]


def test_a_long_line_is_emptied_when_it_was_read() -> None:
    """L1: the code that handed it on holds it until the next one comes."""
    (line,) = LineSplitter().feed(b"x" * 3_000_000 + b"\n")
    release_line(line)
    assert isinstance(line, bytes) or not line
    held = bytearray(b"x")
    release_line(held)
    release_line(b"short")
    assert not held
