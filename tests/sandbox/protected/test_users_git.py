"""Whether a git of the user's is at work: by a process, by a lock that is let go; not by one in a sandbox."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tertulia.sandbox.protected import change_watch
from tertulia.sandbox.protected.change_watch import is_users_git_in

_NO_NEW_PRIVS = "import ctypes, os, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); os.execv(sys.argv[1], [sys.argv[1]])"


@pytest.fixture
def git(tmp_path: Path) -> Path:
    """A program of that name which waits for the end of its input, and says so first."""
    program = tmp_path / "git"
    shutil.copy(shutil.which("cat") or "/bin/cat", program)
    return program


def _runs(words: list[str], cwd: Path) -> subprocess.Popen[bytes]:
    running = subprocess.Popen(words, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(b"here\n")
    running.stdin.flush()
    running.stdout.readline()
    return running


def test_one_in_the_root_counts_and_one_elsewhere_does_not(tmp_path: Path, git: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "root2"
    root.mkdir()
    other.mkdir()
    assert not is_users_git_in(str(root), str(root))
    with _runs([str(git)], other) as running:
        assert not is_users_git_in(str(root), str(root))
        assert is_users_git_in(str(other), str(other))
        running.communicate()
    with _runs([str(git), "-", f"{root}/none"], tmp_path) as running:
        assert is_users_git_in(str(root), str(root))
        running.communicate()


def test_one_that_has_given_up_gaining_rights_is_a_command(tmp_path: Path, git: Path) -> None:
    assert ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 0, "these tests run where nothing tells the two apart"
    with _runs([sys.executable, "-c", _NO_NEW_PRIVS, str(git)], tmp_path) as running:
        assert not is_users_git_in(str(tmp_path), str(tmp_path))
        running.communicate()


def test_a_lock_counts_when_it_is_let_go_and_not_when_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "config.lock"
    lock.touch()
    monkeypatch.setattr(change_watch, "_pause", lambda: None)
    assert not is_users_git_in(str(tmp_path), str(tmp_path))
    monkeypatch.setattr(change_watch, "_pause", lambda: os.unlink(lock))
    assert is_users_git_in(str(tmp_path), str(tmp_path))
    assert not is_users_git_in(str(tmp_path), str(tmp_path / "missing"))
