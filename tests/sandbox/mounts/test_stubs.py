"""Names that must not come into being, and what is left of their placeholders: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tertulia.errors import SandboxError
from tertulia.sandbox.mounts import stubs
from tertulia.sandbox.mounts.stubs import hold_stub, is_stub, sweep_stub_paths, sweep_stubs
from tests.deadlines import HANG_S
from tests.sandbox.confined import ROOT


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_a5_a_missing_name_is_there_while_it_is_held_and_gone_after(tmp_path: Path, parent: int) -> None:
    """A5"""
    stub = hold_stub(parent, ".idea")
    assert stub is not None
    assert (tmp_path / ".idea").is_dir()
    stub.release()
    assert list(tmp_path.iterdir()) == []


def test_a_stub_is_told_from_what_a_person_made(tmp_path: Path, parent: int) -> None:
    stub = hold_stub(parent, ".mcp.json")
    assert stub is not None
    assert is_stub(tmp_path / ".mcp.json")
    stub.release()
    assert not is_stub(tmp_path / ".mcp.json")
    (tmp_path / ".idea").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(".mcp.json")
    assert not any(is_stub(tmp_path / name) for name in (".idea", "file", "link"))


def test_the_last_of_several_removes_it(tmp_path: Path, parent: int) -> None:
    first, second = hold_stub(parent, ".idea"), hold_stub(parent, ".idea")
    assert first is not None
    assert second is not None
    first.release()
    assert (tmp_path / ".idea").is_dir()
    second.release()
    assert not (tmp_path / ".idea").exists()


def test_a_directory_of_the_users_own_stays_empty_or_not(tmp_path: Path, parent: int) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").touch()
    for name in (".vscode", ".git"):
        held = hold_stub(parent, name)
        assert held is not None
        held.release()
    assert sweep_stubs(str(tmp_path), [".vscode", ".git"]) == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".git", ".vscode", "config"]


def test_what_somebody_put_there_meanwhile_stays(tmp_path: Path, parent: int) -> None:
    stub = hold_stub(parent, ".idea")
    assert stub is not None
    if os.getuid() != 0:
        (tmp_path / ".idea").chmod(0o755)
    (tmp_path / ".idea" / "mine").touch()
    stub.release()
    assert (tmp_path / ".idea" / "mine").exists()


def test_a_umask_does_not_hide_what_is_a_stub(tmp_path: Path, parent: int) -> None:
    before = os.umask(0o077)
    try:
        stub = hold_stub(parent, ".idea")
    finally:
        os.umask(before)
    assert stub is not None
    stub.release()
    assert list(tmp_path.iterdir()) == []


def test_a_stub_that_could_not_be_held_is_taken_over_by_the_next(
    tmp_path: Path, parent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8"""

    def refuse(*arguments: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "dup", refuse)
        with pytest.raises(SandboxError, match="Too many open files"):
            hold_stub(parent, ".idea")
    assert sweep_stubs(str(tmp_path), [".idea"]) == [".idea"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [lambda path: path.write_text("x"), lambda path: path.symlink_to("/etc")])
def test_a_file_or_a_link_is_nothing_to_hold(tmp_path: Path, parent: int, make) -> None:
    make(tmp_path / ".mcp.json")
    assert hold_stub(parent, ".mcp.json") is None


def test_where_nobody_can_make_it_there_is_nothing_to_hold() -> None:
    parent = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    try:
        assert hold_stub(parent, ".idea") is None or pytest.fail("made something in /proc")
    except SandboxError:
        pass
    finally:
        os.close(parent)


KILLED = """
import os, signal, sys
from tertulia.sandbox.mounts.stubs import hold_stub
parent = os.open(sys.argv[1], os.O_PATH | os.O_DIRECTORY)
assert hold_stub(parent, ".idea") and hold_stub(parent, ".codex")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a5_after_a_kill_the_next_one_takes_it_over_or_sweeps_it(tmp_path: Path, parent: int) -> None:
    """A5: no stub left behind after kill -9."""
    line = [sys.executable, "-c", KILLED, str(tmp_path)]
    ran = subprocess.run(line, env={"PYTHONPATH": str(ROOT / "src")}, timeout=HANG_S, check=False)
    assert ran.returncode == -9
    assert sorted(path.name for path in tmp_path.iterdir()) == [".codex", ".idea"]
    stub = hold_stub(parent, ".idea")
    assert stub is not None
    assert sweep_stubs(str(tmp_path), [".idea", ".codex", ".git"]) == [".codex"]
    stub.release()
    assert list(tmp_path.iterdir()) == []


def test_sweeping_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    assert sweep_stubs(str(tmp_path / "nowhere"), [".git"]) == []


def test_a_place_that_comes_and_goes_is_refused(parent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stubs, "_still_there", lambda *arguments: False)
    with pytest.raises(SandboxError, match="creates and removes it again and again"):
        hold_stub(parent, ".idea")
    os.rmdir(".idea", dir_fd=parent)


def test_a_full_disk_refuses_the_command(parent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(SandboxError, match="No space left"):
        hold_stub(parent, ".idea")


# ---- files


def test_s1_a_missing_file_is_an_empty_file_while_it_is_held(tmp_path: Path, parent: int) -> None:
    """S1: programs that look for their settings there find none; the last of several removes it."""
    first, second = hold_stub(parent, ".gitconfig", is_file=True), hold_stub(parent, ".gitconfig", is_file=True)
    assert first is not None
    assert second is not None
    assert (tmp_path / ".gitconfig").read_bytes() == b""
    assert is_stub(tmp_path / ".gitconfig")
    first.release()
    assert (tmp_path / ".gitconfig").exists()
    second.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("held_as_file", [True, False])
def test_s1_either_kind_of_stub_is_taken_over(tmp_path: Path, parent: int, held_as_file: bool) -> None:
    """S1: two commands may know a path by different lists."""
    first = hold_stub(parent, ".npmrc", is_file=held_as_file)
    second = hold_stub(parent, ".npmrc", is_file=not held_as_file)
    assert first is not None
    assert second is not None
    first.release()
    second.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["replaced", "written"])
def test_s1_what_the_user_puts_there_meanwhile_is_kept(tmp_path: Path, parent: int, how: str) -> None:
    """S1: a stub is removed, a person's file never."""
    stub = hold_stub(parent, ".bashrc", is_file=True)
    assert stub is not None
    if how == "replaced":
        (tmp_path / "new").write_text("mine")
        (tmp_path / "new").replace(tmp_path / ".bashrc")
    else:
        (tmp_path / ".bashrc").chmod(0o600)
        (tmp_path / ".bashrc").write_text("mine")
        (tmp_path / ".bashrc").chmod(0o1444)
    stub.release()
    assert (tmp_path / ".bashrc").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [".bashrc"]


def test_s1_a_users_own_file_is_nothing_to_hold(tmp_path: Path, parent: int) -> None:
    (tmp_path / ".bashrc").touch()
    os.mkfifo(tmp_path / "pipe")
    assert hold_stub(parent, ".bashrc", is_file=True) is None
    assert hold_stub(parent, "pipe", is_file=True) is None


def test_s1_what_a_killed_process_left_on_the_way_to_a_path_is_removed(tmp_path: Path) -> None:
    """S1: files and directories, at any depth; what is no stub stays."""
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "nvim").mkdir(mode=0o1555)
    (tmp_path / ".local").mkdir(mode=0o1555)
    (tmp_path / ".bashrc").touch()
    (tmp_path / ".zshrc").touch()
    (tmp_path / ".zshrc").chmod(0o1444)
    names = (".config/nvim", ".local/share/tertulia", ".bashrc", ".zshrc", ".config/git")
    swept = sweep_stub_paths(str(tmp_path), [str(tmp_path / name) for name in names])
    assert sorted(os.path.relpath(path, tmp_path) for path in swept) == [".config/nvim", ".local", ".zshrc"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".bashrc", ".config"]
    assert sweep_stub_paths("/elsewhere", [str(tmp_path / ".bashrc")]) == []
