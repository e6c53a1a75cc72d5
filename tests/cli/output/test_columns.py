"""Columns that stand under one another, and numbers that people can read."""

from __future__ import annotations

import io

import pytest

from tertulia.cli.output.tables import cell_width, cut_to_width, format_age, format_count, format_size, write_columns
from tertulia.cli.output.terminal import TerminalOutput
from tests.cli.output.test_terminal import Screen
from tests.tables import each_row


def written(stream: io.StringIO, rows: list[list[str]], **options: frozenset[str]) -> list[str]:
    write_columns(TerminalOutput(stream, {"NO_COLOR": "1"}), ("NAME", "SIZE", "ABOUT"), rows, **options)
    return stream.getvalue().splitlines()


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    lines = written(io.StringIO(), [["a", "1", "x"], ["longer", "22", "y"]], right=frozenset({"SIZE"}))
    assert lines == ["NAME    SIZE  ABOUT", "a          1  x", "longer    22  y"]


def test_characters_that_take_two_columns_count_for_two() -> None:
    assert [cell_width("日本"), cell_width("e\u0301"), cell_width(("ab", "red"))] == [4, 1, 2]
    lines = written(io.StringIO(), [["日本", "1", "x"], ["abcd", "1", "y"]])
    assert lines[1:] == ["日本  1     x", "abcd  1     y"]


def test_the_last_column_is_cut_on_a_terminal_and_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    row = ["a", "1", "word " * 30]
    shown = written(Screen(), [row])[1]
    assert len(shown) == 40
    assert shown.endswith("…")
    assert written(io.StringIO(), [row])[1].endswith("word " * 30)


def test_no_line_ends_in_blanks() -> None:
    assert written(io.StringIO(), [["a", "1", ""]])[1] == "a     1"


def test_what_steers_a_terminal_or_breaks_a_line_is_not_shown() -> None:
    """HARDENING A22."""
    assert cut_to_width("a\x1b[2Jb\nc", 20) == "a⟨U+001B⟩[2Jb c"
    assert cut_to_width("日本語", 5) == "日本…"
    assert cut_to_width("x" * 1000, 4) == "xxx…"


@each_row(
    ("seconds", "expected"),
    [(-5, "just now"), (0.4, "just now"), (1, "1 s ago"), (59.9, "59 s ago"), (60, "1 min ago"), (7_200, "2 h ago"),
     (90_000, "1 d ago"), (8_640_000, "100 d ago")],
)  # fmt: skip
def test_how_long_ago(seconds: float, expected: str) -> None:
    assert format_age(seconds) == expected


@each_row(
    ("count", "expected"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (9_999, "10.0 kB"), (40_960, "40 kB"), (1_500_000, "1.5 MB"),
     (27 * 10**9, "27 GB")],
)  # fmt: skip
def test_sizes(count: int, expected: str) -> None:
    assert format_size(count) == expected


def test_one_and_many() -> None:
    assert [format_count(n, "text") for n in (0, 1, 1_200)] == ["0 texts", "1 text", "1,200 texts"]
