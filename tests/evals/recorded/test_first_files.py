"""Issue 26 (4): the files of a stored session, out of its checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.evals.recorded import first_files
from tertulia.evals.recorded.first_files import (
    FileChange,
    FirstFiles,
    WatchedFolder,
    changes_of,
    compare,
    copy_changed,
    copy_given_files,
    remove_leading_out,
)
from tertulia.evals.recorded.rerun import places_apart
from tertulia.session.worktrees.held_file import hold_file
from tests.session.checkpoints.scene import Scene


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


def test_a_link_is_followed_through_other_links(tmp_path: Path) -> None:
    """`up/../../out` goes up from where `up` leads, which its name does not tell."""
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "up").symlink_to("../..")
    (top / "chained").symlink_to("a/b/up/../out")
    (top / "same").symlink_to("a/b/up/a")
    assert remove_leading_out(top) == ["chained"]


def test_a_folder_that_the_copy_would_lie_in_is_refused(tmp_path: Path) -> None:
    """It would be copied into itself without end; a link to it is no way around."""
    (tmp_path / "given").mkdir()
    (tmp_path / "link").symlink_to("given")
    target = tmp_path / "given" / "tmp" / "copy"
    for folder in (tmp_path / "given", tmp_path / "link"):
        with pytest.raises(InvalidParamsError, match="name a folder below it"):
            copy_given_files(folder, target)
    assert list((tmp_path / "given").iterdir()) == []


async def test_the_store_is_held_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no other process removes the objects meanwhile; where one did before, that is what is said."""
    scene = Scene(tmp_path)
    scene.write("a", "one")
    window = await scene.begin()
    scene.write("a", "two")
    window = await scene.end(window)
    assert window.after is not None
    files = FirstFiles(scene.shadow.folder, str(scene.top), window.before, window.after, ())
    free: list[bool] = []
    list_tree = first_files.list_tree

    async def watched(git: first_files.Git, tree: str) -> first_files.TreeFiles:
        number = hold_file(files.store / "lock")
        free.append(number is not None)
        if number is not None:
            os.close(number)
        return await list_tree(git, tree)

    monkeypatch.setattr(first_files, "list_tree", watched)
    assert await changes_of(files, scene.variables) == [FileChange("a", "changed")]
    await copy_changed(files, tmp_path / "solution", scene.variables)
    assert (tmp_path / "solution" / "a").read_text() == "two"
    assert free == [False] * 4
    gone = FirstFiles(files.store, files.workspace, "0" * 40, "0" * 40, ())
    with pytest.raises(NotFoundError, match="removed meanwhile"):
        await changes_of(gone, scene.variables)


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


def test_a_name_that_is_not_utf_8_is_spelled(tmp_path: Path) -> None:
    """A page, JSON and TOML cannot have it otherwise."""
    name = os.fsdecode(b"n\xff")
    assert compare({}, {name: ("100644", "x")}) == [FileChange("n\\xff", "added")]
    (tmp_path / name).symlink_to("/etc")
    assert remove_leading_out(tmp_path) == ["n\\xff"]


def test_a_directory_is_masked_only_where_the_copy_lies_elsewhere(tmp_path: Path) -> None:
    copy = tmp_path / "tmp" / "copy"
    assert places_apart(str(tmp_path / "project"), copy) == [str(tmp_path / "project")]
    assert places_apart(str(tmp_path), copy) == []
    assert places_apart(str(copy / "sub"), copy) == []
    assert places_apart("", copy) == []
