"""Issue 26 (4): `tertulia eval from-session` makes a task of a stored session."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tertulia.evals.task import UNFILLED
from tests.cli.running import Ran, Shell
from tests.cli.stored_sessions import home
from tests.privacy.secrets_told import everything_below
from tests.sandbox.confined import need

CANARY = "canary-77ab02"
_FILLED = "import calc\nassert calc.add(2, 3) == 5\nassert not __import__('os').path.exists('old.txt')\n"


@pytest.fixture(autouse=True)
def confined() -> None:
    """Calls that write are confined, and recorded only then."""
    need("bubblewrap")


def tool(script: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "shell", "arguments": {"command": ["sh", "-c", script]}}]}


def story(shell: Shell, *flags: str) -> str:
    """A session of two messages that mends add, removes a file and adds a link that leads out."""
    (shell.folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (shell.folder / "run.sh").write_text("true\n")
    (shell.folder / "run.sh").chmod(0o755)
    (shell.folder / "old.txt").write_text("old\n")
    (shell.folder / "out").symlink_to("/etc/hostname")
    model = shell.script(tool("sed -i s/-/+/ calc.py; rm old.txt; ln -s / top"), "Mended.", "It adds.")
    first = shell.run("exec", "--json", "-m", model, "-a", "never", *flags, f"Mend add. {CANARY}")
    assert first.code == 0, first.err
    (shell.folder / "script.json").write_text(json.dumps({"replies": ["It adds."]}))
    assert shell.run("exec", "resume", "--last", "What does\nit do?").code == 0
    return first.lines[0]["thread_id"]


def test_a_session_becomes_a_task_whose_check_has_to_be_filled_in(shell: Shell) -> None:
    session_id = story(shell)
    # What came later does not count.
    (shell.folder / "calc.py").write_text("def add(a, b):\n    return 0\n")
    ran = shell.run("eval", "from-session", session_id[:8], "--into", "suite", "--name", "mend-add")
    assert (ran.code, f"2 messages, as a task\nfill in {shell.folder}/suite/mend-add/check/check.py" in ran.out) == (
        0,
        True,
    )
    assert "not in it: out" in ran.err
    task = shell.folder / "suite" / "mend-add"
    assert task.stat().st_mode & 0o777 == 0o700
    table = tomllib.loads((task / "task.toml").read_text())
    assert (table["prompt"], table["follow_ups"]) == (f"Mend add. {CANARY}", ["What does\nit do?"])
    assert table["reference"] == {"answer": "It adds.", "delete": ["old.txt"], "calls": ["shell"]}
    assert (task / "repo" / "calc.py").read_text() == "def add(a, b):\n    return a - b\n"
    assert (task / "repo" / "run.sh").stat().st_mode & 0o111 == 0o111
    assert not (task / "repo" / "out").is_symlink()
    assert [path.name for path in (task / "solution").iterdir()] == ["calc.py"]
    # The self-test and the eval refuse the check that is not filled in.
    refused = shell.run("eval", "check", "suite")
    assert (refused.code, "always fails" in refused.out, UNFILLED in refused.out) == (1, True, True)
    ran = shell.run("eval", "suite", "-m", shell.script("hello"))
    assert (ran.code, UNFILLED in ran.err, list(shell.folder.glob("eval-*"))) == (2, True, [])
    (task / "check" / "check.py").write_text(_FILLED)
    assert shell.run("eval", "check", "suite").out.strip() == "1 of 1 checks are sound"


def test_a_removed_file_whose_name_no_task_can_have_is_left_out(shell: Shell) -> None:
    """One that is not UTF-8, and a link that the copy does not have."""
    (shell.folder / os.fsdecode(b"n\xff")).write_text("x")
    (shell.folder / os.fsdecode(b"same\xff")).write_text("x")
    (shell.folder / "old.txt").write_text("x")
    (shell.folder / "out").symlink_to("/etc/hostname")
    model = shell.script(tool("rm n* out old.txt"), "Done.")
    assert shell.run("exec", "-m", model, "-a", "never", "Remove them").code == 0
    ran = shell.run("eval", "from-session", "--last", "--into", "suite", "--name", "removed")
    assert (ran.code, "(that it was removed)" in ran.err) == (0, True), ran.err
    task = shell.folder / "suite" / "removed"
    assert tomllib.loads((task / "task.toml").read_text())["reference"]["delete"] == ["old.txt"]
    assert os.fsencode("same") + b"\xff" in os.listdir(os.fsencode(task / "repo"))


def test_each_message_of_the_task_is_sent(shell: Shell) -> None:
    story(shell)
    assert shell.run("eval", "from-session", "--last", "--into", "suite").code == 0
    (task,) = (shell.folder / "suite").iterdir()
    (task / "check" / "check.py").write_text("from eval_run import answer\nassert answer == 'second'\n")
    assert shell.run("eval", "suite", "-m", shell.script("first", "second"), "--json").lines[0]["passed"] == 1
    (shell.folder / "eval-suite.jsonl").unlink()
    failing = shell.script({"error": "The provider is overloaded"}, "second")
    assert shell.run("eval", "suite", "-m", failing, "--json").lines[0]["failures"] == {"provider": 1}


def refused(shell: Shell, *words: str) -> Ran:
    """Nothing was written."""
    ran = shell.run("eval", "from-session", *words)
    assert ran.code in (1, 2)
    assert not (shell.folder / "my-evals").exists()
    assert list(Path("/tmp").glob("tertulia-eval-*/session-*")) == []
    return ran


def test_what_is_not_there_is_refused_with_what_can_be_done(shell: Shell) -> None:
    """Where texts or checkpoints are gone, or never were."""
    (shell.folder / "calc.py").write_text("1\n")
    reading = shell.run("exec", "--json", "-m", shell.script("Good morning."), "hello").lines[0]["thread_id"]
    assert "none of its calls could write" in refused(shell, reading).err
    made = shell.run("eval", "from-session", reading, "--files", ".", "--into", "given")
    assert made.code == 0, made.err
    assert list((shell.folder / "given").glob("*/repo/calc.py"))
    again = shell.run("eval", "from-session", reading, "--files", ".", "--into", "given")
    assert (again.code, "is there already" in again.err) == (2, True)
    for policy in ("headers-only", "none"):
        ran = shell.run("exec", "--json", "-m", shell.script("Hi."), "--storage", policy, "hello")
        assert "texts of its messages are not stored" in refused(shell, ran.lines[0]["thread_id"]).err
    assert "letters, digits" in refused(shell, reading, "--name", "../out").err
    fork = shell.run("sessions", "fork", reading).out.strip().split()[-1]
    assert "is a fork" in refused(shell, fork).err
    session_id = story(shell)
    shutil.rmtree(home(shell) / "checkpoints")
    assert "is not there any more" in refused(shell, session_id).err


def test_texts_with_an_end_are_copied_with_a_warning_and_not_after_it(shell: Shell) -> None:
    session_id = story(shell, "--storage", "ttl:3600")
    ran = shell.run("eval", "from-session", session_id, "--into", "suite")
    assert (ran.code, "does not hold for the task" in ran.err) == (0, True)
    assert CANARY.encode() in everything_below(shell.folder / "suite")
