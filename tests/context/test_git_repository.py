"""What a few files say of a repository; git itself is the oracle, and is never asked by us."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tertulia.context.git_repository import find_repository, git_state


def git(place: Path, *arguments: str) -> str:
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@x"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_CONFIG_GLOBAL": "/dev/null", **names}
    run = subprocess.run(["git", *arguments], cwd=place, env=environment, capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repo"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    git(place, "commit", "-q", "--allow-empty", "-m", "one")
    return place


def test_a_branch_a_commit_and_a_worktree_are_told_apart(repository: Path, tmp_path: Path) -> None:
    """Issue 9: git state."""
    assert git_state(str(repository)) == "branch main"
    git(repository, "checkout", "-q", "-b", "feature/é-1")
    assert git_state(str(repository)) == "branch feature/é-1"
    git(repository, "checkout", "-q", "--detach")
    assert git_state(str(repository)) == f"no branch, at commit {git(repository, 'rev-parse', 'HEAD')[:12]}"
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert find_repository(str(tmp_path / "tree")) == str(tmp_path / "tree")
    assert git_state(str(tmp_path / "tree")) == "branch other"


def test_what_is_under_way_is_said(repository: Path) -> None:
    (repository / ".git/MERGE_HEAD").write_text("x")
    (repository / ".git/rebase-merge").mkdir()
    (repository / ".git/rebase-apply").mkdir()
    assert git_state(str(repository)) == "branch main, a merge is under way, a rebase is under way"


def test_the_nearest_repository_counts(repository: Path, tmp_path: Path) -> None:
    below = repository / "a/b"
    below.mkdir(parents=True)
    assert find_repository(str(below)) == str(repository)
    (below / ".git").mkdir(0o1555)
    assert find_repository(str(below)) == str(repository), "a stub of the sandbox is no repository"
    (below / ".git").chmod(0o755)
    assert find_repository(str(below)) == str(below)
    assert find_repository(str(tmp_path / "nowhere")) is None


@pytest.mark.parametrize(
    "head",
    [b"", b"ref: refs/heads/a b", b"ref: refs/heads/x\ny", b"ref: ../../etc/passwd", b"root:x:0:0:\n", b"\xff" * 50,
     b"g" * 40, b"ref: refs/heads/" + b"x" * 300, b"x" * 1_000_000],
    ids=lambda head: repr(head[:20]),
)  # fmt: skip
def test_a_file_that_says_something_else_is_never_shown(repository: Path, head: bytes) -> None:
    """HARDENING: a repository is written by strangers."""
    (repository / ".git/HEAD").write_bytes(head)
    assert git_state(str(repository)) == "unknown"


def test_links_and_pipes_are_not_followed(repository: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ref: refs/heads/secret")
    head = repository / ".git/HEAD"
    head.unlink()
    head.symlink_to(secret)
    assert git_state(str(repository)) == "unknown"
    head.unlink()
    os.mkfifo(head)
    assert git_state(str(repository)) == "unknown"
    head.unlink()
    assert git_state(str(repository)) == "unknown"
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").symlink_to(repository / ".git")
    assert find_repository(str(linked)) is None
    assert git_state(str(linked)) == "unknown"


@pytest.mark.parametrize("expected", ["", "hello", "gitdir: ", "gitdir: /nowhere", "gitdir: a\0b"])
def test_a_file_that_points_nowhere_tells_nothing(tmp_path: Path, expected: str) -> None:
    (tmp_path / ".git").write_text(expected)
    assert git_state(str(tmp_path)) == "unknown"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_repository_of_somebody_else_above_is_not_ours(tmp_path: Path) -> None:
    """HARDENING: anybody can write to a temporary directory."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / ".git").mkdir()
    assert find_repository(str(work)) == str(tmp_path)
    os.chown(tmp_path / ".git", 12345, 12345)
    assert find_repository(str(work)) is None
    os.chown(work, 12345, 12345)
    assert find_repository(str(work)) == str(tmp_path)
