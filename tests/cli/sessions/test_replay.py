"""`tertulia sessions replay`: played again, or proved."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tertulia.cli.sessions import replay
from tertulia.protocol.storage import Full
from tertulia.rollout.sqlite.database import connect_owner
from tertulia.rollout.sqlite.head import Head
from tertulia.rollout.sqlite.table import insert
from tertulia.rollout.store import Row
from tests.cli.running import Shell
from tests.cli.stored_sessions import DELEGATING, held, home, run_session

STORY = [
    "you Have a.py reviewed",
    'call conv_create {"user_instruction":"Review a.py","title":"reviewer"}',
    "reviewer was asked Review a.py",
    "reviewer said Looks right.",
]


def test_a_session_is_told_again(shell: Shell) -> None:
    session_id = run_session(shell, *DELEGATING, text="Have a.py reviewed")
    ran = shell.run("sessions", "replay", session_id[:8])
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:4] == STORY
    assert lines[-1] == "The reviewer says it looks right."


def test_json_lines_are_those_that_exec_printed(shell: Shell) -> None:
    model = shell.script(*DELEGATING)
    live = shell.run("exec", "--json", "-m", model, "Have a.py reviewed")
    ran = shell.run("sessions", "replay", "--last", "--json")
    assert ran.code == 0
    assert ran.lines == live.lines


def test_a_session_that_was_resumed_is_still_one_thread(shell: Shell) -> None:
    session_id = run_session(shell)
    shell.run("exec", "resume", "--last", "and then?")
    lines = shell.run("sessions", "replay", "--last", "--json").lines
    assert [line["thread_id"] for line in lines if line["type"] == "thread.started"] == [session_id]
    assert sum(line["type"] == "turn.completed" for line in lines) == 2
    shown_lines = shell.run("sessions", "replay", "--last").out.splitlines()
    assert shown_lines[0] == "you hello"
    assert shown_lines[2].startswith("resumed ")
    assert shown_lines[3] == "you and then?"


def test_one_conversation_alone(shell: Shell) -> None:
    run_session(shell, *DELEGATING, text="Have a.py reviewed")
    shown = json.loads(shell.run("sessions", "show", "--last", "--json").out)
    child = shown["conversations"][1]["id"]
    ran = shell.run("sessions", "replay", "--last", "--conversation", child[:8])
    assert ran.out.splitlines() == ["you Review a.py", "Looks right."]
    lines = shell.run("sessions", "replay", "--last", "--json", "--conversation", child).lines
    assert {line["conversation_id"] for line in lines[1:]} == {child}
    assert lines[-1]["type"] == "turn.completed"
    assert shell.run("sessions", "replay", "--last", "--conversation", "root").out.splitlines()[0] == STORY[0]
    for word, problem in (("nobody", "no conversation"), ("", "more than one conversation (2)")):
        refused = shell.run("sessions", "replay", "--last", "--conversation", word)
        assert refused.code == 1
        assert problem in refused.err


@pytest.mark.parametrize("speed", ["0", "-1", "inf", "nan", "fast"])
def test_a_speed_that_is_none(shell: Shell, speed: str) -> None:
    run_session(shell)
    assert shell.run("sessions", "replay", "--last", "--speed", speed).code == 2


def test_it_can_be_fast_and_be_followed_to_the_end(shell: Shell) -> None:
    run_session(shell)
    ran = shell.run("sessions", "replay", "--last", "--speed", "1000", "--follow")
    assert (ran.code, ran.out) == (0, "you hello\nGood morning.\n")


def test_a_session_in_use_can_be_watched(shell: Shell) -> None:
    session_id = run_session(shell)
    with held(shell, session_id):
        assert shell.run("sessions", "replay", "--last").code == 0


def test_somebody_who_stops_it_is_told_by_the_exit_code(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run_session(shell)

    async def stopped(*arguments: object, **options: object) -> bool:
        return False

    monkeypatch.setattr(replay, "play_record", stopped)
    assert shell.run("sessions", "replay", "--last").code == 130


def test_one_that_is_broken_names_the_file(shell: Shell) -> None:
    session_id = run_session(shell)
    file = home(shell) / "sessions" / f"{session_id}.db"
    file.write_bytes(b"nonsense" * 100)
    ran = shell.run("sessions", "replay", session_id)
    assert ran.code == 1
    assert str(file) in ran.err


# ---- --verify


def test_every_prompt_is_proved(shell: Shell) -> None:
    """S002-15."""
    run_session(shell, *DELEGATING)
    ran = shell.run("sessions", "replay", "--last", "--verify")
    assert (ran.code, ran.out) == (0, "3 of 3 prompts came out as they were sent.\n")
    assert [line["outcome"] for line in shell.run("sessions", "replay", "--last", "--verify", "--json").lines] == [
        "same"
    ] * 3


def test_one_prompt_is_told_as_one(shell: Shell) -> None:
    run_session(shell)
    assert shell.run("sessions", "replay", "--last", "--verify").out == "1 of 1 prompt came out as it was sent.\n"


def test_what_cannot_be_rebuilt_is_said(shell: Shell) -> None:
    run_session(shell, flags=("--storage", "headers-only"))
    ran = shell.run("sessions", "replay", "--last", "--verify")
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith("unknown    record ")
    assert ran.out.splitlines()[1:] == [
        "0 of 0 prompts came out as they were sent.",
        "1 prompt cannot be rebuilt: not all that was sent is stored, or stored as it was.",
    ]


def test_a_prompt_that_comes_out_different_is_exit_code_1(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run_session(shell)
    monkeypatch.setattr(
        "tertulia.session.resume.replay_verification.full_instructions", lambda *arguments, **options: "Others."
    )
    ran = shell.run("sessions", "replay", "--last", "--verify")
    assert ran.code == 1
    assert ran.out.splitlines()[0].startswith("different  record ")
    assert ran.out.splitlines()[0].endswith(": instructions")
    assert "1 prompt came out different." in ran.out


def test_where_nobody_was_asked_there_is_nothing_to_prove(shell: Shell) -> None:
    run_session(shell)
    shell.run("sessions", "fork", "--last")
    assert "there is no prompt" in shell.run("sessions", "replay", "--last", "--verify").out


def by_hand(shell: Shell, session_id: str, statement: str) -> None:
    """What somebody with an editor of databases does."""
    with closing(sqlite3.connect(home(shell) / "sessions" / f"{session_id}.db", isolation_level=None)) as connection:
        connection.execute(statement)


_LAST_MESSAGE = "(SELECT max(n) FROM record WHERE kind = 'said' AND type = 'user')"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (f"n >= {_LAST_MESSAGE}", "records are missing at the end: "),
        ("n = (SELECT max(n) FROM record)", "1 record is missing at the end: "),
        ("kind = 'said' AND type = 'assistant'", "1 record is missing between "),
        ("n = -2", "the head of the record was removed"),
    ],
)
def test_records_that_were_deleted_are_exit_code_1_and_named(shell: Shell, where: str, expected: str) -> None:
    """R2: from the last message on, the last, one in the middle, and the head itself."""
    session_id = run_session(shell)
    assert shell.run("sessions", "replay", session_id, "--verify").code == 0
    by_hand(shell, session_id, f"DELETE FROM record WHERE {where}")
    for form in ((), ("--json",)):
        ran = shell.run("sessions", "replay", session_id, "--verify", *form)
        assert ran.code == 1
        assert f"{session_id}.db: " in ran.err
        assert expected in ran.err


def test_a_record_of_an_earlier_format_is_refused(shell: Shell) -> None:
    """Issue 21: with one sentence that says which format it is and what to do."""
    session_id = run_session(shell)
    by_hand(shell, session_id, "PRAGMA user_version = 2")
    ran = shell.run("sessions", "replay", session_id, "--verify")
    assert (ran.code, ran.out) == (1, "")
    assert "before its first release (format 2, this one reads 3); move it away" in ran.err


def test_what_a_process_wrote_after_its_last_answer_is_not_proved(shell: Shell) -> None:
    """R2: it died before the head could be written; more may have followed."""
    session_id = run_session(shell)
    with closing(connect_owner(home(shell) / "sessions" / f"{session_id}.db", durable=False)) as connection:
        last = connection.execute("SELECT max(n) FROM record").fetchone()[0]
        insert(connection, [Row(last + 1, "later", "", 0.0, None, 0, 0, b"{}", None, Full())], Head.of(connection))
    ran = shell.run("sessions", "replay", session_id, "--verify")
    assert ran.out.splitlines()[-1] == "1 record came after the last answer: that no more followed is not proved."


@pytest.mark.parametrize("verb", [("resume",), ("exec", "resume")])
def test_who_resumes_a_record_with_a_hole_is_told_so(shell: Shell, verb: tuple[str, ...]) -> None:
    """R2: on standard error, every time; it goes on with what is left, and the next proof still names it."""
    session_id = run_session(shell)
    by_hand(shell, session_id, "DELETE FROM record WHERE kind = 'said' AND type = 'assistant'")
    for _ in range(2):
        ran = shell.run(*verb, session_id)
        assert ran.code == 0, ran.err
        assert "1 record of this session is missing; it goes on with what is left" in ran.err
    assert shell.run("sessions", "replay", session_id, "--verify").code == 1
    by_hand(shell, session_id, "DELETE FROM record WHERE n = -2")
    assert "the head of this session's record was removed" in shell.run(*verb, session_id).err
