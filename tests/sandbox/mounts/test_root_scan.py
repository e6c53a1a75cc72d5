"""The look at a root: complete, repeated cheaply, and closed where nobody can look."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts import root_scan
from tertulia.sandbox.mounts.root_scan import RootScan, is_protected_name, named_stores
from tests.sandbox.confined import as_ordinary_user, ordinary_python
from tests.tables import each_row


def store(path: Path) -> None:
    for name in ("objects", "refs", "hooks"):
        (path / name).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")


@each_row("name", [".git", ".GIT", ".Mcp.json", ".claude.", ".g\u200cit", "\uff0egit"])
def test_a_name_is_protected_in_any_spelling(name: str) -> None:
    """A23"""
    assert is_protected_name(name)
    assert not is_protected_name(f"x{name}")


def test_s4_a_repository_without_a_working_tree_is_found_by_what_is_in_it(tmp_path: Path) -> None:
    """S4: as a whole; and the root itself may be one."""
    store(tmp_path / "deep" / "er.git")
    (tmp_path / "deep" / "objects").mkdir()
    assert [*RootScan(str(tmp_path)).look()] == ["deep/er.git"]
    store(tmp_path)
    assert [*RootScan(str(tmp_path)).look()] == [""]


def test_only_what_has_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: the second look costs little."""
    monkeypatch.setattr(root_scan, "_RECENT_NS", -(1 << 62))
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "left" / "out").mkdir(parents=True)
    look = RootScan(str(tmp_path), {"left"})
    assert [*look.look()] == []
    assert sorted(look.changed) == ["", "a/", "a/b/"]
    assert [*look.look()] == []
    assert look.changed == []
    (tmp_path / "a" / "b" / ".git").mkdir()
    assert [*look.look()] == ["a/b/.git"]
    assert look.changed == ["a/b/"]
    monkeypatch.setattr(root_scan, "_RECENT_NS", 1 << 40)
    fresh = RootScan(str(tmp_path), {"left"})
    for _ in range(2):
        # What has changed a moment ago may change again within the same tick of the clock.
        assert [*fresh.look()] == ["a/b/.git"]
        assert len(fresh.changed) == 3


def test_s3_what_is_in_the_directories_of_package_managers_is_looked_at_now_and_then(tmp_path: Path) -> None:
    """S3: by a whole look; in between, what is known of them is told again, and what is new at their top is seen."""
    (tmp_path / "node_modules" / "a" / ".git").mkdir(parents=True)
    look = RootScan(str(tmp_path))
    assert [*look.look()] == ["node_modules/a/.git"]
    (tmp_path / "node_modules" / "a" / "b" / ".git").mkdir(parents=True)
    (tmp_path / "node_modules" / "new" / ".git").mkdir(parents=True)
    assert sorted(look.look(everywhere=False)) == ["node_modules/a/.git", "node_modules/new/.git"]
    assert sorted(look.look()) == ["node_modules/a/.git", "node_modules/a/b/.git", "node_modules/new/.git"]


def test_s3_a_root_too_large_to_be_looked_at_refuses_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3: fails closed, and says what to do."""
    monkeypatch.setattr(root_scan, "MAX_FOLDERS", 10)
    for number in range(11):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(SandboxError, match=r"more than 10 directories.*name a smaller writable root"):
        list(RootScan(str(tmp_path)).look())


UNREADABLE = """
import sys
from tertulia.sandbox.mounts.root_scan import RootScan
look = RootScan(sys.argv[1])
print([*look.look()], sorted(look.closed))
"""


def test_s3_a_directory_that_cannot_be_read_is_found_as_a_whole(tmp_path: Path) -> None:
    """S3: a command could have taken the right to read it away."""
    python = ordinary_python()
    if python is None:
        pytest.skip("not root, or no Python that an ordinary user can run: nothing is unreadable for root")
    for folder in (tmp_path, *(above for above in tmp_path.parents if "pytest" in str(above))):
        folder.chmod(0o755)
    (tmp_path / "shut" / "mine" / ".git").mkdir(parents=True)
    (tmp_path / "shut").chmod(0o700)
    os.chown(tmp_path / "shut", 0, 0)
    ran = as_ordinary_user(python, "-c", UNREADABLE, str(tmp_path))
    assert ran.stdout == "['shut'] ['shut']\n", ran.stderr


def test_s1_startup_files_are_found_at_any_depth_and_are_no_protected_names(tmp_path: Path) -> None:
    """S1: they stay as they are where they exist; a patch may still name one that does not."""
    (tmp_path / "dotfiles" / ".vim").mkdir(parents=True)
    for name in (".bashrc", "dotfiles/.bashrc", "dotfiles/.npmrc", "dotfiles/.BashRC."):
        (tmp_path / name).touch()
    assert sorted(RootScan(str(tmp_path)).look()) == [
        ".bashrc",
        "dotfiles/.BashRC.",
        "dotfiles/.bashrc",
        "dotfiles/.vim",
    ]
    assert not is_protected_name(".bashrc")


def stores(place: Path) -> list[str]:
    return [os.path.normpath(named_store) for named_store in named_stores(str(place))]


def test_s4_a_worktree_leads_to_its_own_store_and_to_the_common_one(tmp_path: Path) -> None:
    """S4"""
    own = tmp_path / "main" / ".git" / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text(f"gitdir: {own}\n")
    assert stores(tmp_path / "w" / ".git") == [str(own), str(tmp_path / "main" / ".git")]
    (tmp_path / "w" / ".git").write_text("gitdir: ../main/.git/worktrees/w")
    assert stores(tmp_path / "w" / ".git") == [str(own), str(tmp_path / "main" / ".git")]
    # A store of its own is found as such; what it shares is not.
    assert stores(own) == [str(tmp_path / "main" / ".git")]


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir: \n"])
def test_what_names_nothing_leads_nowhere(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    (tmp_path / "commondir").write_text("")
    assert stores(tmp_path / ".git") == []
    assert stores(tmp_path / "missing") == []
    os.mkfifo(tmp_path / "pipe")
    assert stores(tmp_path / "pipe") == []
    assert stores(tmp_path) == []
