"""The real program on a machine that has only pip: no bubblewrap, as seen from a mount namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tertulia.sandbox.availability import install_command
from tests.cli.running import DEADLINE_S, SOURCE, Ran, Shell
from tests.sandbox.confined import need

NO_BUBBLEWRAP = 'mount --bind /dev/null /usr/bin/bwrap && exec "$@"'


@pytest.fixture(autouse=True)
def can_hide() -> None:
    need("landlock")
    if os.geteuid() != 0 or not os.path.exists("/usr/bin/bwrap"):
        pytest.skip("only root can hide bubblewrap from a program, and only where there is one")


def run(shell: Shell, *arguments: str) -> Ran:
    """`tertulia ARGUMENTS`, with nothing of use at bubblewrap's place."""
    line = ["unshare", "-m", "sh", "-c", NO_BUBBLEWRAP, "sh", sys.executable, "-m", "tertulia", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    ran = subprocess.run(
        line,
        cwd=shell.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        input="",
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def test_exec_runs_commands_in_landlock_and_says_so_at_the_start(shell: Shell) -> None:
    """Issue 19, 9: not the first command names the tier, and it is named once."""
    outside = shell.folder.parent / "outside"
    arguments = {"command": ["sh", "-c", f"echo one > made; echo two > {outside}; cat made"]}
    model = shell.script({"tool_calls": [{"name": "shell", "arguments": arguments}]}, "Done.")
    ran = run(shell, "exec", "--json", "-m", model, "Go.")
    items = [event["item"] for event in ran.lines if "item" in event]
    warnings = [item for item in items if "sandbox tier landlock" in item.get("message", "")]
    assert len(warnings) == 1
    assert "/usr/bin/bwrap is not root's alone, so it is not trusted" in warnings[0]["message"]
    assert items.index(warnings[0]) < [item["type"] for item in items].index("command_execution")
    assert (shell.folder / "made").read_text() == "one\n"
    assert not outside.exists()
    assert ran.code == 0


def test_doctor_has_no_problem_with_landlock_and_says_why_it_is_not_bubblewrap(shell: Shell) -> None:
    """Issue 19, 9"""
    ran = run(shell, "doctor", "-m", "scripted/tour")
    assert ran.code == 0
    assert "landlock                         works" in ran.out
    assert "chosen by auto" in ran.out
    assert "10 of 10 attempts to get out were stopped" in ran.out


def test_exec_is_refused_at_the_start_where_nothing_can_confine_commands(shell: Shell) -> None:
    """Issue 19, 9: in one sentence, with the command that installs it, before a model is asked or a session stored."""
    flags = ("exec", "-c", "sandbox_tier=bubblewrap", "-m", shell.script("never asked", repeat=True))
    ran = run(shell, *flags, "Go.")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
    assert ran.err.startswith("tertulia: commands will be refused, because nothing here can confine them: ")
    assert install_command() in ran.err
    assert "`-s danger-full-access` runs them without a sandbox" in ran.err
    assert shell.run("sessions", "ls", "--json").lines == []
    assert run(shell, *flags, "-s", "danger-full-access", "Go.").out == "never asked\n"
    assert run(shell, *flags, "-c", "shell_mode=none", "-c", "include_apply_patch_tool=false", "Go.").code == 0
