"""ACP clients that we did not write, with `tertulia acp` as their agent. Clients of SDKs: cli/serve/test_acp.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.acp_installed import MORE, NODE
from tests.cli.conftest import shell
from tests.cli.running import SOURCE, Shell
from tests.deadlines import HANG_S

__all__ = ["shell"]

ACPX = MORE / "acpx" / "dist" / "cli.js"
TOUCH = {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made"]}}], "match": "make it"}
DONE = {"text": "hello from us", "repeat": True}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def installed() -> None:
    if not ACPX.exists():
        pytest.skip("acpx is not installed; `make more-agents` fetches it")


def acpx(shell: Shell, *words: str, agent: str = "") -> subprocess.CompletedProcess[str]:
    """Run it in the shell's folder, with a home of its own."""
    home = shell.folder.parent / "acpx-home"
    home.mkdir(exist_ok=True)
    script = shell.script(TOUCH, DONE)
    command = f"{sys.executable} -m tertulia acp -m {script} -a untrusted {agent}".strip()
    return subprocess.run(
        [NODE, str(ACPX), "--agent", command, *words],
        cwd=shell.folder,
        env={**os.environ, "HOME": str(home), "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def children(folder: Path) -> list[str]:
    """Programs that still run in this folder."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) != os.getpid() and os.readlink(entry / "cwd") == str(folder):
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_acpx_has_a_prompt_answered_and_leaves_nothing(shell: Shell) -> None:
    """Issue 25, 2: the headless client of the OpenClaw project."""
    ran = acpx(shell, "exec", "say hello")
    assert (ran.returncode, "hello from us" in ran.stdout) == (0, True), ran.stderr
    assert "[done] end_turn" in ran.stdout
    assert not children(shell.folder)


@pytest.mark.parametrize(("flag", "made"), [("--approve-all", True), ("--deny-all", False)])
def test_acpx_decides_what_we_ask(shell: Shell, flag: str, made: bool) -> None:
    """Issue 25, 2: its yes lets the command run, its no does not, and the prompt goes on after both."""
    ran = acpx(shell, flag, "exec", "make it")
    assert "hello from us" in ran.stdout, ran.stderr
    assert (shell.folder / "made").exists() is made
    assert not children(shell.folder)
