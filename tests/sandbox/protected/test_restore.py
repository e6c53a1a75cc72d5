"""Putting a file back: whole, with its mode, nowhere else; and copies that do not grow without end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tertulia.sandbox.protected import restore as acts
from tertulia.sandbox.protected.program_files import SavedFile
from tertulia.sandbox.protected.restore import keep_copy, remove_empty, restore_file


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "place").mkdir()
    fd = os.open(tmp_path, os.O_PATH)
    yield fd
    os.close(fd)


def saved_file(content: bytes, mode: int = stat.S_IFREG | 0o640) -> SavedFile:
    return SavedFile(None, mode, content, starts=True)


def test_a_file_comes_back_with_its_content_mode_and_directories(root: int, tmp_path: Path) -> None:
    (tmp_path / "place" / "a").write_text("a file where a directory was")
    restore_file(root, "place", "place/a/b/c", saved_file(b"text"))
    assert (tmp_path / "place" / "a" / "b" / "c").read_bytes() == b"text"
    assert (tmp_path / "place" / "a" / "b" / "c").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "place" / "a" / "b") == ["c"]


def test_a_directory_in_its_place_is_moved_aside_with_all_that_is_in_it(root: int, tmp_path: Path) -> None:
    (tmp_path / "place" / "c").mkdir()
    (tmp_path / "place" / "c" / "x").write_text("x")
    restore_file(root, "place", "place/c", saved_file(b"text"))
    assert (tmp_path / "place" / "c").read_bytes() == b"text"
    assert [path.read_text() for path in tmp_path.glob("place/c.*/x")] == ["x"]


def test_a_link_comes_back_as_a_link(root: int, tmp_path: Path) -> None:
    restore_file(root, "place", "place/l", saved_file(b"there", stat.S_IFLNK | 0o777))
    assert os.readlink(tmp_path / "place" / "l") == "there"


@pytest.mark.parametrize("was", [None, saved_file(b"text")])
def test_a_place_that_was_replaced_by_a_link_is_not_entered(root: int, tmp_path: Path, was: SavedFile | None) -> None:
    """S2"""
    (tmp_path / "place").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c").write_text("not ours")
    (tmp_path / "place").symlink_to("elsewhere")
    for path in ("place/c", "place/d/c"):
        with pytest.raises(OSError, match="was replaced"):
            restore_file(root, "place", path, was)
    assert (tmp_path / "elsewhere" / "c").read_text() == "not ours"


def test_nothing_is_left_behind_where_it_fails(root: int, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"):
        restore_file(root, "place", f"place/{'x' * 250}", saved_file(b""))
    with pytest.raises(OSError, match="File name too long"):
        restore_file(root, "place", f"place/{'x' * 300}", None)
    assert os.listdir(tmp_path / "place") == []


def test_empty_directories_go_up_to_the_place_and_others_stay(root: int, tmp_path: Path) -> None:
    (tmp_path / "place" / "a" / "b").mkdir(parents=True)
    (tmp_path / "place" / "kept").touch()
    remove_empty(root, "place", "place/a/b/c")
    assert os.listdir(tmp_path / "place") == ["kept"]
    (tmp_path / "place" / "kept").unlink()
    remove_empty(root, "place", "place/x")
    assert not (tmp_path / "place").exists()


def test_copies_are_private_and_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E7"""
    monkeypatch.setattr(acts, "MAX_COPIES", 3)
    folder = str(tmp_path / "copies")
    made = [keep_copy(folder, f"a/../{number} ü", b"x") for number in range(5)]
    assert sorted(os.listdir(folder)) == sorted(os.path.basename(str(path)) for path in made[2:])
    assert {os.lstat(str(path)).st_mode & 0o777 for path in made[2:]} == {0o600}
    monkeypatch.setattr(acts, "MAX_COPIED_BYTES", 2)
    keep_copy(folder, "y", b"yy")
    assert len(os.listdir(folder)) == 1
    assert keep_copy(str(tmp_path / "copies" / os.listdir(folder)[0]), "z", b"") is None
