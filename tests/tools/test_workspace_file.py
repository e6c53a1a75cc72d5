"""A text of the workspace: what it gives; what it refuses is told with conv_create in tests/delegation."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.tools import workspace_file
from tertulia.tools.workspace_file import read_start, read_text_inside


async def test_a_text_is_read_whole_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("ä" * 50)
    assert await read_text_inside(str(tmp_path), "a.md", 100, "field") == "ä" * 50
    with pytest.raises(InvalidParamsError, match=r"field 'a\.md' is larger than 99 bytes"):
        await read_text_inside(str(tmp_path), "a.md", 99, "field")


async def test_the_workspace_itself_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.md").write_text("inside")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert await read_text_inside(str(tmp_path / "link"), "a.md", 100, "field") == "inside"


async def test_the_loop_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without blocking: a disk that does not answer holds a thread, and nobody else."""
    threads: list[int] = []
    real = workspace_file._read

    def watched(*args: str | int) -> bytes:
        threads.append(threading.get_ident())
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(workspace_file, "_read", watched)
    (tmp_path / "a.md").write_text("text")
    await read_text_inside(str(tmp_path), "a.md", 100, "field")
    assert threads
    assert threading.get_ident() not in threads


async def test_a_link_that_takes_the_place_of_a_folder_meanwhile_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No symlink out, also not one that comes between the look and the reading."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "docs").mkdir(parents=True)
    outside.mkdir()
    (inside / "docs" / "a.md").write_text("mine")
    (outside / "a.md").write_text("secret")
    real = os.path.realpath

    def swapping(path: str) -> str:
        found = real(path)
        if found.endswith("a.md"):
            (inside / "docs").rename(inside / "old")
            (inside / "docs").symlink_to(outside)
        return found

    monkeypatch.setattr(os.path, "realpath", swapping)
    with pytest.raises(InvalidParamsError, match="cannot be read"):
        await read_text_inside(str(inside), "docs/a.md", 100, "field")


async def test_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "folder").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    await read_text_inside(str(tmp_path), "a.md", 100, "field")
    for path in ("folder", "nowhere", "a.md/deeper"):
        with pytest.raises(InvalidParamsError):
            await read_text_inside(str(tmp_path), path, 100, "field")
    assert len(os.listdir("/proc/self/fd")) == before


async def test_what_commands_are_not_shown_is_not_read_either(tmp_path: Path) -> None:
    """A workspace may be somebody's home: keys lie in it. Whatever link leads there."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").write_text("a key")
    (tmp_path / "innocent.md").symlink_to(tmp_path / ".ssh" / "id")
    (tmp_path / ".ssh2").write_text("no key")
    hidden = [str(tmp_path / ".ssh")]
    for path in (".ssh/id", "innocent.md", "x/../.ssh/id"):
        assert await read_text_inside(str(tmp_path), path, 100, "field") == "a key"
        with pytest.raises(InvalidParamsError, match="secrets"):
            await read_text_inside(str(tmp_path), path, 100, "field", hidden)
    assert await read_text_inside(str(tmp_path), ".ssh2", 100, "field", hidden) == "no key"


def test_a_beginning_is_read_and_whether_there_is_more(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("abcdef")
    assert read_start(str(tmp_path), "a.md", 6, "field") == (b"abcdef", False)
    assert read_start(str(tmp_path), "a.md", 5, "field") == (b"abcde", True)
    with pytest.raises(InvalidParamsError, match=r"field '\.\./a\.md' is not inside"):
        read_start(str(tmp_path / "x"), "../a.md", 5, "field")
