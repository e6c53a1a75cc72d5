"""The pieces of tier 2 that can be looked at without becoming its prisoner."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tertulia.sandbox.launcher import landlock
from tertulia.sandbox.launcher.landlock import FileRules, PathWalk, Ruleset, abi
from tests.deadlines import HANG_S
from tests.sandbox.confined import ROOT, need


def test_everything_but_the_masked_is_readable(tmp_path: Path) -> None:
    """A14"""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / "code").mkdir()
    (tmp_path / "home" / "notes").touch()
    (tmp_path / "home" / "link").symlink_to(".ssh")
    places = set(PathWalk().readable_places([str(tmp_path / "home" / ".ssh"), "/no/such/place"]))
    home = os.path.realpath(tmp_path / "home")
    assert {f"{home}/code", f"{home}/notes"} <= places
    assert not places & {"/", home, f"{home}/.ssh", f"{home}/link"}


def test_without_masks_everything_is_one_place() -> None:
    assert list(PathWalk().readable_places([])) == ["/"]


def test_a20_a_kernel_without_landlock_says_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """A20"""
    monkeypatch.setattr(landlock.libc, "syscall", lambda *arguments: -1)
    assert abi() == 0


CONFINED = """
import os, sys
from tertulia.sandbox.launcher.landlock import FileRules, Ruleset, abi, drop_capabilities, install_filter
from tertulia.sandbox.seccomp import filter_program
from tertulia.sandbox.seccomp_numbers import current_machine
machine = current_machine()
program = b"" if sys.argv[2] == "bad" else filter_program(machine, internet=False)
try:
    drop_capabilities()
    secret = sys.argv[1] + "/../secret"
    Ruleset(FileRules(abi(), [], [secret])).restrict(sys.argv[1])
    install_filter(program, machine.name)
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
    ran = subprocess.run(line, env={"PYTHONPATH": str(ROOT / "src")}, timeout=HANG_S, check=False)
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
    places = set(PathWalk().writable_places([str(home), str(other)], closed, [".git"]))
    assert places == {str(other), str(home / ".config" / "app"), str(home / "work")}
    assert set(PathWalk().writable_places([str(home)], [str(other)], [".git"])) == {str(home)}


OLDER = """
import os, sys
from tertulia.sandbox.launcher.landlock import FileRules, Ruleset, drop_capabilities, install_filter
from tertulia.sandbox.seccomp import filter_program
from tertulia.sandbox.seccomp_numbers import current_machine
folder, version, filtered = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "filtered"
machine = current_machine()
drop_capabilities()
Ruleset(FileRules(version, [], [])).restrict(folder + "/workspace")
if filtered:
    install_filter(filter_program(machine, internet=False, landlock=version), machine.name)
def attempt(act):
    try:
        act()
    except OSError as error:
        return error.strerror
    return "done"
print(attempt(lambda: os.truncate(folder + "/by path", 0)))
print(attempt(lambda: os.close(os.open(folder + "/to read", os.O_RDONLY | os.O_TRUNC))))
print(attempt(lambda: os.rename(folder + "/workspace/one/file", folder + "/workspace/file")))
"""


@pytest.mark.parametrize("version", range(1, 8))
@pytest.mark.parametrize("how", ["filtered", "alone"])
def test_an_older_version_has_only_the_rights_of_its_time(tmp_path: Path, version: int, how: str) -> None:
    """Issue 19: it is the filter that closes what such a Landlock does not look at, and the fake is a true one."""
    need("landlock")
    (tmp_path / "workspace" / "one").mkdir(parents=True)
    for name in ("by path", "to read", "workspace/one/file"):
        (tmp_path / name).write_text("untouched")
    line = [sys.executable, "-c", OLDER, str(tmp_path), str(version), how]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(line, env=environment, timeout=HANG_S, check=True, capture_output=True, text=True)
    by_path, to_read, moved = ran.stdout.splitlines()
    open_to_it = version < 3 and how == "alone"
    assert (by_path == "done", to_read == "done") == (open_to_it, open_to_it)
    for name in ("by path", "to read"):
        assert (tmp_path / name).read_text() == ("" if open_to_it else "untouched")
    assert moved == ("Invalid cross-device link" if version < 2 else "done")


def settled(rules: FileRules, home: Path) -> Ruleset:
    """As if what was made for the test had been there for long, and nothing else were on this machine."""
    ruleset = Ruleset(rules)
    ruleset._made_at += 4_000_000_000
    ruleset._seen = {path: seen for path, seen in ruleset._seen.items() if path.startswith(str(home))}
    return ruleset


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in (".ssh", "code", "dots", "workspace"):
        (tmp_path / "home" / name).mkdir(parents=True)
    return Path(os.path.realpath(tmp_path)) / "home"


def rules(home: Path, **fields: Any) -> FileRules:
    fields = {"masked": [str(home / ".ssh")], "shown": [str(home / "code")], **fields}
    return FileRules(abi(), [str(home / "workspace")], **fields)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new neighbour of a mask": lambda home: (home / "new").mkdir(),
    "a mask that was moved": lambda home: (home / ".ssh").rename(home / "keys"),
    "a link where there was nothing": lambda home: (home / ".kube").symlink_to("code"),
    "another root of that name": lambda home: (
        (home / "workspace").rmdir(),
        (home / "other").rename(home / "workspace"),
    ),
    "another place to show": lambda home: ((home / "code").rename(home / "dots" / "code"), (home / "code").mkdir()),
    "a link that leads elsewhere": lambda home: ((home / "dots" / "l").unlink(), (home / "dots" / "l").symlink_to("/")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_rules_that_were_made_before_serve_only_while_every_path_leads_where_it_did(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 17: nothing is given up for speed."""
    need("landlock")
    # What others of this machine mount meanwhile would make them again too.
    monkeypatch.setattr(landlock, "_MOUNTS", os.devnull)
    (home / "other").mkdir()
    (home / "dots" / "l").symlink_to(home / ".ssh")
    masked = [str(home / name) for name in (".ssh", ".kube", "dots/l/key")]
    ruleset = settled(rules(home, masked=masked), home)
    (home / "workspace" / "file").touch()
    assert ruleset.is_current()
    (home / "workspace" / "file").unlink()
    CHANGES[name](home)
    assert not ruleset.is_current()
    ruleset.close()


def test_rules_that_were_made_at_the_same_moment_as_a_change_are_made_again(home: Path) -> None:
    """Issue 17: a clock that counts in seconds could not tell a second change from the first."""
    need("landlock")
    ruleset = Ruleset(rules(home))
    assert not ruleset.is_current()
    ruleset.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_rules_that_were_made_before_a_mount_are_made_again(home: Path) -> None:
    """Issue 17"""
    need("landlock")
    ruleset = settled(rules(home), home)
    assert ruleset.is_current()
    subprocess.run(["mount", "-t", "tmpfs", "none", home / "dots"], check=True)
    try:
        assert not ruleset.is_current()
    finally:
        subprocess.run(["umount", home / "dots"], check=True)
    ruleset.close()
