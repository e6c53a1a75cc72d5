"""Own workspaces and merges in a repository with files of a real Git LFS (the Debian package git-lfs)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.testing import ScriptedModel, call, say
from tests.sandbox.confined import need
from tests.session.worktrees.repository import Repository, committed

PICTURE = bytes(range(256)) * 40


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """One that has a picture in LFS: its content in the files, a pointer in the commit."""
    if shutil.which("git-lfs", path=os.environ["PATH"]) is None:
        pytest.skip("no git-lfs on the PATH: `make packages` installs it")
    need("bubblewrap")
    repository = committed(tmp_path / "repo")
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.png")
    (repository.top / "picture.png").write_bytes(PICTURE)
    repository.commit("with a picture")
    assert repository.tree("HEAD")["picture.png"].startswith("100644 version https://git-lfs.github.com/spec/v1")
    assert repository.git("lfs", "ls-files").endswith("* picture.png")
    return repository


@pytest.mark.parametrize("mode", ["apply", "commit"])
async def test_a_worktree_has_pointers_and_a_merge_leaves_them_out(repository: Repository, mode: Any) -> None:
    script = "head -c 7 picture.png; printf changed > picture.png; printf new > other.png; echo more >> a.txt"
    model = ScriptedModel([say("", call("shell", {"command": ["sh", "-c", script]})), "Done."])
    settings = tertulia.Settings(model=model, cwd=str(repository.top), approval_policy="never")
    async with tertulia.Session.start(settings) as session:
        child = await session.open(workspace="worktree")
        reply = await child.message("Work.")
        assert reply.worktree is not None
        assert sorted(reply.worktree.left_out) == ["other.png (filter lfs)", "picture.png (filter lfs)"]
        assert set(repository.git("diff", "--name-only", "HEAD", reply.worktree.commit).splitlines()) == {"a.txt"}
        answer = await child.merge(mode=mode)
        assert [file.path for file in answer.files] == ["a.txt"]
        assert {left.path for left in answer.left_out} == {"other.png", "picture.png"}
    assert (repository.top / "a.txt").read_text() == "one\ntwo\nthree\nmore\n"
    assert (repository.top / "picture.png").read_bytes() == PICTURE
    assert not (repository.top / "other.png").exists()
    assert repository.git("status", "--porcelain") == ("" if mode == "commit" else " M a.txt")
    assert repository.git("lfs", "ls-files").endswith("* picture.png")
    assert "OK" in repository.git("lfs", "fsck")


async def test_a_pointer_that_changes_in_a_commit_of_the_childs_own_is_not_merged(repository: Repository) -> None:
    """A merge would write a pointer where the user has the content."""
    settings = tertulia.Settings(model=ScriptedModel(["Done."], repeat=True), cwd=str(repository.top))
    async with tertulia.Session.start(settings) as session:
        child = await session.open(workspace="worktree")
        assert child.details.worktree is not None
        place = Path(child.details.worktree.path)
        (place / "picture.png").write_bytes(b"another")
        (place / "a.txt").write_text("changed\n")
        repository.git("add", "-A", at=place)
        repository.git("commit", "-q", "-m", "with another picture", at=place)
        assert repository.tree(child.details.worktree.branch)["picture.png"].startswith("100644 version")
        answer = await child.merge()
        assert [file.path for file in answer.files] == ["a.txt"]
        assert [left.path for left in answer.left_out] == ["picture.png"]
    assert (repository.top / "picture.png").read_bytes() == PICTURE
