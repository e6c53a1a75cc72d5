"""The text of a patch."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.tools.patch.text import (
    MAX_CHUNKS,
    AddFile,
    Chunk,
    DeleteFile,
    PatchCommand,
    UpdateFile,
    parse_patch,
    patch_in_command,
)
from tests.tables import Large, each_row
from tests.tools.patching import patch

PIECES = st.sampled_from(
    [
        *("*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Delete File: b", "*** Update File: c"),
        *(
            "*** Move to: d",
            "*** End of File",
            "*** Environment ID: x",
            "@@",
            "@@ def f():",
            "@@ -1,2 +3 @@",
            "<<'EOF'",
        ),
        *("EOF", "+x", "-x", " x", "", "+", "-", "***", "*** Add File: ../x", "*** Add File: ", "\0", "\ud800", "x\r"),
    ]
)


def test_the_whole_grammar_is_read() -> None:
    text = patch(
        "*** Environment ID: main",
        "*** Add File: new.txt",
        "+one",
        "+",
        "*** Delete File: old.txt",
        "*** Update File: a/b.py",
        "*** Move to: a/c.py",
        "@@ class A:",
        "@@     def f(self):",
        " kept",
        "-gone",
        "+come",
        "@@",
        "-last",
        "*** End of File",
    )
    assert parse_patch(text) == (
        AddFile("new.txt", "one\n\n", 3),
        DeleteFile("old.txt", 6),
        UpdateFile(
            "a/b.py",
            "a/c.py",
            (
                Chunk(("class A:", "    def f(self):"), ((" ", "kept"), ("-", "gone"), ("+", "come")), False, 9),
                Chunk((), (("-", "last"),), True, 14),
            ),
            7,
        ),
    )


def test_an_empty_patch_has_no_hunks() -> None:
    assert parse_patch("*** Begin Patch\n*** End Patch") == ()
    assert parse_patch(patch("*** Environment ID: x", "", "")) == ()


@each_row("opening", ["<<EOF", "<<'EOF'", '<<"EOF"'])
def test_a_heredoc_is_unwrapped(opening: str) -> None:
    text = patch("*** Delete File: a")
    assert parse_patch(f"{opening}\n{text}\nEOF\n") == parse_patch(text)


@each_row(
    "text",
    [
        "  *** Begin Patch  \n  *** Delete File: a  \n\t*** End Patch \n\n",
        "*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch\r\n",
        "\n*** Begin Patch\n\n*** Delete File:   ./a\n\n*** End Patch",
    ],
)
def test_blanks_around_markers_and_carriage_returns_do_not_matter(text: str) -> None:
    [hunk] = parse_patch(text)
    assert isinstance(hunk, DeleteFile)
    assert hunk.path == "a"


def test_the_first_marker_of_a_place_may_be_left_out_and_empty_lines_are_context() -> None:
    [hunk] = parse_patch(patch("*** Update File: a", " x", "", "-y", "@@", "-z"))
    assert isinstance(hunk, UpdateFile)
    assert [chunk.lines for chunk in hunk.chunks] == [((" ", "x"), (" ", ""), ("-", "y")), (("-", "z"),)]


def test_empty_lines_may_stand_after_the_end_of_a_file() -> None:
    [hunk] = parse_patch(patch("*** Update File: a", "-x", "*** End of File", "", "@@", "-y", "*** End of File", ""))
    assert isinstance(hunk, UpdateFile)
    assert [(chunk.lines, chunk.at_end) for chunk in hunk.chunks] == [((("-", "x"),), True), ((("-", "y"),), True)]


def test_line_numbers_as_in_other_patches_say_nothing() -> None:
    [hunk] = parse_patch(patch("*** Update File: a", "@@ -1,3 +1,4 @@ def f():", "-x"))
    assert isinstance(hunk, UpdateFile)
    assert hunk.chunks[0].headers == ()


def test_a_file_may_be_moved_without_a_change_and_made_without_a_line() -> None:
    assert parse_patch(patch("*** Update File: a", "*** Move to: b")) == (UpdateFile("a", "b", (), 2),)
    assert parse_patch(patch("*** Add File: a")) == (AddFile("a", "", 2),)


@each_row("separator", ["\u2028", "\x0b", "\x0c", "\x85", "\r"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    [hunk] = parse_patch(patch("*** Add File: a", f"+x{separator}y"))
    assert isinstance(hunk, AddFile)
    assert hunk.content == f"x{separator}y\n"


@each_row(
    ("text", "error"),
    [
        ("", "invalid patch: the first line of the patch must be"),
        ("hello", "invalid patch: the first line of the patch must be"),
        ("*** Begin Patch", "invalid patch: the last line of the patch must be"),
        ("*** Begin Patch\n*** Delete File: a", "invalid patch: the last line of the patch must be"),
        ("<<EOF\n*** Begin Patch\n*** End Patch\nEOT", "invalid patch: the first line"),
        (patch("hello"), "invalid hunk at line 2, 'hello' is not a valid hunk header"),
        (patch("*** Add File: a", "x"), "invalid hunk at line 3, 'x' is not a valid hunk header"),
        (patch("*** Update File: a"), "invalid hunk at line 2, Update file hunk for path 'a' is empty"),
        (patch("*** Update File: a", "@@"), "invalid hunk at line 4, Update hunk does not contain any lines"),
        (patch("*** Update File: a", "@@", "x"), "invalid hunk at line 4, Unexpected line found in update hunk: 'x'"),
        (patch("*** Update File: a", "x"), "invalid hunk at line 3, Unexpected line found in update hunk"),
        (patch("*** Update File: a", "@@", "*** End of File"), "does not contain any lines"),
        (patch("*** Update File: a", "-x", "y"), "invalid hunk at line 4, Expected update hunk to start with a @@"),
        (patch("*** Update File: a", "-x", "*** End of File", " y"), "invalid hunk at line 5, Expected update hunk"),
        (patch("*** Delete File: a", "+x"), "invalid hunk at line 3"),
    ],
)
def test_what_is_no_patch_is_refused_with_its_line(text: str, error: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        parse_patch(text)
    assert error in refused.value.message


@each_row(
    "path",
    [
        *(
            "",
            "/",
            "/etc/passwd",
            "//x",
            "~/x",
            "./~//x",
            "..",
            "../x",
            "a/../b",
            "a/..",
            "a/../../x",
            "./..",
            ".",
            "./",
            "a/",
        ),
        *("a\tb", "a\x1bb", "a\x7f", "x" * 256, "é" * 128, "a/" * 600 + "b"),
    ],
)
@each_row("header", ["*** Add File: {}", "*** Delete File: {}", "*** Update File: {}", "*** Move to: {}"])
def test_a_path_that_leads_away_or_is_none_is_refused(path: str, header: str) -> None:
    """A23: traversal, absolute."""
    lines = ["*** Update File: ok", header.format(path), "-x"] if "Move" in header else [header.format(path), "-x"]
    with pytest.raises(InvalidParamsError, match=r"invalid hunk at line \d, "):
        parse_patch(patch(*lines))


@each_row("text", ["\0", "a\0b", "\ud800"])
def test_a_nul_and_half_a_character_are_refused(text: str) -> None:
    """A23: NUL, in a path or anywhere else."""
    for lines in ([f"*** Delete File: {text}"], ["*** Add File: a", f"+{text}"]):
        with pytest.raises(InvalidParamsError, match="NUL or half a character"):
            parse_patch(patch(*lines))


@each_row(
    "lines",
    [
        Large(lambda: ["*** Delete File: a"] * 1_000_000),
        Large(lambda: [f"*** Add File: {number}" for number in range(300_000)]),
        Large(lambda: ["*** Update File: a", *["@@", "+"] * 1_000_000]),
        ["*** Update File: a", *["@@ x", "+"] * (MAX_CHUNKS + 1)],
    ],
)
def test_a_million_hunks_are_refused_quickly(lines: list[str]) -> None:
    """A23: 1 M hunks."""
    text = patch(*lines)
    began = time.thread_time()
    with pytest.raises(LimitError, match="invalid patch: it "):
        parse_patch(text)
    assert time.thread_time() - began < 2


@given(st.lists(PIECES | st.text(max_size=8)).map("\n".join) | st.lists(PIECES).map(lambda lines: patch(*lines)))
@example("<<EOF\nEOF")
def test_any_text_is_a_patch_or_refused(text: str) -> None:
    """HARDENING target 6: no crash, no hang."""
    try:
        hunks = parse_patch(text)
    except (InvalidParamsError, LimitError):
        return
    for hunk in hunks:
        assert ".." not in hunk.path.split("/")
        assert not hunk.path.startswith("/")


@each_row(
    "text",
    [
        Large(lambda: patch("*** Add File: f", *["+"] * 100_000)),
        Large(lambda: patch("*** Update File: a", *[" "] * 500_000)),
        Large(lambda: "*** Begin Patch\n" + "\n" * 500_000 + "*** End Patch"),
    ],
)
def test_a_patch_of_too_many_lines_is_refused_before_it_is_read(text: str) -> None:
    """L6: it is read on the loop."""
    with pytest.raises(LimitError, match="more than 100,000 lines"):
        parse_patch(text)


PATCH = patch("*** Add File: a", "+$x `y`") + "\n"


@each_row(
    ("argv", "workdir"),
    [
        (["apply_patch", PATCH], None),
        (["applypatch", PATCH], None),
        (["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF"], None),
        (["bash", "-c", f'applypatch <<"PATCH"\n{PATCH}PATCH\n'], None),
        (["/bin/sh", "-c", f"\napply_patch<<EOF\n{PATCH}EOF\n\n"], None),
        (["bash", "-lc", f"cd 'a b' && apply_patch <<'EOF'\n{PATCH}EOF\n"], "a b"),
    ],
)
def test_a_patch_is_found(argv: list[str], workdir: str | None) -> None:
    assert patch_in_command(argv) == PatchCommand(PATCH, workdir)
    assert parse_patch(PATCH)


@each_row(
    "argv",
    [
        [],
        ["apply_patch"],
        ["apply_patch", PATCH, "x"],
        ["ls", PATCH],
        ["bash", "-x", f"apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", "ls"],
        ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOT"],
        ["bash", "-lc", f"apply_patch <<'EOF\n{PATCH}EOF"],
        ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF\nrm x"],
        ["bash", "-lc", f"rm x && apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", f"cd a; rm x && apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", f"cd $(rm x) && apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", f"cd - && apply_patch <<'EOF'\n{PATCH}EOF"],
        ["bash", "-lc", f"cd a && cd b && apply_patch <<'EOF'\n{PATCH}EOF"],
    ],
)
def test_every_other_command_is_none(argv: list[str]) -> None:
    assert patch_in_command(argv) is None
