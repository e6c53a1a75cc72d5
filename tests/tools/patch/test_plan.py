"""What a patch makes of a directory, and whether diff and patch agree."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.protocol.tool_events import ApprovalFile
from tertulia.tools.patch import plan
from tertulia.tools.patch.description import approval_files
from tertulia.tools.patch.plan import PlannedChange, count_lines, make_plan, touched_paths
from tertulia.tools.patch.text import parse_patch
from tests.tables import each_row
from tests.tools.patching import applied, needed, patch


def test_add_delete_update_and_move() -> None:
    files = {"a": "1\n", "b": "1\n", "c": "1\n", "d": "1\n"}
    after = applied(
        files,
        *("*** Add File: new/x", "+x", "*** Add File: a", "+over", "*** Delete File: b"),
        *("*** Update File: c", "-1", "+2", "*** Update File: d", "*** Move to: e", "-1", "+3"),
    )
    assert after == {"a": "over\n", "c": "2\n", "e": "3\n", "new/x": "x\n"}


def test_the_plan_says_what_must_be_there_and_what_shall() -> None:
    plan = make_plan(
        parse_patch(patch("*** Add File: n", "+x", "*** Update File: a", "*** Move to: b", "*** Delete File: c")),
        {"a": b"1", "c": b""}.get,
    )
    assert plan.changes == (
        PlannedChange("n", None, b"x\n"),
        PlannedChange("a", b"1", None),
        PlannedChange("b", None, b"1", like="a"),
        PlannedChange("c", b"", None),
    )
    assert plan.summary == (("A", "n"), ("M", "b"), ("D", "c"))
    assert plan.for_disk() == {
        "verb": "apply",
        "changes": [
            {"path": "n", "old": None, "new": base64.b64encode(b"x\n").decode(), "like": None},
            {"path": "a", "old": hashlib.sha256(b"1").hexdigest(), "new": None, "like": None},
            {"path": "b", "old": None, "new": base64.b64encode(b"1").decode(), "like": "a"},
            {"path": "c", "old": hashlib.sha256(b"").hexdigest(), "new": None, "like": None},
        ],
    }


@each_row(
    ("lines", "expected"),
    [
        (["*** Update File: a", "-1", "+2", "*** Update File: a", "-2", "+3"], {"a": "3\n"}),
        (["*** Delete File: a", "*** Add File: a", "+2"], {"a": "2\n"}),
        (["*** Add File: b", "+x", "*** Update File: b", "-x", "+y"], {"a": "1\n", "b": "y\n"}),
        (["*** Update File: a", "*** Move to: b", "*** Update File: b", "-1", "+2"], {"b": "2\n"}),
        (["*** Update File: a", "*** Move to: a", "-1", "+2"], {"a": "2\n"}),
        (["*** Update File: a", "*** Move to: b", "*** Update File: b", "*** Move to: a"], {"a": "1\n"}),
    ],
)
def test_a_hunk_sees_what_those_before_it_did(lines: list[str], expected: dict[str, str]) -> None:
    assert applied({"a": "1\n"}, *lines) == expected


def test_what_stays_the_same_is_not_written() -> None:
    assert make_plan(parse_patch(patch("*** Add File: a", "+1")), {"a": b"1\n"}.get).changes == ()


def test_what_is_not_utf8_passes_through_unharmed() -> None:
    assert applied({"a": "\udcff\nb\n"}, "*** Update File: a", "-b", "+é") == {"a": "\udcff\né\n"}


@each_row(
    ("lines", "error"),
    [
        (["*** Delete File: x"], "Failed to read file to delete x: there is none (line 2 of the patch)"),
        (["*** Update File: x", "-1"], "Failed to read file to update x: there is none (line 2 of the patch)"),
        (["*** Delete File: a", "*** Update File: a", "-1"], "Failed to read file to update a: there is none (line 3"),
        (["*** Update File: binary", "-1"], "binary is a binary file (line 2 of the patch)"),
        (["*** Update File: a", "-2"], "Failed to find expected lines in a:\n2\n(line 3 of the patch)"),
    ],
)
def test_what_cannot_be_done_is_named_with_file_and_line(lines: list[str], error: str) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        applied({"a": "1\n", "binary": "1\n\0"}, *lines)
    assert refused.value.message.startswith(error)


@each_row(
    ("one", "other"),
    [("a", "A"), ("x/ß", "x/SS"), ("Dir/a", "dir/b"), ("é", "e\u0301"), ("a", "A/b"), ("ﬁ", "FI")],
)
def test_paths_that_are_one_on_some_disks_are_refused(one: str, other: str) -> None:
    """A23: case-fold."""
    for lines in (
        [f"*** Add File: {one}", "+", f"*** Delete File: {other}"],
        [f"*** Update File: {one}", f"*** Move to: {other}"],
    ):
        with pytest.raises(InvalidParamsError, match="are the same on some disks"):
            touched_paths(parse_patch(patch(*lines)))


def test_every_path_is_read_once_destinations_too() -> None:
    lines = ["*** Add File: a", "*** Update File: b", "*** Move to: c", "*** Delete File: a"]
    assert touched_paths(parse_patch(patch(*lines))) == ["a", "b", "c"]


def test_more_than_may_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MAX_WRITTEN", 3)
    assert applied({}, "*** Add File: a", "+12") == {"a": "12\n"}
    with pytest.raises(LimitError, match="would write 4 bytes"):
        applied({}, "*** Add File: a", "+12", "*** Add File: b", "+")


# ── round trips against diff and patch ───────────────────────────────────────────────────────────────────────

WORDS = st.sampled_from(
    ["", "a", "b", " a", "a ", "\ta", "é", "“x”", "日本", "-", "+", "@@", "*** x", "\x0c", "\u2028", "x–y"]
)
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str]:
    """A file and what it becomes: with one kind of line end, perhaps without one at the end."""
    end = draw(ENDS)
    old = draw(st.lists(WORDS, max_size=12))
    new = list(old)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 3))] = draw(st.lists(WORDS, max_size=3))
    bare = draw(st.booleans())
    whole = end.join(old) + ("" if bare or not old else end)
    # A file without a line end says nothing of how its lines should end.
    return whole, "".join(line + (end if "\n" in whole else "\n") for line in new)


def unified(old: str, new: str, place: Path, context: int) -> str:
    for name, text in (("old", old), ("new", new)):
        (place / name).write_bytes(text.encode())
    command = ["diff", "-a", f"-U{context}", "old", "new"]
    return subprocess.run(command, cwd=place, capture_output=True, check=False).stdout.decode()


def patched(diff: str, place: Path) -> str:
    """What the program `patch` makes of the old file."""
    command = ["patch", "--binary", "-s", "-o", "made", "old"]
    subprocess.run(command, cwd=place, input=diff.encode(), capture_output=True, check=True)
    return (place / "made").read_bytes().decode()


def as_ours(diff: str) -> list[str]:
    """A unified diff in our grammar: the same places, without their numbers."""
    lines = [line for line in diff.split("\n")[2:-1] if not line.startswith("\\ No newline")]
    return [re.sub(r"^@@ .*", "@@", line).removesuffix("\r") for line in lines]


@pytest.mark.skipif(bool(needed), reason="needs diff and patch")
@given(texts())
@example(("a", "a\nb\n"))
@example(("a\r\nb", "b\r\n"))
@example(("", "a\n"))
def test_what_diff_says_we_do_as_patch_does(pair: tuple[str, str]) -> None:
    """With all of the file as context, so that both must find the same place: CRLF, no newline at end, unicode."""
    old, new = pair
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        diff = unified(old, new, place, 1_000)
        if not diff:
            return
        assert patched(diff, place) == new
    assert applied({"f": old}, "*** Update File: f", *as_ours(diff)) == {"f": new}


@pytest.mark.skipif(bool(needed), reason="needs diff and patch")
@given(
    st.lists(st.integers(0, 200), unique=True, max_size=60),
    st.sets(st.integers(0, 60), max_size=8),
    st.sets(st.integers(0, 60), min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_places_far_apart_are_found_by_their_context(
    numbers: list[int], gone: set[int], come: set[int], context: int
) -> None:
    old = [f"line {number}" for number in numbers]
    new: list[str] = []
    for at, line in enumerate([*old, None]):
        new += [f"new {at}"] if at in come else []
        new += [line] if line is not None and at not in gone else []
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    with tempfile.TemporaryDirectory() as folder:
        diff = unified(before, after, Path(folder), context)
        if not diff:
            return
        assert patched(diff, Path(folder)) == after
    assert applied({"f": before}, "*** Update File: f", *as_ours(diff)) == {"f": after}


PATCH = """*** Begin Patch
*** Add File: new
+one
+two
*** Delete File: old
*** Update File: here
@@
 a
-b
+c
+d
*** Update File: from
*** Move to: to
@@
-x
+y
*** End Patch
"""


def test_each_file_says_what_becomes_of_it_and_how_many_lines_come_and_go() -> None:
    """A1: `files` of an approval request."""
    files = {"old": b"1\n2\n3", "here": b"a\nb\n", "from": b"x\n", "new": None}
    hunks = parse_patch(PATCH)
    assert approval_files(hunks, make_plan(hunks, files.get)) == (
        ApprovalFile("new", "add", 2, 0),
        ApprovalFile("old", "delete", 0, 3),
        ApprovalFile("here", "update", 2, 1),
        ApprovalFile("from → to", "move", 1, 1),
    )


def test_lines_are_counted_with_and_without_an_end() -> None:
    assert [count_lines(content) for content in (None, b"", b"a", b"a\n", b"a\nb")] == [0, 0, 1, 1, 2]
