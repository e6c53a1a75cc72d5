"""Wrapping: rows fit, nothing is lost, and no grapheme is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, split_graphemes
from rich.style import Style

from tertulia.terminal.drawing.wrapping import MAX_LINE, bounded, cut_runs, hard_cuts, without_tabs, word_cuts

LINES = st.text(alphabet=st.sampled_from("ab c日本、。「」👩‍👩‍👧é\u0301👍🏽x -"), max_size=80)
WIDTHS = st.integers(2, 30)


@given(LINES, WIDTHS)
def test_rows_fit_and_only_blanks_between_them_are_lost(line: str, width: int) -> None:
    cuts = word_cuts(line, width)
    assert all(cell_len(line[start:end].rstrip(" ")) <= width for start, end in cuts)
    end_before = 0
    for start, end in cuts:
        assert not line[end_before:start].strip(" ")
        end_before = end
    assert not line[end_before:].strip(" ")


@given(LINES, WIDTHS)
def test_code_loses_no_character(line: str, width: int) -> None:
    cuts = hard_cuts(line, width)
    assert "".join(line[start:end] for start, end in cuts) == line
    assert all(cell_len(line[start:end]) <= width for start, end in cuts)


@given(LINES, WIDTHS)
def test_no_grapheme_is_cut(line: str, width: int) -> None:
    borders = {start for start, _, _ in split_graphemes(line)[0]} | {len(line)}
    assert all(start in borders for start, _ in [*word_cuts(line, width), *hard_cuts(line, width)])


@given(st.lists(st.text("ab c", max_size=9), max_size=6), st.integers(1, 9))
def test_styled_pieces_are_cut_where_their_text_is(texts: list[str], width: int) -> None:
    line = "".join(texts)
    rows = cut_runs([(text, Style()) for text in texts], hard_cuts(line, width)) if texts else []
    assert "".join(text for row in rows for text, _ in row) == line


@pytest.mark.parametrize(
    ("line", "width", "rows"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("averylongword", 5, ["avery", "longw", "ord"]),
        ("a  b", 2, ["a", "b"]),
        ("日本語の文章", 5, ["日本", "語の", "文章"]),
        ("文章です。次", 8, ["文章で", "す。次"]),
        ("word 日本語", 9, ["word 日本", "語"]),
    ],
)
def test_where_a_line_is_cut(line: str, width: int, rows: list[str]) -> None:
    assert [line[start:end] for start, end in word_cuts(line, width)] == rows


def test_a_line_of_a_megabyte_is_drawn_by_its_ends() -> None:
    line = bounded("x" * 1_000_000)
    assert len(line) < MAX_LINE + 100
    assert "967,232 more characters" in line


def test_tabs_go_to_the_next_stop() -> None:
    assert without_tabs("a\tb\t\tc") == "a   b       c"
    assert without_tabs("日\tb") == "日  b"
