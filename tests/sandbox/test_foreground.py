"""A command on a person's terminal, with a real pseudo-terminal: job control, and a group of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tertulia.sandbox.foreground import ForegroundJob, has_terminal, may_lend
from tests.sandbox.confined import DEADLINE_S, ROOT, need
from tests.sandbox.person import PROMPT, Person

TIERS = {
    "bubblewrap": "-C . sandbox",
    "landlock": "-C . -c sandbox_tier='\"landlock\"' sandbox",
    "none": "-C . sandbox -s danger-full-access",
}
KILL_GROUP = "import os, signal; os.kill(0, signal.SIGKILL)"


@pytest.fixture(params=sorted(TIERS))
def tier(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return request.param


@pytest.fixture(
    params=["bubblewrap", *(pytest.param(name, marks=pytest.mark.torture) for name in ("landlock", "none"))]
)
def usual_tier(request: pytest.FixtureRequest) -> str:
    """The others too, where there is time for it."""
    need(request.param)
    return request.param


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    (tmp_path / "w").mkdir()
    person = Person(tmp_path / "w")
    person.wait_for(PROMPT)
    yield person
    person.close()


def start(person: Person, tier: str, command: str) -> None:
    person.type(f"python -m tertulia {TIERS[tier]} -- {command}\n")


def test_s7_a_signal_to_its_own_group_kills_no_caller(person: Person, tier: str) -> None:
    """S7: `os.kill(0, SIGKILL)` inside; a script that called it goes on."""
    (Path(f"/proc/{person.shell}/cwd").resolve() / "kill.py").write_text(KILL_GROUP)
    line = f"python -m tertulia {TIERS[tier]} -- {sys.executable} -I kill.py; echo the caller lives, $?"
    (Path(f"/proc/{person.shell}/cwd").resolve() / "caller.sh").write_text(line)
    person.type("sh caller.sh; echo its shell says $?\n")
    assert "the caller lives, 137" in person.wait_for("its shell says 0")
    person.wait_for(PROMPT)


def test_s7_a_signal_to_its_own_group_kills_no_caller_without_a_terminal(usual_tier: str, tmp_path: Path) -> None:
    """S7: a group of its own also where there is no terminal; the caller here is a process of this test."""
    (tmp_path / "w").mkdir()
    line = f"{sys.executable} -m tertulia {TIERS[usual_tier]} -- {sys.executable} -I -c '{KILL_GROUP}'; echo lives $?"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERTULIA_HOME": str(tmp_path / "data")}
    ran = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path / "w", env=environment, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False, start_new_session=True,
    )  # fmt: skip
    assert ran.stdout == "lives 137\n", ran.stderr


OPEN_ANEW = """
exec 3<>/proc/self/fd/0 && echo planted >&3; exec 3>&-
cat; echo said; echo wrong >&2
: > /proc/self/fd/1
exit 3
"""


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_a_file_that_a_command_gets_is_not_opened_by_it_anew(tier: str, tmp_path: Path) -> None:
    """A2: through /proc a redirected file, which lies outside the roots, was written in spite of all mounts."""
    need(tier)
    (tmp_path / "w").mkdir()
    input_file, log = tmp_path / "given", tmp_path / "log"
    input_file.write_text("given\n")
    log.write_text("before\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERTULIA_HOME": str(tmp_path / "data")}
    with input_file.open() as stdin, log.open("a") as stdout:
        ran = subprocess.run(
            [sys.executable, "-m", "tertulia", *shlex.split(TIERS[tier]), "--", "sh", "-c", OPEN_ANEW],
            cwd=tmp_path / "w", env=environment, stdin=stdin, stdout=stdout, stderr=stdout,
            timeout=DEADLINE_S, check=False, start_new_session=True,
        )  # fmt: skip
    assert input_file.read_text() == "given\n"
    assert log.read_text().startswith("before\n"), log.read_text()
    assert {"given", "said", "wrong"} <= set(log.read_text().splitlines())
    assert ran.returncode == 3


def test_s7_ctrl_c_reaches_the_command_which_may_go_on(person: Person, usual_tier: str) -> None:
    """S7: and nobody else, so that a program that handles it lives."""
    start(
        person,
        usual_tier,
        "bash --norc -c 'trap \"echo caught\" INT; echo up; read line; echo got $line; exit 5'; echo $?",
    )
    person.wait_for("up\r\n")
    person.type("\x03")
    person.wait_for("caught\r\n")
    person.type("word\n")
    person.wait_for("got")
    person.wait_for("[05]\r\n")
    person.wait_for(PROMPT)


def test_s7_ctrl_z_stops_the_job_and_fg_continues_it(person: Person, tier: str) -> None:
    """S7: the shell is in front meanwhile."""
    start(person, tier, "sh -c 'echo up; read line; echo got:$line'")
    person.wait_for("up\r\n")
    person.type("\x1a")
    person.wait_for("Stopped")
    person.wait_for(PROMPT)
    person.type("echo $((6 * 7))\n")
    person.wait_for("42\r\n")
    person.type("fg\n")
    person.wait_for("tertulia")
    person.type("word\n")
    person.wait_for("got:word")
    person.wait_for(PROMPT)


def test_s7_a_job_that_was_started_behind_waits_for_the_terminal(person: Person, usual_tier: str) -> None:
    """S7: whoever reads from behind is stopped, and the shell keeps its terminal."""
    start(person, usual_tier, "sh -c 'echo up; read line; echo got:$line' &")
    person.wait_for("up\r\n")
    person.type("jobs\n")
    while "Stopped" not in person.wait_for(PROMPT):
        person.type("jobs\n")
    person.type("fg\n")
    person.wait_for("tertulia")
    person.type("word\n")
    person.wait_for("got:word")


def test_s7_an_interactive_shell_works_inside(person: Person, usual_tier: str) -> None:
    """S7: it has job control itself, and the terminal comes back at its end."""
    start(person, usual_tier, "bash --norc --noprofile -i")
    person.type("PS1='inner> '; set -m; echo $-\n")
    assert "no job control" not in person.wait_for("inner> ")
    person.type("sh -c 'echo running; exec sleep 600'\n")
    person.wait_for("running\r\n")
    person.type("\x1a")
    person.wait_for("Stopped")
    person.type("disown -a; exit 3\n")
    person.wait_for(PROMPT)
    person.type("echo outer $?\n")
    person.wait_for("outer \\d+\r\n")


def test_s7_a_raw_terminal_is_one(person: Person, usual_tier: str) -> None:
    """S7: single keys, as an editor reads them."""
    code = "tty.setraw(0); print('up', flush=True); print(ord(sys.stdin.read(1)), end=chr(13) + chr(10))"
    start(person, usual_tier, f'{sys.executable} -I -c "import sys, tty; {code}"; stty sane')
    person.wait_for("up\r?\n")
    person.type("\x03")
    person.wait_for("3\r\n")
    person.wait_for(PROMPT)


def test_s7_in_a_pipeline_the_next_program_keeps_the_terminal(person: Person, usual_tier: str) -> None:
    """S7: as `… | less` needs it."""
    start(person, usual_tier, "echo made | sh -c 'read line < /dev/tty; echo $line; cat'")
    person.type("typed\n")
    person.wait_for("made\r\n")
    person.wait_for(PROMPT)


def test_s7_in_a_pipeline_a_command_that_asks_for_the_terminal_gets_it(person: Person, usual_tier: str) -> None:
    """S7: it is stopped for reading from behind, and then put in front."""
    start(person, usual_tier, "sh -c 'echo up; read line < /dev/tty; echo got:$line' | cat")
    person.wait_for("up\r\n")
    person.type("word\n")
    person.wait_for("got:word")
    person.wait_for(PROMPT)


def test_without_a_terminal_there_is_nothing_to_lend() -> None:
    code = "from tertulia.sandbox.foreground import has_terminal, may_lend; print(has_terminal(), may_lend())"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
        timeout=DEADLINE_S, check=True, start_new_session=True,
    )  # fmt: skip
    assert ran.stdout == "False False\n"


async def test_a_foreground_is_closed_twice_and_leaves_no_descriptor_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    foreground = ForegroundJob()
    foreground.watch(lambda: None)
    foreground.close()
    foreground.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert has_terminal() or not may_lend()
