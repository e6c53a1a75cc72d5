"""Control groups: where we may make one, what is written there. On a tree of plain files, as few machines delegate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.sandbox.limits.kernel_limits import Cgroup, find_delegated
from tertulia.sandbox.runner import CommandLimits


def group(path: Path, controllers: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup.controllers": "", "cgroup.procs": "", "cgroup.subtree_control": controllers}.items():
        (path / name).write_text(text)
    return path


def test_our_own_group_or_the_one_above_may_have_children(tmp_path: Path) -> None:
    group(tmp_path, "")
    above = group(tmp_path / "user", "cpu memory pids")
    own = group(above / "app", "")
    assert find_delegated("1:name=systemd:/x\n0::/user/app\n", tmp_path) == above
    (own / "cgroup.subtree_control").write_text("memory pids")
    assert find_delegated("0::/user/app\n", tmp_path) == own


@pytest.mark.parametrize("membership", ["", "4:memory:/x\n", "0::/user/app\n", "0::/\n", "0::/../..\n"])
def test_without_delegation_there_is_none(tmp_path: Path, membership: str) -> None:
    group(tmp_path, "memory")
    group(tmp_path / "user" / "app", "")
    group(tmp_path / "user", "memory")
    assert find_delegated(membership, tmp_path) is None


def test_a_mount_that_is_not_version_2_has_none(tmp_path: Path) -> None:
    assert find_delegated("0::/\n", tmp_path) is None


class Kernel(Cgroup):
    """Removes a directory with its files, as the kernel does."""

    def remove(self) -> None:
        for file in self._path.iterdir():
            file.unlink()
        super().remove()


def test_a_command_gets_a_group_of_its_own_with_its_limits(tmp_path: Path) -> None:
    """A19"""
    made = Kernel(tmp_path, CommandLimits(processes=5, memory_bytes=1000))
    (path,) = tmp_path.iterdir()
    made.add(1234)
    texts = {file.name: file.read_text() for file in path.iterdir()}
    assert texts == {"pids.max": "5", "memory.max": "1000", "memory.oom.group": "1", "cgroup.procs": "1234"}
    assert made.limit_met() is None
    (path / "pids.events").write_text("max 3\n")
    assert made.limit_met() == "processes"
    (path / "memory.events").write_text("low 0\noom_kill 1\n")
    assert made.limit_met() == "memory_bytes"
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_without_limits_nothing_is_written(tmp_path: Path) -> None:
    Cgroup(tmp_path, CommandLimits(processes=None, memory_bytes=None)).remove()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_limited_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, text: str) -> int:
        raise OSError(1, "refused")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="refused"):
        Cgroup(tmp_path, CommandLimits())
    assert os.listdir(tmp_path) == []
