"""Issue 26 (4): the files of a stored session, out of its checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.evals.recorded.first_files import FileChange, WatchedFolder, compare, copy_given_files, remove_leading_out
from tertulia.evals.recorded.rerun import places_apart


def test_links_that_lead_out_and_what_is_no_file_are_removed(tmp_path: Path) -> None:
    """A copy of files must not be a way to write somewhere else."""
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (top / "a").write_text("a")
    for name, target in (("in", "a"), ("sub/up", "../a"), ("out", "../other"), ("etc", "/etc"), ("sub/dir", "../..")):
        (top / name).symlink_to(target)
    os.mkfifo(top / "pipe")
    assert remove_leading_out(top) == ["etc", "out", "pipe", "sub/dir"]
    assert sorted(path.relative_to(top).as_posix() for path in top.rglob("*")) == ["a", "in", "sub", "sub/up"]


def test_files_that_a_user_gives_come_without_their_repository(tmp_path: Path) -> None:
    source = tmp_path / "given"
    (source / ".git").mkdir(parents=True)
    (source / "a").write_text("a")
    assert copy_given_files(source, tmp_path / "copy") == []
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["a"]
    os.mkfifo(source / "pipe")
    with pytest.raises(InvalidParamsError, match="named pipe"):
        copy_given_files(source, tmp_path / "other")


async def test_a_watched_folder_says_what_has_changed_and_gets_nothing_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("changed", "removed", "same"):
        (folder / name).write_text(name)
    (folder / ".gitignore").write_text("ignored\n")
    watched = WatchedFolder(folder, tmp_path / "store", dict(os.environ))
    await watched.begin()
    (folder / "changed").write_text("otherwise")
    (folder / "removed").unlink()
    (folder / "added").write_text("x")
    (folder / "ignored").write_text("x")
    expected = [FileChange("added", "added"), FileChange("changed", "changed"), FileChange("removed", "removed")]
    assert await watched.changes() == expected
    assert not (folder / ".git").exists()


def test_a_changed_mode_is_a_change() -> None:
    assert compare({"a": ("100644", "x")}, {"a": ("100755", "x")}) == [FileChange("a", "changed")]


def test_a_directory_is_masked_only_where_the_copy_lies_elsewhere(tmp_path: Path) -> None:
    copy = tmp_path / "tmp" / "copy"
    assert places_apart(str(tmp_path / "project"), copy) == [str(tmp_path / "project")]
    assert places_apart(str(tmp_path), copy) == []
    assert places_apart(str(copy / "sub"), copy) == []
    assert places_apart("", copy) == []
