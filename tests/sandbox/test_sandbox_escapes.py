"""The escape suite: real programs in the real sandbox, as root and as an ordinary user, judged from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import HANG_S
from tests.sandbox import probe, probe_home
from tests.sandbox.confined import ROOT, as_ordinary_user, need, ordinary_python
from tests.sandbox.escaping import Scene

LEFT_OPEN_BY_LANDLOCK = ("A3 ", "A4 ", "A5 ", "S1 list ")
"""Announced, and nothing more: metadata, protected names, the names of masked files."""


LEAKS_OF = {"bubblewrap": ((), ()), "landlock": (LEFT_OPEN_BY_LANDLOCK, ("/deep/er/.git", "/outside/file"))}
"""Attempts, and the changes that come of them."""


def as_ourselves(*how: str) -> dict:
    line = [sys.executable, "-m", "tests.sandbox.escaping", *how]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "CANARY": "canary-9c1b77"}
    ran = subprocess.run(line, capture_output=True, text=True, timeout=HANG_S, check=False, env=environment, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def as_somebody_else(*how: str) -> dict:
    python = ordinary_python()
    if python is None:
        pytest.skip("not root, or no Python that an ordinary user can run: only one kind of user was tried")
    ran = as_ordinary_user(python, "-m", "tests.sandbox.escaping", *how)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def tell(result: dict, capsys: pytest.CaptureFixture[str]) -> None:
    blocked, controls = result["attempts"] - len(result["leaked"]), result["controls"] - len(result["failed"])
    line = f"uid {result['uid']}: blocked {blocked}/{result['attempts']}, controls {controls}/{result['controls']}"
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


@pytest.mark.slow
@pytest.mark.parametrize("run", [as_ourselves, as_somebody_else])
def test_tier_1_holds_every_attempt_and_hinders_nothing(run, capsys: pytest.CaptureFixture[str]) -> None:
    """A1, A2, A3, A4, A5, A6, A9, A10, A11, A12, A13, A14, S5, S6; target 1"""
    need("bubblewrap")
    result = run("bubblewrap")
    tell(result, capsys)
    assert result["leaked"] == []
    assert result["changes"] == []
    assert result["failed"] == {}
    assert result["attempts"] >= 75


@pytest.mark.slow
@pytest.mark.parametrize("run", [as_ourselves, as_somebody_else])
def test_a_prepared_sandbox_holds_every_attempt_too(run, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 21: nothing of the confinement is given up for a quicker start; each command was in a prepared one."""
    need("bubblewrap")
    result = run("bubblewrap+prepared")
    tell(result, capsys)
    assert result["leaked"] == []
    assert result["changes"] == []
    assert result["failed"] == {}
    assert result["in_prepared"] >= result["controls"] + 3


@pytest.mark.slow
@pytest.mark.parametrize("run", [as_ourselves, as_somebody_else])
def test_tier_2_leaves_open_what_it_announces_and_nothing_else(run, capsys: pytest.CaptureFixture[str]) -> None:
    """A3, S5, S6 and finding 2: Landlock cannot protect a part of a writable root, nor metadata."""
    need("landlock")
    result = run("landlock")
    tell(result, capsys)
    assert [name for name in result["leaked"] if not name.startswith(LEFT_OPEN_BY_LANDLOCK)] == []
    assert {"A3 chmod", "A4 git hook", "A5 make a directory"} <= {*result["leaked"]}
    assert result["failed"] == {}


def as_if(version: str, run: Any, capsys: pytest.CaptureFixture[str]) -> dict:
    need("landlock")
    result = run(f"landlock@{version}")
    tell(result, capsys)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("run", [as_ourselves, as_somebody_else])
@pytest.mark.parametrize("version", [1, 2, *(pytest.param(n, marks=pytest.mark.torture) for n in (3, 5)), 4])
def test_an_older_landlock_leaves_open_no_more(run, version: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 19: Ubuntu 22.04 has version 1, Debian 12 version 2, Ubuntu 24.04 version 4. What changes or empties files
    outside is closed by the system call filter; the controls are the same."""
    result = as_if(str(version), run, capsys)
    assert [name for name in result["leaked"] if not name.startswith(LEFT_OPEN_BY_LANDLOCK)] == []
    assert result["failed"] == {}
    assert any("this kernel's Landlock" in gap for gap in result["not_covered"]) is (version < 5)


@pytest.mark.slow
@pytest.mark.parametrize("run", [as_ourselves, as_somebody_else])
@pytest.mark.parametrize("version", [4, 6])
def test_signals_are_listed_where_neither_landlock_nor_a_namespace_keeps_them(
    run, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 19: nothing else than what is listed."""
    result = as_if(f"{version}+alone", run, capsys)
    leaked = {name for name in result["leaked"] if not name.startswith(LEFT_OPEN_BY_LANDLOCK)}
    assert leaked == (set() if version >= 6 else {"A11 signal the parent"})
    assert any(gap.startswith("signals:") for gap in result["not_covered"]) is (version < 6)
    assert result["failed"] == {}


def test_the_attempts_would_succeed_without_a_sandbox() -> None:
    """A suite whose attempts cannot succeed proves nothing. Only those that harm no more than their own scene."""
    harmless = (
        "A1 create",
        "A1 append",
        "A1 mkdir",
        "A1 truncate",
        "A2",
        "A3 chmod",
        "A4 git hook",
        "A5 make",
        "A9 TCP",
        "A10",
        "A11 env",
        "S6",
    )
    scene = Scene()
    try:
        places = {**scene.places(), "only": harmless}
        places["far"] = str(scene.folder / "far")
        line = [sys.executable, "-I", "-S", probe.__file__, json.dumps(places)]
        environment = {**os.environ, "CANARY": places["canary"]}
        ran = subprocess.run(line, capture_output=True, timeout=HANG_S, check=True, env=environment, cwd=scene.outside)
        succeeded = {name for name, ok in json.loads(ran.stdout).items() if ok}
        assert {name for name in probe.ATTEMPTS if name.startswith("A1 truncate")} <= succeeded
        assert {"A1 create", "A1 mkdir", "A2 through a link to a file", "A3 chmod", "A4 git hook"} <= succeeded
        assert {"A5 make a directory", "A9 TCP", "A10 UNIX socket by path", "A10 abstract socket"} <= succeeded
        assert "A11 environ of the parent" in succeeded
        assert {name for name in probe.ATTEMPTS if name.startswith("S6")} <= succeeded
        kinds = (
            "SOCK_DGRAM pair to a path",
            "SOCK_DGRAM pair carries a descriptor",
            "SOCK_RAW pair connects to a path",
        )
        assert {f"A10 {kind}" for kind in kinds} <= succeeded
        assert scene.changes()
    finally:
        scene.close()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["same", pytest.param("inside", marks=pytest.mark.torture)])
@pytest.mark.parametrize("run", [as_ourselves, as_somebody_else])
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_a_home_as_workspace_keeps_its_keys_and_what_others_run(
    tier: str, run: Any, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1, S9: the workspace is the home or has it inside, and a hostile process of the same session runs beside.

    Our own files, credentials and startup files are neither read nor changed nor made, nor by the command after one
    that moved what they lie in.
    """
    need(tier)
    result = run(tier, layout)
    tell(result, capsys)
    leaks, announced = LEAKS_OF[tier]
    assert [name for name in result["leaked"] if not name.startswith(leaks)] == []
    assert [path for path in result["changes"] if not any(part in path for part in announced)] == []
    assert result["failed"] == {}
    assert result["attempts"] >= 200


def test_the_attempts_at_a_home_would_succeed_without_a_sandbox() -> None:
    """S1, S9: or the suite would prove nothing."""
    scene = Scene("same")
    try:
        line = [sys.executable, "-I", "-S", probe_home.__file__, json.dumps(scene.home.places())]
        ran = subprocess.run(line, capture_output=True, timeout=HANG_S, check=True, cwd=scene.outside)
        failed = sorted(name for name, ok in json.loads(ran.stdout).items() if not ok)
        # A folder cannot be made where its parent's name is a file's: every other attempt finds its hole.
        assert [name for name in failed if not name.startswith("S1 make the folder")] == []
        assert {Path(path).name for path in scene.home.changes()} >= {".bashrc", ".profile", "config.toml"}
        (scene.home.folder / ".config" / "tertulia" / "config.toml").write_text('model = "scripted/theirs"')
        assert "the next run obeys a planted setting: scripted/theirs" in scene.changes()
    finally:
        scene.close()
