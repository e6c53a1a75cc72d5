"""`--continue`: a task whose process was killed goes on, from each verb that resumes a session."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from typing import cast

import pytest

from tests.cli.running import DEADLINE_S, NEVER_MS, Shell
from tests.cli.stored_sessions import Screen

NEVER = {"text": "never", "delay_ms": NEVER_MS}
ASKS = ("-c", 'on_restart="continue"')


def cut(shell: Shell) -> str:
    """A session whose process was killed while its model was answering; the model knows the answer now."""
    with shell.start("exec", "--json", "-m", shell.script(NEVER), *ASKS, "hello") as process:
        stdout = process.stdout
        assert stdout is not None
        session_id = json.loads(stdout.readline())["thread_id"]
        while b"turn.started" not in stdout.readline():
            pass
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
    shell.script("Seven beans.")
    return cast(str, session_id)


def by_exec(shell: Shell, session_id: str) -> str:
    ran = shell.run("exec", "resume", session_id, "--continue")
    assert (ran.code, "goes on a task that a crash cut, attempt 1" in ran.err) == (0, True), ran.err
    return ran.out.strip()


def by_exec_json(shell: Shell, session_id: str) -> str:
    ran = shell.run("exec", "resume", session_id, "--continue", "--json")
    types = [line["type"] for line in ran.lines]
    assert (types[0], types.count("turn.started"), types[-1]) == ("thread.started", 1, "turn.completed")
    return next(line["item"]["text"] for line in ran.lines if line.get("item", {}).get("type") == "agent_message")


def by_resume(shell: Shell, session_id: str) -> str:
    ran = shell.run("resume", session_id, "--continue")
    assert ran.code == 0
    return ran.out.splitlines()[-1]


def by_app_server(shell: Shell, session_id: str) -> str:
    with shell.start("app-server", "--resume", session_id, "--continue", stderr=subprocess.DEVNULL) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}\n')
        stdin.flush()
        for line in iter(stdout.readline, b""):
            message = json.loads(line)
            if message.get("params", {}).get("type") == "task_complete":
                return cast(str, message["params"]["data"]["last_assistant_message"])
    raise AssertionError("it never ended")


def by_terminal(shell: Shell, session_id: str) -> str:
    screen = Screen(shell, "resume", session_id, "--continue")
    try:
        screen.until("Seven beans.")
    finally:
        # Twice: close the session and leave.
        screen.type("\x03\x03")
        code = screen.close()
    assert code == 0
    return "Seven beans."


def by_serve(shell: Shell, session_id: str) -> str:
    with shell.start("serve", "--port", "0", stdout=subprocess.DEVNULL) as process:
        stderr = process.stderr
        assert stderr is not None
        lines = iter(stderr.readline, b"")
        assert any(f"1/1 session {session_id}: 1 go on".encode() in line for line in lines)
        assert b"1 in 1 of 1 sessions" in next(lines)
        while "Seven" not in (text := shell.spawn("sessions", "replay", session_id).out):
            pass
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)
    return text.splitlines()[-1]


@pytest.mark.parametrize("verb", [by_exec, by_exec_json, by_resume, by_terminal, by_app_server, by_serve])
def test_what_was_cut_goes_on(shell: Shell, verb: Callable[[Shell, str], str]) -> None:
    """Issue 26, 2."""
    session_id = cut(shell)
    assert verb(shell, session_id) == "Seven beans."
    # It is over, and does not go on twice; its answer is there for the script that asks again.
    again = shell.run("exec", "resume", session_id, "--continue")
    assert (again.code, again.out.strip()) == (0, "Seven beans.")
    assert "goes on" not in again.err


def test_a_setting_that_closes_now_closes_what_was_to_go_on(shell: Shell) -> None:
    """Issue 26, 2: rights are the meet of what they were and what is allowed now; why is said."""
    session_id = cut(shell)
    ran = shell.run("resume", session_id, "--continue", "-c", 'on_restart="close"')
    assert ran.code == 0
    assert "does not go on, and is closed: on_restart is close now" in ran.err
    assert "closed a task" in ran.err


def test_the_flag_is_refused_where_it_means_nothing(shell: Shell) -> None:
    for words in (
        ("exec", "--continue", "hi"),
        ("app-server", "--continue"),
        ("resume", "x", "--follow", "--continue"),
    ):
        assert shell.run(*words).code == 2
