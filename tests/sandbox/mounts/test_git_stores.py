"""Where a `.git` leads that is a file, and what worktrees share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.sandbox.mounts.git_stores import named_stores


def stores(place: Path) -> list[str]:
    return [os.path.normpath(each) for each in named_stores(str(place))]


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
