"""Head, tail and true size of an output of any length."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from tertulia.sandbox.command_streams import BoundedOutput


@given(pieces=st.lists(st.binary(max_size=40), max_size=30), bound=st.integers(0, 64))
def test_head_and_tail_are_those_of_the_whole(pieces: list[bytes], bound: int) -> None:
    """G3"""
    kept = BoundedOutput(bound)
    for piece in pieces:
        kept.add(piece)
    whole, output = b"".join(pieces), kept.output()
    assert output.total == len(whole)
    assert len(output.head) + len(output.tail) == min(bound, len(whole))
    assert whole.startswith(output.head)
    assert whole.endswith(output.tail)
    assert output.truncated is (len(whole) > bound)


def test_taking_begins_anew() -> None:
    kept = BoundedOutput(8)
    kept.add(b"0123456789")
    assert kept.take().text() == "0123\n[… 2 of 10 bytes are left out …]\n6789"
    assert kept.take().total == 0
    kept.add(b"x")
    assert kept.take().text() == "x"


def test_g3_a_gigabyte_costs_no_more_than_its_bound() -> None:
    """G3, target 9: small pieces and large ones."""
    kept = BoundedOutput(65_536)
    piece = bytes(65_536)
    tracemalloc.start()
    try:
        for _ in range(2048):
            kept.add(piece)
        for _ in range(20_000):
            kept.add(b"line\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.output().total == 2048 * 65_536 + 100_000
    assert peak < 512 * 1024
