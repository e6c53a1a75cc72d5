"""Limits of each process, and what a command says that has met one."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from tertulia.sandbox.limits.kernel_limits import Cgroup, exceeded_limit, find_delegated, rlimits, set_rlimits
from tertulia.sandbox.runner import CommandLimits, Output
from tests.tables import each_row


def test_only_what_is_set_is_limited() -> None:
    none = CommandLimits(processes=None, memory_bytes=None, file_bytes=None, cpu_s=None)
    assert [kind for kind, _, _ in rlimits(none)] == [resource.RLIMIT_CORE]


def test_the_signal_of_the_cpu_limit_comes_before_the_kill() -> None:
    assert (resource.RLIMIT_CPU, 5, 6) in list(rlimits(CommandLimits(cpu_s=5)))


def test_a_limit_that_is_already_tighter_stays() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (1000, 1000))
        set_rlimits(child.pid, CommandLimits(file_bytes=5000, cpu_s=7))
        assert resource.prlimit(child.pid, resource.RLIMIT_FSIZE) == (1000, 1000)
        assert resource.prlimit(child.pid, resource.RLIMIT_CPU) == (7, 8)
        child.kill()


@each_row(
    ("code", "expected", "limit"),
    [
        (0, b"MemoryError", None),
        (1, b"all is well", None),
        (152, b"", "cpu_s"),
        (153, b"", "file_bytes"),
        (1, b"Traceback\nMemoryError\n", "memory_bytes"),
        (2, b"sh: 0: Cannot allocate memory", "memory_bytes"),
        (1, b"dd: error writing 'x': File too large", "file_bytes"),
        (1, b"BlockingIOError: [Errno 11] Resource temporarily unavailable", "processes"),
        (1, b"RuntimeError: can't start new thread", "processes"),
    ],
)
def test_a19_the_limit_is_named_by_signal_or_by_what_was_said_last(
    code: int, expected: bytes, limit: str | None
) -> None:
    """A19"""
    assert exceeded_limit(code, Output(expected, b"", len(expected))) == limit


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
