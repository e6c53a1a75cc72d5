"""`read_file`, read through the real sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tertulia.tools.editor import EditorView
from tertulia.tools.files.specs import DEFAULT_LINES
from tertulia.tools.read_file import ReadFile
from tests.tables import Large
from tests.tools.test_editor import Open
from tests.tools.workbench import Workbench, code, workbench


def with_editor(bench: Workbench, **texts: Any) -> Open:
    editor = Open(**texts)
    bench.registry.add(ReadFile(EditorView(bench.place, editor)))
    return editor


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "a, as saved: lines 1 to 3 of 3\n1\n2\n3"),
        ({"line": 2, "limit": 1}, "a, as saved: lines 2 to 2 of 3\n2"),
        ({"line": None, "limit": None}, "a, as saved: lines 1 to 3 of 3\n1\n2\n3"),
        ({"line": 9}, "a, as saved: 3 lines"),
    ],
)
async def test_the_lines_that_were_asked_for_come_back(tmp_path: Path, arguments: Any, expected: str) -> None:
    """Issue 10 (4): the text as it is, so that a patch can be made from it."""
    async with workbench(tmp_path) as bench:
        with_editor(bench, a="1\n2\n3\n")
        (bench.root / "a").write_text("1\n2\n3\n")
        assert (await bench.call("read_file", {"path": "a", **arguments})).text == expected


async def test_a_long_file_comes_in_pieces(tmp_path: Path) -> None:
    """Issue 10 (4): bounded."""
    async with workbench(tmp_path) as bench:
        with_editor(bench)
        (bench.root / "a").write_text("x\n" * (DEFAULT_LINES + 1))
        text = (await bench.call("read_file", {"path": "a"})).text
        assert text.startswith(f"a, as saved: lines 1 to {DEFAULT_LINES:,} of {DEFAULT_LINES + 1:,}\n")
        assert text.count("\n") == DEFAULT_LINES


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("missing", None, "not_found"),
        ("latin", b"\xe9", "invalid_params"),
        ("binary", b"a\0b", "invalid_params"),
        ("huge", Large(lambda: b"x" * (17 * 1024 * 1024)), "invalid_params"),
        ("../outside/a", b"a", "invalid_params"),
    ],
)
async def test_what_is_no_text_of_the_workspace_is_refused(
    tmp_path: Path, name: str, content: bytes | None, expected: str
) -> None:
    """Issue 10 (4), HARDENING A1."""
    async with workbench(tmp_path) as bench:
        with_editor(bench)
        if content is not None:
            (bench.root / name).write_bytes(content)
        assert code(await bench.call("read_file", {"path": name})) == expected


async def test_what_only_the_editor_can_read_is_shown_as_it_reads_it(tmp_path: Path) -> None:
    """Issue 10 (4): it knows the encoding."""
    async with workbench(tmp_path) as bench:
        with_editor(bench, latin="é\n")
        (bench.root / "latin").write_bytes(b"\xe9\n")
        assert (await bench.call("read_file", {"path": "latin"})).text.endswith("\né")
