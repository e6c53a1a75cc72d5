"""Chunks, found in a file and put in their place."""

from __future__ import annotations

import time

import pytest

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.tools.patch.match import FileLines, apply_chunks
from tertulia.tools.patch.text import UpdateFile, parse_patch
from tests.tables import each_row
from tests.tools.patching import patch


def update(content: str, *lines: str) -> str:
    [hunk] = parse_patch(patch("*** Update File: f", *lines))
    assert isinstance(hunk, UpdateFile)
    return apply_chunks("f", content, hunk.chunks)


@each_row(
    ("content", "lines", "expected"),
    [
        ("a\nb\nc\n", [" a", "-b", "+B", " c"], "a\nB\nc\n"),
        ("a\nb\nc\n", ["-b"], "a\nc\n"),
        ("a\nb\n", [" a", "+x", "+y", " b"], "a\nx\ny\nb\n"),
        ("a\nb\n", ["+x", " a"], "x\na\nb\n"),
        ("a\n", ["-a"], ""),
        ("x\nx\nx\n", ["@@", "-x", "+1", "@@", "-x", "+2"], "1\n2\nx\n"),
        ("f\nx\ng\nx\n", ["@@ g", "-x", "+y"], "f\nx\ng\ny\n"),
        ("A\nf\nx\nB\nf\nx\n", ["@@ B", "@@ f", "-x", "+y"], "A\nf\nx\nB\nf\ny\n"),
        ("x\na\nx\n", ["-x", "+y", "*** End of File"], "x\na\ny\n"),
        ("x\na\n", ["-x", "+y", "*** End of File"], "y\na\n"),
        ("a\nb\n", ["+x"], "a\nb\nx\n"),
        ("a\nb\n", ["@@ a", "+x"], "a\nb\nx\n"),
        ("", ["+x"], "x\n"),
        ("a\nb\n", ["-b", "+c", ""], "a\nc\n"),
        ("a\nb\n", ["", "+c"], "a\nb\nc\n"),
        ("a\n\nb\n", ["-", " b"], "a\nb\n"),
        ("a\nb\nc\n", ["@@", "-c", "+C", "@@", "+d"], "a\nb\nC\nd\n"),
    ],
)
def test_chunks_are_put_in_their_place(content: str, lines: list[str], expected: str) -> None:
    assert update(content, *lines) == expected


@each_row(
    ("content", "lines", "expected"),
    [
        ("x  \nx\n", ["-x", "+y"], "x  \ny\n"),
        ("a\nx \t\n", ["-x", "+y"], "a\ny\n"),
        ("  x\nx \n", ["-x", "+y"], "  x\ny\n"),
        ("\tx\n", ["- x", "+ y"], " y\n"),
        ("a – “b”\u00a0…\n", ['-a - "b" …', "+c"], "c\n"),
        ("it’s\n x\n", ["-it's", "+no"], "no\n x\n"),
        ("a—b\na-b\n", ["-a-b", "+c"], "a—b\nc\n"),
        ("\ufeffa\n", ["-a", "+b"], "b\n"),
        ("  def f():\n    x\n", ["@@ def f():", "-    x", "+    y"], "  def f():\n    y\n"),
    ],
)
def test_four_passes_look_less_and_less_closely(content: str, lines: list[str], expected: str) -> None:
    """Exact, then without blanks at the end, then without any around, then with typography folded."""
    assert update(content, *lines) == expected


def test_what_only_gives_the_place_keeps_its_bytes() -> None:
    assert update("  “a”  \nb\nc\t\n", ' "a"', "-b", "+B", " c") == "  “a”  \nB\nc\t\n"


@each_row(
    ("content", "expected"),
    [
        ("a\r\nb\r\nc\r\n", "a\r\nB\r\nx\r\nc\r\n"),
        ("a\r\nb\nc\r\n", "a\r\nB\nx\nc\r\n"),
        ("a\nb\r\nc\n", "a\nB\r\nx\r\nc\n"),
        ("a\r\nb\r\nc", "a\r\nB\r\nx\r\nc\r\n"),
        ("a\nb\nc", "a\nB\nx\nc\n"),
    ],
)
def test_new_lines_end_as_their_neighbours_and_the_last_line_ends(content: str, expected: str) -> None:
    """CRLF, mixed, and no newline at the end."""
    assert update(content, " a", "-b", "+B", "+x", " c") == expected


@each_row(("content", "expected"), [("a\r\nb", "a\r\nb\r\nx\r\n"), ("a", "a\nx\n"), ("a\r\n", "a\r\nx\r\n")])
def test_what_is_added_at_the_end_ends_as_the_file_does(content: str, expected: str) -> None:
    assert update(content, "+x") == expected


def test_a_last_line_without_an_end_can_be_replaced() -> None:
    assert update("a\r\nb", "-b", "+c") == "a\r\nc\r\n"


@each_row(
    ("content", "lines", "error"),
    [
        ("a\n", ["-b"], "Failed to find expected lines in f:\nb\n(line 3 of the patch)"),
        ("a\n", ["@@ b", "-a"], "Failed to find context 'b' in f (line 3 of the patch)"),
        ("a\nb\n", ["@@", "-b", "@@", "-a"], "Failed to find expected lines in f:\na\n(line 5 of the patch)"),
        ("a\nb\n", ["@@ b", "-b"], "Failed to find expected lines in f:\nb\n"),
        ("a\n", ["-b", ""], "Failed to find expected lines in f:\nb\n\n(line 3"),
        (
            "a\nb\n",
            ["@@", " a", "-b", "@@", "-b", "*** End of File"],
            "Failed to find expected lines in f:\nb\n(line 6",
        ),
        ("", ["-a"], "Failed to find expected lines in f:\na"),
        ("ab\n", ["-b"], "Failed to find expected lines in f:\nb"),
        ("a\nb c\n", ["-a", "-b"], "Failed to find expected lines in f:\na\nb"),
    ],
)
def test_what_is_not_there_is_named_with_file_and_line(content: str, lines: list[str], error: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        update(content, *lines)
    assert refused.value.message.startswith(error)


def test_a_search_takes_no_longer_than_its_file_whatever_is_in_it() -> None:
    content = "x\n" * 500_000
    began = time.thread_time()
    with pytest.raises(InvalidParamsError):
        update(content, *["-x"] * 20_000, "-y")
    assert update(content + "y\n", *["-x"] * 20_000, "-y") == "x\n" * 480_000
    assert time.thread_time() - began < 10


def test_a_patch_made_to_be_slow_is_refused() -> None:
    lines = FileLines("x\ny\n" * 1_000, max_scanned=20_000)
    assert lines.find(["x", "x"], 0) is None
    with pytest.raises(LimitError, match="takes too long"):
        lines.find(["x", "x"], 0)
