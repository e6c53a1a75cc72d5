"""Patches as rows: files with counts, signs besides colours, numbers where they are known."""

from __future__ import annotations

from rich.style import Style

from tertulia.terminal.drawing.diffs import counts, diff_rows, parse_diff
from tertulia.terminal.drawing.palette import Palette
from tests.terminal.transcript.boards import PATCH

PALETTE = Palette(Style.null())
UNIFIED = """diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -9,3 +9,3 @@ def total(items):
     sum = 0
-    return sum
+    return total
 # end
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+--- not a header
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-gone"""


def drawn(text: str, width: int = 60) -> list[str]:
    return [row.text.rstrip() for row in diff_rows(parse_diff(text), width, PALETTE)]


def test_a_unified_diff_has_numbers_and_signs() -> None:
    assert drawn(UNIFIED) == [
        "── app.py +1 −1",
        "   @@ def total(items):",
        " 9       sum = 0",
        "10 -     return sum",
        "10 +     return total",
        "11   # end",
        "── new.py +1 new",
        "  @@",
        "1 + --- not a header",
        "── old.py −1 deleted",
        "  @@",
        "1 - gone",
    ]


def test_a_patch_of_the_tool_has_signs_alone() -> None:
    first, *rest = drawn(PATCH)
    assert first == "── app.py +1 −4"
    assert rest[1] == "-     sum = 0"
    assert "── tests/test_total.py +5 new" in rest


def test_one_file_needs_no_name_above_its_lines() -> None:
    assert drawn("*** Begin Patch\n*** Delete File: a.py\n*** End Patch") == []
    (file,) = parse_diff("*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n-a\n+b\n*** End Patch")
    assert "".join(text for text, _ in counts(file, PALETTE)) == "a.py → b.py +1 −1 moved"


def test_a_long_line_goes_on_below_its_text_and_is_copied_with_its_sign() -> None:
    rows = diff_rows(parse_diff("--- a\n+++ a\n@@ -1 +1 @@\n+" + "x" * 30), 20, PALETTE)
    assert [row.text for row in rows[1:]] == ["1 + " + "x" * 16, "    " + "x" * 14]
    assert "".join(row.copied_text for row in rows[1:]) == "+ " + "x" * 30
    assert rows[1].place == ("a", 1)


def test_what_is_no_patch_has_no_files() -> None:
    assert parse_diff("hello\n- a\n+ b") == []
