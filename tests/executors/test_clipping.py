"""Head and tail of what is too long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tertulia.executors.clipping import clip
from tests.tables import each_row


def test_what_fits_is_left_alone() -> None:
    assert clip("abc", 3) == "abc"


def test_what_is_too_long_keeps_its_head_and_its_tail_and_says_how_much_is_gone() -> None:
    """X-56"""
    shown = clip("x" * 500 + "y" * 500, 100)
    assert 96 <= len(shown) <= 100
    assert shown.startswith("xxxx")
    assert shown.endswith("yyyy")
    gone = 1_000 - shown.count("x") - shown.count("y")
    assert f" [… {gone} characters cut …] " in shown


@each_row(("room", "shown"), [(-1, ""), (0, ""), (1, "…"), (2, "a…"), (3, "a…z")])
def test_the_least_room_has_the_least_mark(room: int, shown: str) -> None:
    assert clip("abcxyz", room) == shown


@given(st.text(max_size=300), st.integers(0, 320))
def test_the_room_is_never_exceeded_and_no_cut_is_silent(text: str, room: int) -> None:
    """E12"""
    shown = clip(text, room)
    assert len(shown) <= room
    assert shown == text if len(text) <= room else room == 0 or "…" in shown
