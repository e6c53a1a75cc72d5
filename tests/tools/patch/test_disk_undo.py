"""What the disk program leaves when it is killed, cleared away and put back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tertulia.tools.patch.disk_program import temporary_names
from tertulia.tools.patch.disk_undo import (
    FileShape,
    PlannedFile,
    clear_away,
    open_root,
    put_back,
    remove_folders,
    stages,
)

NEW_NAME, OLD_NAME = temporary_names("1234", 0)


def shape(content: bytes, kind: str = "file", mode: int | None = None) -> FileShape:
    return FileShape(kind, hashlib.sha256(content).hexdigest(), mode)  # type: ignore[arg-type]


CHANGED = PlannedFile("deep/file", shape(b"old", mode=0o600), shape(b"new"))
GONE = PlannedFile("deep/file", shape(b"old", mode=0o600), None)


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    return tmp_path / "deep"


@pytest.mark.parametrize("file", [CHANGED, GONE])
def test_a_file_that_has_only_its_second_name_gets_its_own_again(tmp_path: Path, deep: Path, file: PlannedFile) -> None:
    """A file that was to go; or, on a disk without second names, one between its old and its new content."""
    (deep / OLD_NAME).write_bytes(b"old")
    (deep / NEW_NAME).write_bytes(b"new")
    with open_root(str(tmp_path)) as root:
        clear_away(root, [file], "1234", undoing=True)
        assert stages(root, [file]) == {"deep/file": "old"}
    assert [path.name for path in deep.iterdir()] == ["file"]


def test_of_what_is_done_the_old_files_go(tmp_path: Path, deep: Path) -> None:
    (deep / OLD_NAME).write_bytes(b"old")
    (deep / ".tertulia-old-5678-0").write_bytes(b"of another")
    with open_root(str(tmp_path)) as root:
        clear_away(root, [GONE], "1234", undoing=False)
        remove_folders(root, ["deep"])
    assert [path.name for path in deep.iterdir()] == [".tertulia-old-5678-0"]


def test_a_file_is_put_back_with_its_permissions(tmp_path: Path, deep: Path) -> None:
    with open_root(str(tmp_path)) as root:
        put_back(root, [GONE], {"deep/file": b"old"}, "1234")
    assert (deep / "file").read_bytes() == b"old"
    assert (deep / "file").stat().st_mode & 0o777 == 0o600


def test_what_is_neither_is_known(tmp_path: Path, deep: Path) -> None:
    run = PlannedFile("run", shape(b"x"), shape(b"x", "executable"))
    (tmp_path / "run").write_bytes(b"x")
    with open_root(str(tmp_path)) as root:
        assert stages(root, [CHANGED, run]) == {"deep/file": "other", "run": "old"}
        (tmp_path / "run").chmod(0o755)
        (deep / "file").mkdir()
        assert stages(root, [CHANGED, run]) == {"deep/file": "other", "run": "new"}
        (deep / "file").rmdir()
        deep.rmdir()
        deep.symlink_to("/etc")
        clear_away(root, [CHANGED], "1234", undoing=True)
        assert stages(root, [CHANGED]) == {"deep/file": "other"}
