"""Bytes in any pieces become the same lines."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.executors.executor import ForeignOutput, Notice, RunFinished, RunInterrupted, Step
from tertulia.executors.json_output import DroppedLine, JsonLines, JsonlParser, Line, parse_steps
from tests.executors.recorded import feed, finish
from tests.loop_steps import MOST_S


def everything(output: bytes, size: int, limit: int = 64) -> tuple[list[object], int]:
    lines = JsonLines(limit)
    found = [line for start in range(0, len(output), size) for line in feed(lines, output[start : start + size])]
    return [*found, *finish(lines)], lines.passed_over


def test_lines_are_objects_and_the_last_may_have_no_end() -> None:
    """S003-26"""
    found, passed_over = everything(b'{"a":1}\r\n\n  \n{"b":2}', 3)
    assert found == [{"a": 1}, {"b": 2}]
    assert passed_over == 0


def test_what_is_no_object_is_passed_over_and_counted() -> None:
    """S003-26: HTML, a progress bar, half of a line, a list, depth without end."""
    junk = [b"<html>", b"\x1b[2K 50%", b'{"a":', b"[1]", b'"x"', b"[" * 60, b"NaN"]
    found, passed_over = everything(b"\n".join([*junk, b'{"a":1}']), 7)
    assert found == [{"a": 1}]
    assert passed_over == len(junk)


def test_broken_characters_cost_themselves_and_not_the_line() -> None:
    found, _ = everything(b'{"a":"x\xffy"}\n{"a":"\\ud800z"}', 5)
    assert found == [{"a": "x\ufffdy"}, {"a": "?z"}]


def test_a_line_beyond_the_limit_is_dropped_with_a_note_and_the_next_is_read() -> None:
    """S003-27, HARDENING C10: at the limit it is still read."""
    at_limit = b'{"a":"' + b"x" * 56 + b'"}'
    assert len(at_limit) == 64
    for size in (1, 10, 1_000):
        found, passed_over = everything(at_limit + b"\n" + b"y" * 65 + b'\n{"b":1}\n' + b"z" * 99, size)
        assert found == [{"a": "x" * 56}, DroppedLine(65), {"b": 1}, DroppedLine(99)]
        assert passed_over == 0


def test_a_line_without_end_fills_no_memory() -> None:
    """HARDENING C10"""
    lines = JsonLines(1 << 20)
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(800):
            assert feed(lines, chunk) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 << 20
    assert finish(lines) == [DroppedLine(800 * 65_536)]


@pytest.mark.parametrize("size", [65_536, 1 << 30])
def test_a_line_of_too_many_parts_is_dropped_before_it_is_built_and_the_next_is_read(size: int) -> None:
    """L1."""
    wide = b'{"a":[' + b"{}," * 1_000_000 + b"1]}"
    deep = b'{"a":"' + b"x" * 200_000 + b'","b":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    program = b'{"a":"' + b"{}," * 300_000 + b'"}'
    tracemalloc.start()
    try:
        found, passed_over = everything(b"\n".join([wide, deep, program, b'{"b":1}']), size, 16 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [
        DroppedLine(len(wide), "more than 200,000 parts"),
        DroppedLine(len(deep), "nested deeper than 512 levels"),
        {"a": "{}," * 300_000},
        {"b": 1},
    ]
    assert passed_over == 0
    assert peak < 4 * len(wide)


def test_why_a_line_was_dropped_is_kept() -> None:
    steps = parse_steps([DroppedLine(9, "more than 200,000 parts")], lambda _: None)
    assert steps == [ForeignOutput({"dropped_line_bytes": 9, "dropped_because": "more than 200,000 parts"})]


@given(st.lists(st.binary(max_size=30) | st.just(b'{"a":1}'), max_size=8), st.integers(1, 40))
def test_how_it_is_cut_makes_no_difference(lines: list[bytes], size: int) -> None:
    output = b"\n".join(lines)
    assert everything(output, size, 20) == everything(output, 1 << 20, 20)


def test_what_is_not_understood_is_kept() -> None:
    """S003-26: unknown types are kept raw."""
    steps = parse_steps([{"a": 1}, DroppedLine(9), {"b": 2}], lambda line: [Notice("hm")] if "b" in line else None)
    assert steps == [ForeignOutput({"a": 1}), ForeignOutput({"dropped_line_bytes": 9}), Notice("hm")]


LONG: dict[str, Callable[[], bytes]] = {
    "escapes": lambda: b'{"a":"' + rb"\"" * 7_500_000 + b'"}',
    "a text": lambda: b'{"a":"' + b"x" * 15_000_000 + b'"}',
    "members": lambda: b'{"a":[' + b'{"b":"cd"},' * 30_000 + b'"' + b"x" * 14_000_000 + b'"]}',
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_line_is_decoded_in_short_steps(name: str) -> None:
    """L1: lines of up to 16 MB were decoded in one step."""
    lines, line = JsonLines(), LONG[name]()
    assert all(not feed(lines, line[start : start + 65_536]) for start in range(0, len(line), 65_536))
    decoding, steps = lines.end(), [0.0]
    with pytest.raises(StopIteration) as end:
        while True:
            before = thread_time()
            decoding.send(None)
            steps.append(thread_time() - before)
    assert end.value.value == [json.loads(line)]
    assert len(steps) > 5
    assert max(steps) < MOST_S


@pytest.mark.parametrize("name", LONG)
def test_a_long_line_takes_little_more_memory_than_it_has_bytes(name: str) -> None:
    """L1: at most four times."""
    lines, line = JsonLines(), LONG[name]()
    tracemalloc.start()
    try:
        for start in range(0, len(line), 65_536):
            feed(lines, line[start : start + 65_536])
        assert len(finish(lines)) == 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(line)


@pytest.mark.parametrize(
    ("text", "decoded"),
    [(rb"\ud800z", "?z"), (rb"\ud83d\ude00", "😀"), ("é".encode(), "é"), (b"\xff", None), (b'","b":NaN,"c":"', None)],
)
def test_a_long_line_is_read_like_a_short_one_but_for_bytes_that_are_not_text(text: bytes, decoded: str | None) -> None:
    lines = JsonLines()
    feed(lines, b'{"a":"' + b"x" * 300_000 + text + b'"}')
    assert finish(lines) == ([] if decoded is None else [{"a": "x" * 300_000 + decoded}])
    assert lines.passed_over == (decoded is None)


def test_a_long_line_that_is_no_object_is_passed_over() -> None:
    lines = JsonLines()
    feed(lines, b"[" + b"1," * 90_000 + b'1]\n{"a":' + b"9" * 200_000 + b"}\n" + b"x" * 200_000)
    assert finish(lines) == []
    assert lines.passed_over == 3


class Simple(JsonlParser):
    """Knows `note` and `over`."""

    def _understood(self, line: Line) -> Iterable[Step] | None:
        match line:
            case {"note": str() as note}:
                self._ending = RunInterrupted()
                return [Notice(note)]
            case {"over": str() as text}:
                self._ending = RunFinished(text)
                return []
            case _:
                return None


def test_it_has_ended_when_the_agent_says_so_and_not_when_that_goes_on() -> None:
    """S003-26: the last word counts, and output without one was interrupted."""
    parser = Simple()
    assert not parser.ended
    assert feed(parser, b'{"over":"a"}\n') == []
    assert parser.ended
    assert feed(parser, b'{"note":"b"}\n{"over":') == [Notice("b")]
    assert not parser.ended
    assert finish(parser) == [RunInterrupted()]
    assert parser.passed_over == 1


def test_the_last_line_needs_no_end_and_what_is_not_known_is_kept() -> None:
    """S003-26, S003-27"""
    parser = Simple(max_line_bytes=20)
    assert feed(parser, b'{"what":1}\n' + b"x" * 21 + b'\n{"over":"c"}') == [
        ForeignOutput({"what": 1}),
        ForeignOutput({"dropped_line_bytes": 21}),
    ]
    assert finish(parser) == [RunFinished("c")]
    assert parser.passed_over == 0
