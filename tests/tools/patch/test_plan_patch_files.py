"""What a person is told of the files of a patch."""

from __future__ import annotations

from tertulia.protocol.tool_events import ApprovalFile
from tertulia.tools.patch.plan import approval_files, count_lines, make_plan
from tertulia.tools.patch.text import parse_patch

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
