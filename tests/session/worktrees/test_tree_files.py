"""Copies of a tree's files: what a command swaps for a link is not followed, whenever it does so."""

from __future__ import annotations

import os
from pathlib import Path

from tertulia.session.worktrees.tree_files import copy_files


def test_no_link_is_followed_at_any_step(tmp_path: Path) -> None:
    """Git had listed plain files and directories; by now a command has put links to a secret in their place."""
    tree, secrets, copies = tmp_path / "tree", tmp_path / "secrets", tmp_path / "copies"
    for folder in (tree, secrets, copies):
        folder.mkdir()
    (secrets / "key").write_text("canary")
    (tree / "folder").symlink_to(secrets)
    (tree / "file").symlink_to(secrets / "key")
    os.mkfifo(tree / "pipe")
    found = copy_files(tree, [b"folder/key", b"file", b"pipe", b"none", b"none/below"], {}, copies)
    assert [(file.path, file.mode) for file in found.files] == [(b"file", b"120000")]
    assert found.absent == [b"folder/key", b"none", b"none/below"]
    assert [str(entry) for entry in found.left_out] == ["pipe (not a plain file)"]
    assert [path.read_text() for path in copies.iterdir()] == [str(secrets / "key")]


def test_content_modes_and_reasons(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    tree = tmp_path / "tree"
    (tree / "sub" / "module").mkdir(parents=True)
    (tree / "sub" / "run").write_text("run")
    (tree / "sub" / "run").chmod(0o755)
    (tree / "plain").write_text("plain")
    (tree / "big.bin").write_text("content")
    paths = [b"sub/run", b"plain", b"big.bin", b"sub/module", b"sub/module/", b"plain"]
    found = copy_files(tree, paths, {b"big.bin": "filter lfs"}, copies)
    contents = {file.path: (file.mode, (copies / file.name).read_text()) for file in found.files}
    assert contents == {b"sub/run": (b"100755", "run"), b"plain": (b"100644", "plain")}
    assert found.submodules == [b"sub/module"]
    assert sorted(map(str, found.left_out)) == ["big.bin (filter lfs)", "sub/module/ (a repository of its own)"]
