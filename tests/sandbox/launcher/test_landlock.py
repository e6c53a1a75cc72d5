"""The pieces of tier 2 that can be looked at without becoming its prisoner."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tertulia.sandbox.launcher import landlock
from tertulia.sandbox.launcher.landlock import abi, readable_places
from tests.sandbox.confined import ROOT, need


def test_everything_but_the_masked_is_readable(tmp_path: Path) -> None:
    """A14"""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / "code").mkdir()
    (tmp_path / "home" / "notes").touch()
    (tmp_path / "home" / "link").symlink_to(".ssh")
    places = set(readable_places([str(tmp_path / "home" / ".ssh"), "/no/such/place"]))
    home = os.path.realpath(tmp_path / "home")
    assert {f"{home}/code", f"{home}/notes"} <= places
    assert not places & {"/", home, f"{home}/.ssh", f"{home}/link"}


def test_without_masks_everything_is_one_place() -> None:
    assert list(readable_places([])) == ["/"]


def test_a20_a_kernel_without_landlock_says_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """A20"""
    monkeypatch.setattr(landlock._libc, "syscall", lambda *arguments: -1)
    assert abi() == 0


CONFINED = """
import os, sys
from tertulia.sandbox.launcher.landlock import drop_capabilities, restrict
from tertulia.sandbox.seccomp import current_machine, filter_program
machine = current_machine()
program = b"" if sys.argv[2] == "bad" else filter_program(machine, internet=False)
try:
    drop_capabilities()
    secret = sys.argv[1] + "/../secret"
    restrict([sys.argv[1]], [secret], [], [], network=False, program=program, machine=machine.name)
except OSError as error:
    sys.exit(error.errno)
open(sys.argv[1] + "/inside", "w").close()
for act in (lambda: open(sys.argv[1] + "/../outside", "w"), lambda: open(sys.argv[1] + "/../secret/id"), os.getxattr):
    try:
        act()
        sys.exit(1)
    except PermissionError:
        pass
    except TypeError:
        sys.exit(0 if "CapEff:\\t0000000000000000" in open("/proc/self/status").read() else 2)
"""


@pytest.mark.parametrize(("program", "code"), [("good", 0), ("bad", errno.EINVAL)])
def test_a_process_that_confines_itself_stays_confined(tmp_path: Path, program: str, code: int) -> None:
    """A14, A20: and one that the kernel refuses a part of is told, and does not go on."""
    need("landlock")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "id").write_text("canary")
    line = [sys.executable, "-c", CONFINED, str(tmp_path / "workspace"), program]
    ran = subprocess.run(line, env={"PYTHONPATH": str(ROOT / "src")}, timeout=30, check=False)
    assert ran.returncode == code
    assert (tmp_path / "workspace" / "inside").exists() is (code == 0)
    assert not (tmp_path / "outside").exists()


def test_s1_beside_a_closed_path_what_exists_is_allowed_one_by_one(tmp_path: Path) -> None:
    """S1: never the root itself, nothing that leads there, no link on the way, and no protected name at the top"""
    home, other = tmp_path / "home", tmp_path / "other"
    for name in (".config/tertulia", ".config/app", "work", ".git", "dots/shell"):
        (home / name).mkdir(parents=True)
    other.mkdir()
    (home / ".bashrc").symlink_to("dots/shell/rc")
    closed = [str(home / ".config" / "tertulia"), str(home / ".bashrc"), str(home / "missing" / "x")]
    places = set(landlock.writable_places([str(home), str(other)], closed, [".git"]))
    assert places == {str(other), str(home / ".config" / "app"), str(home / "work")}
    assert set(landlock.writable_places([str(home)], [str(other)], [".git"])) == {str(home)}
