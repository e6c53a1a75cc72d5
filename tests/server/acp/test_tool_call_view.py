"""How calls look in an editor, whatever the model wrote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.server.acp import tool_calls
from tertulia.server.acp.content import MAX_TITLE, fence_code, one_line
from tertulia.server.acp.tool_calls import view_tool_call
from tests.tables import each_row

PATCH = """*** Begin Patch
*** Add File: new.py
+x = 1
*** Update File: old.py
*** Move to: sub/moved.py
@@ def f():
 a
-b
+c
*** Delete File: gone.py
*** End Patch"""


@each_row(
    ("name", "arguments", "title", "kind"),
    [
        ("shell", {"command": ["bash", "-lc", "ls  -l\n| wc"]}, "ls -l | wc", "execute"),
        ("shell", {"command": ["grep", "-n", "two words", "a"]}, "grep -n 'two words' a", "execute"),
        ("local_shell", {"command": 1}, "local_shell", "execute"),
        ("exec_command", {"cmd": "make test"}, "make test", "execute"),
        ("write_stdin", {"session_id": 1}, "Type into a running command", "execute"),
        ("view_image", {"path": "a.png"}, "Look at a.png", "read"),
        ("view_image", {}, "view_image", "read"),
        ("read_file", {"path": "a.py", "line": "no line"}, "Read a.py", "read"),
        ("read_file", {"path": "a.py", "line": 2**70}, "Read a.py", "read"),
        ("web_search", {}, "Search the web", "search"),
        ("conv_send", {"conversation_id": "x"}, "Ask another conversation", "other"),
        ("notes__read", {"title": "x"}, "notes: read", "other"),
        ("my_tool", "not JSON", "my_tool", "other"),
        ("apply_patch", "no patch", "Edit files", "edit"),
        ("apply_patch", {"input": 7}, "Edit files", "edit"),
    ],
)
def test_a_call_has_a_title_and_a_kind(name: str, arguments: Any, title: str, kind: str) -> None:
    """Issue 10 (4): tool calls with kind and title."""
    seen = view_tool_call(name, arguments, "/work")
    assert (seen.title, seen.kind) == (title, kind)


@pytest.mark.parametrize("arguments", [PATCH, {"input": PATCH}])
def test_a_patch_shows_its_files_and_changes(arguments: Any) -> None:
    """Issue 10 (4): locations, and diffs for apply_patch, by absolute path; no file is read for it."""
    seen = view_tool_call("apply_patch", arguments, "/work/here")
    assert (seen.title, seen.kind) == ("Edit new.py, sub/moved.py, gone.py", "edit")
    assert seen.locations == [{"path": f"/work/here/{name}"} for name in ("new.py", "sub/moved.py", "gone.py")]
    assert seen.content == [
        {"type": "diff", "path": "/work/here/new.py", "newText": "x = 1\n"},
        {"type": "diff", "path": "/work/here/sub/moved.py", "oldText": "a\nb\n", "newText": "a\nc\n"},
    ]


def test_a_patch_that_only_deletes_is_a_deletion() -> None:
    """Issue 10 (4)."""
    seen = view_tool_call("apply_patch", "*** Begin Patch\n*** Delete File: a\n*** End Patch", "/")
    assert (seen.title, seen.kind, seen.content) == ("Delete a", "delete", [])


def test_what_is_shown_of_a_patch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10 (4): by number and by size."""
    monkeypatch.setattr(tool_calls, "MAX_DIFFS", 1)
    assert len(view_tool_call("apply_patch", PATCH, "/").content) == 1
    monkeypatch.setattr(tool_calls, "MAX_DIFF_CHARACTERS", 3)
    assert not view_tool_call("apply_patch", PATCH, "/").content


def test_a_title_is_one_line_and_hides_nothing() -> None:
    """HARDENING B: what a person decides by."""
    assert one_line("a\n\tb \u202e c") == "a b ⟨U+202E⟩ c"
    assert len(one_line("word " * 1000)) == MAX_TITLE


@given(st.text(alphabet="`a\n ", max_size=30))
def test_nothing_escapes_from_a_fence(text: str) -> None:
    """Issue 10 (4): output of commands is not Markdown."""
    fence, *lines = fence_code(text).split("\n")
    assert set(fence) == {"`"}
    assert fence not in "\n".join(lines[:-1])
    assert lines[-1] == fence


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_no_arguments_are_too_strange_to_be_shown(arguments: Any) -> None:
    """Issue 10 (4): the model may write anything."""
    for name in ("shell", "exec_command", "apply_patch", "view_image", "x__y"):
        assert view_tool_call(name, arguments, "/").title
        assert view_tool_call(
            name, {"command": arguments, "cmd": arguments, "path": arguments, "input": arguments}, "/"
        ).kind
