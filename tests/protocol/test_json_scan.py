"""Parts and depth of a JSON text, told from its bytes."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tertulia.protocol.json_scan import MAX_DEPTH, MAX_PARTS, SCANNED_FROM_BYTES, JsonScan, find_excess
from tests.tables import each_row


def parts_of(value: Any) -> int:
    """What the scan has to count, from the built value."""
    if isinstance(value, dict):
        return 1 + len(value) + max(0, len(value) - 1) + sum(map(parts_of, value.values()))
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(parts_of, value))
    return 0


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


texts = st.text() | st.sampled_from(['"', "\\", '\\"', '{"a":[1,2]}', "[[[[", "\\\\", "é😀", '","', "\\u0022"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=30,
)


@given(values, st.booleans(), st.sampled_from([None, 1]), st.integers(1, 20))
def test_parts_and_depth_are_those_of_the_value_however_the_text_is_cut(
    value: Any, ascii: bool, indent: int | None, size: int
) -> None:
    """L1."""
    text = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()
    scan = JsonScan()
    for start in range(0, len(text), size):
        assert scan.feed(text[start : start + size]) is None
    assert (scan.parts, scan.deepest) == (parts_of(value), depth_of(value))


def test_one_part_too_many_is_told_and_one_less_is_not() -> None:
    """L1."""
    most = b"[" + b"0," * (MAX_PARTS - 1) + b"0]"
    assert find_excess(most) is None
    assert find_excess(most[:-1] + b",0]") == f"more than {MAX_PARTS:,} parts"


def test_one_level_too_many_is_told_and_one_less_is_not() -> None:
    assert find_excess(b"[" * MAX_DEPTH) is None
    assert find_excess(b"[" * (MAX_DEPTH + 1)) == f"nested deeper than {MAX_DEPTH} levels"
    assert find_excess(b'{"a":' * MAX_DEPTH + b"[]" + b"}" * MAX_DEPTH) == f"nested deeper than {MAX_DEPTH} levels"
    assert find_excess("[]" * (MAX_DEPTH + 1)) is None, "side by side is not deep"


@each_row("inside", ["{}[],:" * 100_000, '\\"{},' * 100_000, "\\\\" * 300_000, "\\u0022,[" * 50_000])
def test_what_stands_in_a_string_counts_for_nothing(inside: str) -> None:
    """L1: a text may well be a program."""
    text = f'{{"a":"{inside}"}}'
    assert len(text) > SCANNED_FROM_BYTES
    scan = JsonScan()
    assert scan.feed(text.encode()) is None
    assert (scan.parts, scan.deepest) == (2, 1)


@given(st.binary(max_size=300))
def test_any_bytes_can_be_scanned_and_cut_anywhere(data: bytes) -> None:
    whole, apart = JsonScan(), JsonScan()
    whole.feed(data)
    for byte in data:
        apart.feed(bytes((byte,)))
    assert (whole.parts, whole.deepest) == (apart.parts, apart.deepest)


def test_a_lone_surrogate_in_a_text_is_no_error() -> None:
    assert find_excess('"\ud800"') is None


def test_nothing_is_built_of_a_text_with_too_many_parts() -> None:
    """L1: 6 MB of tiny containers would be 160 MB of objects."""
    text = b"[" + b"{}," * 2_000_000 + b"{}]"
    tracemalloc.start()
    try:
        assert find_excess(text) is not None
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_numbers_of_too_many_digits_in_all_are_told_and_digits_in_strings_are_not() -> None:
    """L1: 16 MB of them hold the loop for a quarter of a second, and are few parts."""
    numbers = b"[" + b",".join([b"9" * 900] * 5_000) + b"]"
    assert find_excess(numbers) == "numbers of more than 4,000,000 digits"
    assert find_excess(b'"' + b"9" * 4_500_000 + b'"') is None
