"""`tertulia sandbox -- COMMAND` and `tertulia doctor`, by somebody who has only read the public page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.test_command_line import run
from tests.sandbox.confined import need

PROTECTED = (".git", ".tertulia", ".mcp.json", ".codex", ".claude", ".vscode", ".idea")


@pytest.fixture(autouse=True)
def _sandboxed() -> None:
    need("bubblewrap")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_it_writes_where_it_works_and_nowhere_else(work: Path) -> None:
    """A1: the workspace is the working directory; the exit code, both outputs and the input pass through."""
    script = "cat > made; echo out; echo err >&2; echo x > ../outside; exit 42"
    ran = run(work, "sandbox", "--", "sh", "-c", script, feed=b"in\n")
    assert (ran.code, ran.out) == (42, "out\n")
    assert "err\n" in ran.err
    assert (work / "made").read_text() == "in\n"
    assert not (work.parent / "outside").exists()


@pytest.mark.parametrize(
    ("flags", "inside", "outside"),
    [
        (["-s", "read-only"], False, False),
        (["-s", "workspace-write"], True, False),
        (["-s", "danger-full-access"], True, True),
        (["--add-dir", "..", "--allow-home-workspace"], True, True),
    ],
    ids=["read-only", "workspace-write", "danger-full-access", "add-dir"],
)
def test_each_mode_allows_what_the_page_says(work: Path, flags: list[str], inside: bool, outside: bool) -> None:
    """Issue 7, 1."""
    run(work, "sandbox", *flags, "--", "sh", "-c", "touch here; touch ../there")
    assert ((work / "here").exists(), (work.parent / "there").exists()) == (inside, outside)


def test_protected_names_cannot_come_into_being_and_leave_nothing(work: Path) -> None:
    """A4, A5: also where they do not exist yet."""
    script = "; ".join(f"mkdir {name}; touch {name} {name}/x; echo > {name}" for name in PROTECTED)
    assert run(work, "sandbox", "--", "sh", "-c", script).code != 0
    assert {path.name for path in work.iterdir()} == {"home"}


def test_secrets_are_neither_read_nor_inherited(work: Path) -> None:
    """A14, A15: masked files, and variables that are called like a secret."""
    home = work / "home"
    for name in (".ssh/id", ".aws/credentials", ".netrc", ".codex/auth.json", ".claude/x", ".kube/config", "own/x"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("CANARY")
    script = "cat ~/.ssh/id ~/.aws/credentials ~/.netrc ~/.codex/auth.json ~/.claude/x ~/.kube/config ~/own/x; env"
    secrets = {"OPENAI_API_KEY": "CANARY", "MY_TOKEN": "CANARY", "db_password": "CANARY", "A_SECRET": "CANARY"}
    ran = run(work, "sandbox", "--", "sh", "-c", script, TERTULIA_HOME=str(home / "own"), PLAIN="kept?", **secrets)
    assert "CANARY" not in ran.out
    assert "PLAIN" not in ran.out
    ran = run(work, "sandbox", "-c", "shell_environment.inherit=all", "--", "env", PLAIN="kept", **secrets)
    assert "PLAIN=kept" in ran.out
    assert "CANARY" not in ran.out


def test_a_bwrap_of_somebody_else_is_not_used(work: Path) -> None:
    """A21: neither in the workspace nor first on PATH."""
    fake = work / "bwrap"
    fake.write_text("#!/bin/sh\necho FAKE\n")
    fake.chmod(0o755)
    ran = run(work, "sandbox", "--", "echo", "real", PATH=f"{work}:/usr/bin:/bin")
    assert (ran.code, ran.out) == (0, "real\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--", "no-such-program"], 127), (["--", "./plain"], 126), (["--", "sh", "-c", "kill -9 $$"], 137),
        (["--"], 2), (["-s", "bogus", "--", "true"], 2), (["-C", "nowhere", "--", "true"], 2),
    ],
    ids=str,
)  # fmt: skip
def test_the_exit_code_says_what_went_wrong(work: Path, arguments: list[str], code: int) -> None:
    (work / "plain").write_text("")
    ran = run(work, "sandbox", *arguments)
    assert ran.code == code
    assert ran.out == ""


def test_the_doctor_shows_the_tier_and_its_self_test(work: Path) -> None:
    ran = run(work, "doctor", "-m", "scripted/tour")
    assert ran.code == 0
    assert "bubblewrap" in ran.out
    assert "11 of 11" in ran.out
    assert "workspace-write" in ran.out
    ran = run(work, "doctor", "-m", "scripted/tour", "-c", "sandbox_tier=landlock")
    assert "landlock" in ran.out
