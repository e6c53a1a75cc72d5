"""Which files of a protected place are read, how far, and what is known of them the second time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tertulia.sandbox.mounts.stubs import hold_stub
from tertulia.sandbox.protected import program_files
from tertulia.sandbox.protected.program_files import PlaceSnapshot, Role, SavedFile, open_folder


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_PATH)
    yield fd
    os.close(fd)


def look(root: int, place: str, role: Role = "tree", known: Mapping[str, SavedFile] | None = None) -> PlaceSnapshot:
    return PlaceSnapshot(root, place, role, known or {})


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_of_a_repository_what_starts_programs_and_the_state_of_the_rest(root: int, tmp_path: Path) -> None:
    starting = (
        "config", "config.worktree", "info/attributes", "hooks/pre-push", "hooks/sub/x", "modules/a/config",
        "modules/with/slash/hooks/post-checkout", "modules/a/modules/b/config", "worktrees/w/commondir",
    )  # fmt: skip
    data = ("HEAD", "index", "packed-refs", "refs", "refs/heads", "refs/heads/deep")
    for name in (*starting, "HEAD", "index", "packed-refs", "modules/a/HEAD", "modules/with/slash/HEAD"):
        write(tmp_path / ".git" / name)
    for name in ("modules/a/modules/b/HEAD", "refs/heads/deep/main", "objects/aa/bb", "hooks/x.sample", "logs/HEAD"):
        write(tmp_path / ".git" / name)
    files = look(root, ".git", "store").files
    assert {path for path, file in files.items() if file.starts} == {f".git/{name}" for name in starting}
    assert {path for path, file in files.items() if not file.starts} == {".git", *(f".git/{name}" for name in data)}


def test_links_are_kept_as_links_and_what_is_no_file_is_not_read(root: int, tmp_path: Path) -> None:
    write(tmp_path / "outside" / "secret", "canary")
    write(tmp_path / ".vscode" / "a", "text")
    (tmp_path / ".vscode" / "to").symlink_to("../outside")
    os.mkfifo(tmp_path / ".vscode" / "pipe")
    seen = look(root, ".vscode")
    assert {path: file.content for path, file in seen.files.items()} == {
        ".vscode": None,
        ".vscode/a": b"text",
        ".vscode/to": b"../outside",
        ".vscode/pipe": None,
    }
    assert not seen.complete
    (tmp_path / "linked").symlink_to("outside")
    assert look(root, "linked/secret").files == {}
    assert look(root, "linked").files["linked"].content == b"outside"


def test_what_is_missing_or_a_stub_is_not_there(root: int, tmp_path: Path) -> None:
    """A5"""
    assert look(root, ".mcp.json").files == {}
    fd = os.open(tmp_path, os.O_RDONLY)
    stub = hold_stub(fd, ".mcp.json")
    assert stub is not None
    assert look(root, ".mcp.json").files == {}
    stub.release()
    os.close(fd)


def test_a_file_that_did_not_change_is_not_read_again(root: int, tmp_path: Path) -> None:
    write(tmp_path / ".mcp.json", "{}")
    first = look(root, ".mcp.json").files[".mcp.json"]
    assert first.state is None, "it is too recent to be known by its state"
    status = os.lstat(tmp_path / ".mcp.json")
    state = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    while (seen := look(root, ".mcp.json").files[".mcp.json"]).state is None:
        pass
    assert seen.state == state
    known = {".mcp.json": SavedFile(state, seen.mode, b"from memory", starts=True)}
    assert look(root, ".mcp.json", known=known).files[".mcp.json"].content == b"from memory"


@pytest.mark.parametrize(("limit", "most"), [("MAX_FILES", 2), ("MAX_BYTES", 5), ("MAX_FILE_BYTES", 3)])
def test_more_than_is_kept_is_not_complete(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """S3"""
    for name in ("a", "b"):
        write(tmp_path / ".idea" / name, "text")
    assert look(root, ".idea").complete
    monkeypatch.setattr(program_files, limit, most)
    assert not look(root, ".idea").complete


def test_a_directory_that_cannot_be_opened_is_not_complete(root: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: fail closed"""
    monkeypatch.setattr(program_files, "LONGEST_PATH", 7)
    os.makedirs(f"/proc/self/fd/{root}/.idea/deep")
    assert not look(root, ".idea").complete


def test_no_link_is_followed_on_the_way(root: int, tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    with open_folder(root, "real/in") as folder:
        assert folder is not None
    with open_folder(root, "link/in") as folder:
        assert folder is None
