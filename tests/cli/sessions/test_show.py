"""`tertulia sessions show`."""

from __future__ import annotations

import json

import pytest

from tertulia.cli.sessions.show import shorten_error
from tests.cli.running import Shell
from tests.cli.stored_sessions import DELEGATING, held, home, run_session


def test_a_session_its_conversations_and_its_last_messages(shell: Shell) -> None:
    session_id = run_session(shell, *DELEGATING, text="Have a.py reviewed")
    ran = shell.run("sessions", "show", session_id[:8])
    assert ran.code == 0
    assert ran.out.startswith(f"{session_id}\n  model   scripted/script.json\n")
    assert "policy full" in ran.out
    assert f"  file    {home(shell)}/sessions/{session_id}.db" in ran.out
    tree = [line.split() for line in ran.out.partition("CONVERSATION")[2].splitlines()[1:3]]
    assert [tree[0][0], tree[0][-3:]] == ["root", ["idle", "2", "messages"]]
    assert tree[1][:2] == ["└", "reviewer"]
    assert ran.out.partition("Last messages of root\n")[2].splitlines() == [
        "  user      Have a.py reviewed",
        "  assistant The reviewer says it looks right.",
    ]
    assert "Not stored" not in ran.out


def test_only_the_last_messages_are_shown(shell: Shell) -> None:
    run_session(shell, "one")
    shell.run("exec", "resume", "--last", "second")
    ran = shell.run("sessions", "show", "--last", "--messages", "2")
    assert "Last messages of root, after 2 earlier ones" in ran.out
    assert "  resumed 1 time\n" in ran.out
    assert "hello" not in ran.out
    assert "Last messages" not in shell.run("sessions", "show", "--last", "--messages", "0").out


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("headers-only", "texts: its policy is headers_only"),
        ("none", "everything that was said in 1 task: its policy is none"),
    ],
)
def test_what_is_not_stored_is_said_and_why(shell: Shell, policy: str, expected: str) -> None:
    """S002-16, S002-17."""
    run_session(shell, "canary answers", text="canary asks", flags=("--storage", policy))
    ran = shell.run("sessions", "show", "--last")
    assert ran.code == 0
    assert expected in ran.out.partition("Not stored\n")[2]
    assert "canary" not in ran.out


def test_texts_that_have_expired(shell: Shell) -> None:
    """S002-18."""
    run_session(shell, flags=("--storage", "ttl:0.001"))
    shell.run("sessions", "sweep")
    ran = shell.run("sessions", "show", "--last")
    assert "expired, ttl:0.001" in ran.out


def test_programs_get_one_object(shell: Shell) -> None:
    session_id = run_session(shell, *DELEGATING, text="Have a.py reviewed")
    answer = json.loads(shell.run("sessions", "show", "--last", "--json").out)
    assert answer["session_id"] == session_id
    root, child = answer["conversations"]
    assert (root["status"], root["message_count"], root["not_stored"]) == ("idle", 2, None)
    assert [message["role"] for message in root["messages"]] == ["user", "assistant"]
    assert (child["title"], child["parent_id"], child["depth"]) == ("reviewer", root["id"], 1)


def test_a_session_in_use_can_be_looked_at(shell: Shell) -> None:
    session_id = run_session(shell)
    with held(shell, session_id):
        ran = shell.run("sessions", "show", "--last")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == f"{session_id}  in use by another process"


def test_one_that_is_broken_names_the_file_and_the_way_out(shell: Shell) -> None:
    session_id = run_session(shell)
    file = home(shell) / "sessions" / f"{session_id}.db"
    file.write_bytes(b"nonsense" * 100)
    ran = shell.run("sessions", "show", session_id)
    assert ran.code == 1
    assert str(file) in ran.out
    assert "  trouble the file: it is damaged" in ran.out
    assert shorten_error("nobody knows") == "nobody knows"
    assert shell.run("sessions", "show", session_id, "--json").code == 1


def test_a_task_that_never_ended_is_unfinished(shell: Shell) -> None:
    never = {"text": "never", "delay_ms": 3_600_000}
    with shell.start("exec", "--json", "-m", shell.script(never), "hello") as process:
        assert process.stdout is not None
        session_id = json.loads(process.stdout.readline())["thread_id"]
        process.stdout.readline()
        process.kill()
    ran = shell.run("sessions", "show", session_id)
    assert "unfinished" in ran.out
