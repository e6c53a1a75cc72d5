"""apply_patch, as models know it, by somebody who has only read how they write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tertulia.testing import call
from tests.contract.python_session import soon, start_session
from tests.sandbox.confined import need

BEGIN, END = "*** Begin Patch\n", "*** End Patch"

Files = dict[str, str]


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


def tree(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes().decode() for path in folder.rglob("*") if path.is_file()}


def lay(folder: Path, files: Files) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


async def applied(folder: Path, patch: str) -> Any:
    """What the tool answered."""
    async with start_session(call("apply_patch", {"input": patch}), "Done.", cwd=str(folder)) as session:
        ends = [event.data async for event in session.root.stream("go") if event.type == "tool_call_end"]
        await soon(session.close())
    (end,) = ends
    return end


WORKS: dict[str, tuple[Files, str, Files]] = {
    "add, with its parents": ({}, "*** Add File: a/b/c\n+one\n+\n+two\n", {"a/b/c": "one\n\ntwo\n"}),
    "add over another": ({"a": "old\n"}, "*** Add File: a\n+new\n", {"a": "new\n"}),
    "delete": ({"a": "x\n", "b": "y\n"}, "*** Delete File: a\n", {"b": "y\n"}),
    "first pass: as it is": ({"a": "x \ny\nx\n"}, "*** Update File: a\n@@\n-x\n+X\n", {"a": "x \ny\nX\n"}),
    "second: ends trimmed": ({"a": "one  \ntwo\n"}, "*** Update File: a\n@@\n one\n-two\n+2\n", {"a": "one  \n2\n"}),
    "third: trimmed": ({"a": "  one\n\ttwo\n"}, "*** Update File: a\n@@\n one\n-two\n+2\n", {"a": "  one\n2\n"}),
    "fourth: folded": (
        {"a": "a – b\n“q”\u00a0x\n"}, '*** Update File: a\n@@\n a - b\n-"q" x\n+Q\n', {"a": "a – b\nQ\n"},
    ),
    "no @@ at first": ({"a": "one\ntwo\n"}, "*** Update File: a\n-two\n+2\n", {"a": "one\n2\n"}),
    "after a line": (
        {"a": "f\n  x\ng\n  x\n"}, "*** Update File: a\n@@ g\n-  x\n+  y\n", {"a": "f\n  x\ng\n  y\n"},
    ),
    "after two lines": (
        {"a": "A\n f\n  x\nB\n f\n  x\n"},
        "*** Update File: a\n@@ B\n@@  f\n-  x\n+  y\n",
        {"a": "A\n f\n  x\nB\n f\n  y\n"},
    ),
    "two places": (
        {"a": "1\n2\n3\n4\n"}, "*** Update File: a\n@@\n-1\n+a\n@@\n-4\n+d\n", {"a": "a\n2\n3\nd\n"},
    ),
    "at the end of the file": (
        {"a": "x\nend\nx\nend\n"}, "*** Update File: a\n@@\n-end\n+END\n*** End of File\n", {"a": "x\nend\nx\nEND\n"},
    ),
    "only additions": ({"a": "x\n"}, "*** Update File: a\n@@\n+y\n", {"a": "x\ny\n"}),
    "move": ({"a": "x\ny\n"}, "*** Update File: a\n*** Move to: d/b\n@@\n-x\n+X\n", {"d/b": "X\ny\n"}),
    "move over another": (
        {"a": "x\n", "b": "old\n"}, "*** Update File: a\n*** Move to: b\n@@\n-x\n+X\n", {"b": "X\n"},
    ),
    "no line feed at the end": ({"a": "x\ny"}, "*** Update File: a\n@@\n-y\n+z\n", {"a": "x\nz\n"}),
    "an empty last line too many": ({"a": "x\ny"}, "*** Update File: a\n@@\n-y\n-\n+z\n", {"a": "x\nz\n"}),
    "CRLF": ({"a": "x\r\ny\r\n"}, "*** Update File: a\n@@\n-y\n+z\n", {"a": "x\r\nz\r\n"}),
    "several files": (
        {"a": "x\n", "b": "y\n"},
        "*** Update File: a\n@@\n-x\n+X\n*** Delete File: b\n*** Add File: c\n+z\n",
        {"a": "X\n", "c": "z\n"},
    ),
    "an environment": ({}, "*** Environment ID: x\n*** Add File: a\n+x\n", {"a": "x\n"}),
}  # fmt: skip


@pytest.mark.parametrize(("before", "body", "after"), WORKS.values(), ids=WORKS)
async def test_a_patch_is_applied_as_models_write_it(before: Files, body: str, after: Files, tmp_path: Path) -> None:
    """Issue 7, 3: add, delete, update, move, context, end of file, four passes."""
    lay(tmp_path, before)
    end = await applied(tmp_path, BEGIN + body + END)
    assert end["success"], end["output"]
    assert end["output"].startswith("Success. Updated the following files:\n")
    assert tree(tmp_path) == after


@pytest.mark.parametrize(
    "patch",
    [
        f"<<EOF\n{BEGIN}*** Add File: a\n+x\n{END}\nEOF",
        f"<<'EOF'\n{BEGIN}*** Add File: a\n+x\n{END}\nEOF\n",
        f'<<"EOF"\n{BEGIN}*** Add File: a\n+x\n{END}\nEOF\n',
        f"\n  *** Begin Patch  \n *** Add File: a\n+x\n  {END}  \n",
    ],
    ids=["bare", "single", "double", "blanks"],
)
async def test_a_patch_that_is_wrapped_is_unwrapped(patch: str, tmp_path: Path) -> None:
    assert (await applied(tmp_path, patch))["output"] == "Success. Updated the following files:\nA a"
    assert tree(tmp_path) == {"a": "x\n"}


async def test_a_shell_that_calls_apply_patch_applies_one(tmp_path: Path) -> None:
    """A patch is also accepted as a heredoc to a program of that name."""
    line = f"apply_patch <<'EOF'\n{BEGIN}*** Add File: a\n+x\n{END}\nEOF\n"
    async with start_session(call("shell", {"command": ["bash", "-lc", line]}), "Done.", cwd=str(tmp_path)) as session:
        await soon(session.root.message("go"))
    assert tree(tmp_path) == {"a": "x\n"}


REFUSED: dict[str, tuple[str, str]] = {
    "no such lines": ("*** Update File: a\n@@\n-nope\n+z\n", "Failed to find expected lines in a:\nnope"),
    "no such context": ("*** Update File: a\n@@ nothing\n-x\n+z\n", "Failed to find context 'nothing' in a"),
    "no such file": ("*** Update File: none\n@@\n-x\n+z\n", "none"),
    "nothing to delete": ("*** Delete File: none\n", "none"),
    "a directory": ("*** Delete File: d\n", "directory"),
    "in the wrong order": ("*** Update File: a\n@@\n-y\n+Y\n@@\n-x\n+X\n", "Failed to find expected lines in a"),
    "an empty update": ("*** Update File: a\n", "invalid hunk at line 2, "),
    "no hunk": ("*** Frob File: a\n", "invalid hunk at line 2, "),
    "the last of three": ("*** Update File: a\n@@\n-x\n+z\n*** Delete File: d/f\n*** Delete File: none\n", "none"),
    "above": ("*** Add File: ../out\n+x\n", "../out"),
    "above in the middle": ("*** Add File: d/../../out\n+x\n", "out"),
    "absolute": ("*** Add File: /tmp/out\n+x\n", "/tmp/out"),
    "a NUL": ("*** Add File: b\0c\n+x\n", "NUL"),
    "moved out": ("*** Update File: a\n*** Move to: ../out\n@@\n-x\n+X\n", "../out"),
    "a link's directory": ("*** Add File: link/new\n+x\n", "link"),
    "a link": ("*** Delete File: one\n", "link"),
    "protected": ("*** Add File: .git/hooks/pre-commit\n+x\n", ".git"),
    "protected, in capitals": ("*** Add File: .GIT/config\n+x\n", ".GIT"),
    "protected file": ("*** Add File: .mcp.json\n+{}\n", ".mcp.json"),
}


@pytest.mark.parametrize(("body", "word"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_applied_whole_changes_nothing(body: str, word: str, tmp_path: Path) -> None:
    """A23: all or nothing; the model reads why."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    lay(outside, {"f": "host\n"})
    lay(inside, {"a": "x\ny\n", "d/f": "z\n"})
    (inside / "link").symlink_to(outside)
    (inside / "one").symlink_to(outside / "f")
    before = tree(tmp_path)
    end = await applied(inside, BEGIN + body + END)
    assert not end["success"]
    refused = json.loads(end["output"])
    assert (refused["ok"], refused["code"]) == (False, "invalid_params")
    assert word in refused["reason"]
    assert tree(tmp_path) == before
    assert (inside / "one").is_symlink()


@pytest.mark.parametrize(("patch", "word"), [("hello", "Begin Patch"), (BEGIN + "*** Add File: a\n+x\n", "End Patch")])
async def test_what_is_no_patch_says_so(patch: str, word: str, tmp_path: Path) -> None:
    end = await applied(tmp_path, patch)
    assert not end["success"]
    assert "invalid patch: " in end["output"]
    assert word in end["output"]


async def test_an_empty_patch_modifies_nothing(tmp_path: Path) -> None:
    assert (await applied(tmp_path, BEGIN + END))["output"] == "No files were modified."
