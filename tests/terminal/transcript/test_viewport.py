"""The scroll position: the end is followed by jumps, a reader stays where they are, and little is measured."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.terminal.transcript.viewport import Viewport
from tests.thorough import examples


class Heights:
    """The heights of cells, and which of them were asked for."""

    def __init__(self, heights: list[int], height: int = 8) -> None:
        self.heights = heights
        self.measured: set[int] = set()
        self.view = Viewport(lambda: len(self.heights), self._measure, height)

    def _measure(self, index: int) -> int:
        self.measured.add(index)
        return self.heights[index]


def test_while_text_comes_the_view_jumps_by_a_quarter_and_then_stands_still() -> None:
    text = Heights([1] * 20)
    text.view.to_end()
    tops: list[int] = []
    for _ in range(8):
        text.heights.append(1)
        text.view.settle()
        tops.append(text.view.top[0])
    assert tops == [15, 15, 15, 18, 18, 18, 21, 21]


def test_a_reader_who_scrolled_up_stays_there() -> None:
    text = Heights([3] * 20)
    text.view.to_end()
    text.view.scroll(-5)
    before = text.view.settle()
    text.heights += [3] * 10
    assert text.view.settle() == before
    text.view.scroll(1_000)
    assert text.view.follows
    assert text.view.settle()[-1] == (29, 2)


def test_only_cells_near_the_view_are_measured() -> None:
    text = Heights([2] * 10_000)
    text.view.to_end()
    text.view.settle()
    text.view.scroll(-3)
    text.view.settle()
    assert min(text.measured) > 9_980


def test_where_all_rows_fit_they_begin_at_the_top() -> None:
    text = Heights([2, 2])
    text.view.to_end()
    assert text.view.settle() == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_rows_that_went_leave_no_hollow_view() -> None:
    text = Heights([1] * 10 + [30])
    text.view.to_end()
    text.heights[-1] = 1
    assert len(text.view.settle()) >= 6


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=12),
    st.integers(1, 10),
    st.lists(st.one_of(st.integers(-20, 20), st.just("grow"), st.just("end")), max_size=12),
)
@settings(max_examples=examples(500))
def test_the_view_is_full_where_there_is_text_and_its_rows_follow_each_other(
    heights: list[int], height: int, acts: list[int | str]
) -> None:
    text = Heights(heights, height)
    text.view.to_end()
    everything = [(cell, row) for cell, count in enumerate(heights) for row in range(count)]
    for act in acts:
        if act == "grow":
            heights[-1] += 1
            everything.append((len(heights) - 1, heights[-1] - 1))
        elif act == "end":
            text.view.to_end()
        else:
            text.view.scroll(int(act))
        shown = text.view.settle()
        first = everything.index(shown[0])
        assert shown == everything[first : first + len(shown)]
        assert len(shown) == height or shown[-1] == everything[-1]
        assert len(shown) >= min(len(everything), height - height // 4)
