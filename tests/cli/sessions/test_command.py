"""`tertulia sessions`: ls, rm, sweep; the other acts have tests of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tertulia.cli.sessions.command import _unique_length
from tertulia.session.checkpoints import places
from tertulia.session.checkpoints.places import drop_memory, hold_memory
from tests.cli.running import Shell
from tests.cli.stored_sessions import DELEGATING, Screen, held, home, ids, run_session
from tests.tables import each_row


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nothing may be stored: not that of the machine, which other tests use."""
    monkeypatch.setattr(places, "_CANDIDATES", (str(tmp_path / "memory"),))
    return tmp_path / "memory"


ACTS = ("ls", "show", "export", "replay", "fork", "rm", "sweep")


def test_the_group_alone_shows_its_help(shell: Shell) -> None:
    ran = shell.run("sessions")
    assert ran.code == 0
    assert all(f"  {act} " in ran.out for act in ACTS)


@pytest.mark.parametrize("act", ACTS)
def test_every_act_has_examples_and_the_global_flags(shell: Shell, act: str) -> None:
    ran = shell.run("sessions", act, "--help")
    assert ran.code == 0
    assert "Examples:\n" in ran.out
    assert "--model" in ran.out


# ---- ls


def test_a_home_without_sessions_says_so(shell: Shell) -> None:
    ran = shell.run("sessions", "ls")
    assert (ran.code, ran.out) == (0, f"No session is stored yet in {home(shell)}.\n")


def test_sessions_are_listed_the_newest_first_with_what_they_are_about(shell: Shell) -> None:
    first = run_session(shell, text="Which tea?")
    second = run_session(shell, *DELEGATING, text="Have a.py reviewed")
    lines = shell.run("sessions", "ls").out.splitlines()
    assert lines[0].split() == ["ID", "LAST", "USED", "CONVERSATIONS", "SIZE", "MODEL", "ABOUT"]
    assert [line.split()[0] for line in lines[1:]] == [second[:8], first[:8]]
    assert lines[1].endswith("scripted/script.json  Have a.py reviewed")
    assert " 2 " in lines[1]
    assert lines[2].endswith("Which tea?")


def test_there_may_be_more_than_are_shown(shell: Shell) -> None:
    stored = {run_session(shell) for _ in range(3)}
    lines = shell.run("sessions", "ls", "--limit", "1").out.splitlines()
    assert len(lines) == 3
    assert lines[-1] == "2 older ones are not shown; --all shows them"
    assert len(shell.run("sessions", "ls", "--all", "--limit", "1").out.splitlines()) == 4
    assert ids(shell) == stored
    assert shell.run("sessions", "ls", "--limit", "0").code == 2


def test_programs_get_an_object_a_line(shell: Shell) -> None:
    session_id = run_session(shell, text="Which tea?")
    (line,) = shell.run("sessions", "ls", "--json").lines
    assert (line["session_id"], line["preview"], line["in_use"]) == (session_id, "Which tea?", False)
    assert (line["storage_policy"], line["conversations"], line["trouble"]) == ("full", 1, None)


def test_a_session_in_use_and_one_that_is_broken_are_marked(shell: Shell) -> None:
    """A crafted or truncated file affects no other session."""
    used, broken = run_session(shell), run_session(shell)
    file = home(shell) / "sessions" / f"{broken}.db"
    file.write_bytes(b"nonsense" * 100)
    with held(shell, used):
        lines = {line.split()[0]: line for line in shell.run("sessions", "ls").out.splitlines()}
    assert "in use" in lines[used[:8]]
    assert "the file: it is damaged" in lines[broken[:8]]


def test_what_was_not_stored_is_not_shown(shell: Shell) -> None:
    """S002-16."""
    run_session(shell, text="canary", flags=("--storage", "headers-only"))
    ran = shell.run("sessions", "ls")
    assert "canary" not in ran.out
    assert "no text is stored" in ran.out


def test_ids_are_shown_as_long_as_they_need_to_be() -> None:
    assert _unique_length(["0123456789a", "1123456789a"]) == 8
    assert _unique_length(["0123456789a", "0123456789b"]) == 11


def test_searching_finds_where_it_was_said(shell: Shell) -> None:
    session_id = run_session(shell, "Oolong is a tea.", text="Which one?")
    run_session(shell, "None.", text="canary", flags=("--storage", "headers-only"))
    ran = shell.run("sessions", "ls", "--search", "OOLONG")
    assert ran.out.splitlines()[0].split() == ["ID", "WHEN", "TYPE", "TEXT"]
    assert ran.out.splitlines()[1].split()[0] == session_id[:8]
    assert ran.out.splitlines()[1].endswith("assistant  Oolong is a tea.")
    (line,) = shell.run("sessions", "ls", "--search", "oolong", "--json").lines
    assert (line["session_id"], line["type"]) == (session_id, "assistant")
    assert shell.run("sessions", "ls", "--search", "canary").out == "No stored text contains this.\n"
    assert shell.run("sessions", "ls", "--search", "").code == 2


# ---- rm


@each_row("words", [("--last",), ("00000000",), ()])
def test_off_a_terminal_nothing_is_deleted_without_yes(shell: Shell, words: tuple[str, ...]) -> None:
    """Issue 19, 15."""
    session_id = run_session(shell)
    ran = shell.spawn("sessions", "rm", *(words or (session_id,)), input=b"y\n")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "tertulia sessions rm: a session is deleted for good, and there is no terminal to ask on: give --yes. "
        "See `tertulia sessions rm --help`.\n"
    )
    assert session_id in ids(shell)


def test_with_yes_it_deletes_what_is_named(shell: Shell) -> None:
    first, second, third = run_session(shell), run_session(shell), run_session(shell)
    ran = shell.run("sessions", "rm", first[:8], second, first, "--yes")
    assert (ran.code, ran.out) == (0, f"{first} is deleted\n{second} is deleted\n")
    assert ids(shell) == {third}
    assert shell.run("sessions", "rm", "--last", "-y").code == 0
    assert ids(shell) == set()


def test_one_that_is_not_there_keeps_all_of_them(shell: Shell) -> None:
    session_id = run_session(shell)
    assert shell.run("sessions", "rm", "--yes", session_id, "00000000").code == 1
    assert shell.run("sessions", "rm", "--yes").code == 2
    assert shell.run("sessions", "rm", "--yes", session_id, "--last").code == 2
    assert ids(shell) == {session_id}


def test_one_in_use_is_not_deleted_and_the_others_are(shell: Shell) -> None:
    """HARDENING F9."""
    used, free = run_session(shell), run_session(shell)
    with held(shell, used):
        ran = shell.run("sessions", "rm", "--yes", used, free)
    assert ran.code == 1
    assert f"session {used}" in ran.err
    assert "is in use" in ran.err
    assert ids(shell) == {used}


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "left"), [("n\n", 1), ("y\n", 0)])
def test_on_a_terminal_it_asks(shell: Shell, answer: str, left: int) -> None:
    session_id = run_session(shell, text="Which tea?")
    screen = Screen(shell, "sessions", "rm", session_id[:8])
    shown = screen.until("for good?")
    assert "Which tea?" in shown
    screen.type(answer)
    screen.until("deleted")
    assert screen.close() == 0
    assert len(ids(shell)) == left


# ---- sweep


def test_a_sweep_says_what_it_did(shell: Shell) -> None:
    """X-31."""
    assert shell.run("sessions", "sweep").out == "Nothing was due.\n"
    session_id = run_session(shell)
    assert shell.run("sessions", "sweep").out == "Nothing was due.\n"
    ran = shell.run("sessions", "sweep", "-c", "retention.max_total_mb=0.000001")
    assert ran.code == 0
    assert ran.out.splitlines()[0].endswith("1 session removed")
    assert ran.out.splitlines()[1] == f"  {session_id} is gone"
    assert ids(shell) == set()


def test_a_dry_run_says_what_a_sweep_would_do_and_does_nothing(shell: Shell) -> None:
    """X-31."""
    assert shell.run("sessions", "sweep", "--dry-run").out == "Nothing is due.\n"
    session_id = run_session(shell)
    limit = ("-c", "retention.max_total_mb=0.000001")
    ran = shell.run("sessions", "sweep", "--dry-run", *limit)
    assert ran.code == 0
    assert ran.out.splitlines()[0].endswith("1 session would be removed; nothing was.")
    assert ran.out.splitlines()[1] == f"  {session_id} would go"
    assert ids(shell) == {session_id}
    with held(shell, session_id):
        ran = shell.run("sessions", "sweep", "--dry-run", *limit)
    assert ran.out.splitlines() == ["Nothing is due.", f"  {session_id} is in use: its owner sweeps it"]


def test_a_sweep_removes_checkpoints_that_are_due_and_leaves_the_others(shell: Shell) -> None:
    """26-1: by `retention.checkpoints`; `sweep` does it, not only the next start."""
    write = {"tool_calls": [{"name": "shell", "arguments": {"command": ["sh", "-c", "echo two > a"]}}]}
    run_session(shell, write, "done", flags=("-s", "danger-full-access", "-a", "never"))
    assert (shell.folder / "a").exists()
    place = home(shell) / "checkpoints"
    assert len(list(place.iterdir())) == 1
    assert shell.run("sessions", "sweep", "--dry-run").out == "Nothing is due.\n"
    assert shell.run("sessions", "sweep").out == "Nothing was due.\n"
    old = ("-c", "retention.checkpoints={max_age_days=0.0000001}")
    ran = shell.run("sessions", "sweep", "--dry-run", *old)
    assert (ran.code, ran.out) == (0, "1 checkpoint would be removed; nothing was.\n")
    assert len(shell.run("checkpoints", "--json").lines) == 1
    ran = shell.run("sessions", "sweep", *old)
    assert (ran.code, ran.out) == (0, "1 checkpoint removed, 1 recorded workspace removed\n")
    assert not place.exists()
    assert shell.run("checkpoints", "--json").lines == []


def test_a_sweep_removes_what_killed_sessions_left_in_memory_and_not_what_is_used(shell: Shell, memory: Path) -> None:
    """26-1: under `none` until the session closes, however that ends."""
    killed, used = (memory / f"tertulia-{os.getuid()}" / name for name in ("killed", "used"))
    for folder in (killed, used):
        folder.mkdir(parents=True)
        (folder / "content").write_text("what nothing may store")
    number = hold_memory(used)
    assert number is not None
    assert shell.run("sessions", "sweep", "--dry-run").out == "1 memory folder would be removed; nothing was.\n"
    assert shell.run("sessions", "sweep").out == "1 memory folder removed\n"
    assert (killed.exists(), (used / "content").exists()) == (False, True)
    drop_memory(used, number)


def test_looking_leaves_nothing_beside_a_session(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """E7: readers need a journal's files; they are gone with them."""
    home = shell.folder / "data"
    monkeypatch.setenv("TERTULIA_HOME", str(home))
    session_id = run_session(shell)
    for words in (("ls",), ("ls", "--search", "tea"), ("show", "--last"), ("export", "--last"), ("replay", "--last")):
        assert shell.run("sessions", *words).code == 0
        beside = {path.name for path in (home / "sessions").iterdir()}
        assert beside - {"index.db"} == {f"{session_id}.db"}, words


def test_a_sweep_leaves_sessions_in_use_to_their_owners_and_tells_of_errors(shell: Shell) -> None:
    session_id = run_session(shell)
    with held(shell, session_id):
        ran = shell.run("sessions", "sweep", "-c", "retention.max_total_mb=0.000001")
    assert ran.code == 0
    assert f"  {session_id} is in use: its owner sweeps it" in ran.out
    assert ids(shell) == {session_id}
    assert shell.run("sessions", "sweep", "-c", "retention.max_age_days=0").code == 2


def test_what_cannot_be_swept_is_exit_code_1(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from tertulia.rollout.sweep.retention import HomeSweepResult

    run_session(shell)
    broken = HomeSweepResult(troubles=("it is broken",))
    monkeypatch.setattr("tertulia.rollout.sweep.home_sweep.sweep_home", lambda *arguments, progress: broken)
    ran = shell.run("sessions", "sweep")
    assert (ran.code, ran.err) == (1, "tertulia: it is broken\n")


def test_every_json_line_is_one_line(shell: Shell) -> None:
    """HARDENING E11."""
    run_session(shell, text="a\u2028b\x85c")
    out = shell.run("sessions", "ls", "--json").out
    assert len(out.splitlines()) == 1
    assert json.loads(out)["preview"] == "a b c"


def said(shell: Shell, session_id: str) -> list[str]:
    shown = json.loads(shell.run("sessions", "show", session_id, "--json").out)
    return [message["text"] for message in shown["conversations"][0]["messages"]]


def test_it_prints_the_new_id_and_nothing_else(shell: Shell) -> None:
    old = run_session(shell, text="Which tea?")
    ran = shell.run("sessions", "fork", old[:8])
    new = ran.out.strip()
    assert (ran.code, ran.err, ran.out) == (0, "", f"{new}\n")
    assert ids(shell) == {old, new}
    assert said(shell, new) == ["Which tea?", "Good morning."]
    again = shell.run("exec", "resume", new, "and?")
    assert (again.code, again.out) == (0, "Good morning.\n")
    assert said(shell, old) == ["Which tea?", "Good morning."]


def test_at_a_round_at_an_item_and_at_nothing(shell: Shell) -> None:
    old = run_session(shell)
    shell.run("exec", "resume", "--last", "second")
    shown = json.loads(shell.run("sessions", "show", old, "--json").out)
    third = shown["conversations"][0]["messages"][2]["id"]
    assert said(shell, shell.run("sessions", "fork", old, "--at", "1").out.strip()) == ["hello", "Good morning."]
    assert len(said(shell, shell.run("sessions", "fork", old, "--at", third).out.strip())) == 3
    before = ids(shell)
    refused = shell.run("sessions", "fork", old, "--at", "9")
    assert (refused.code, refused.out) == (1, "")
    assert "there are 2 rounds" in refused.err
    assert ids(shell) == before


def test_another_conversation_of_a_session_in_use(shell: Shell) -> None:
    old = run_session(shell, *DELEGATING)
    shown = json.loads(shell.run("sessions", "show", old, "--json").out)
    child = shown["conversations"][1]["id"]
    with held(shell, old):
        new = shell.run("sessions", "fork", old, "--conversation", child[:8]).out.strip()
    assert said(shell, new) == ["Review a.py", "Looks right."]
