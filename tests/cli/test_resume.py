"""`tertulia resume`: what came back, going on, and watching somebody else."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.running import DEADLINE_S, NEVER_MS, Shell
from tests.cli.stored_sessions import DELEGATING, Screen, held, run_session

NEVER = {"text": "never", "delay_ms": NEVER_MS}


def test_off_a_terminal_it_shows_what_came_back_and_ends(shell: Shell) -> None:
    session_id = run_session(shell, *DELEGATING, text="Have a.py reviewed")
    ran = shell.run("resume", session_id[:8])
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == f"{session_id}  scripted/script.json"
    assert [line.split()[0] for line in lines[1:4]] == ["CONVERSATION", "root", "└"]
    assert lines[5:7] == ["you Have a.py reviewed", "The reviewer says it looks right."]


def test_only_the_last_messages_are_repeated(shell: Shell) -> None:
    run_session(shell)
    for _ in range(3):
        shell.run("exec", "resume", "--last", "again")
    out = shell.run("resume", "--last").out
    assert "after 2 earlier messages of root:" in out
    assert "hello" not in out


def test_what_did_not_come_back_is_said(shell: Shell) -> None:
    """S002-16: a clear answer about what cannot be restored."""
    run_session(shell, text="canary", flags=("--storage", "headers-only"))
    ran = shell.run("resume", "--last")
    assert ran.code == 0
    assert "texts: they were not stored, its storage policy is headers_only" in ran.err
    assert "canary" not in ran.out + ran.err


def test_a_title_that_was_not_stored_is_said(shell: Shell) -> None:
    """Issue 19, 15: after every resume, and nowhere the title itself."""
    session_id = run_session(shell, *DELEGATING, flags=("--storage", "headers-only"))
    shown = shell.run("sessions", "show", session_id)
    assert "its title and 3 texts: its policy is headers_only" in shown.out
    (child,) = [line["id"] for line in shell.run("conv", "ls", "--last", "--json").lines if line["parent_id"]]
    lost = f"conversation {child} comes back without its title and 2 texts: they were not stored, its storage policy is"
    for words in (("resume", session_id), ("resume", session_id), ("conv", "ls", "--last")):
        ran = shell.run(*words)
        assert lost in ran.err, words
        assert ran.err.count("its title") == 1
        assert "reviewer" not in ran.out + ran.err


def test_a_process_that_died_leaves_a_task_that_is_closed(shell: Shell) -> None:
    """Resume runs nothing."""
    with shell.start("exec", "--json", "-m", shell.script(NEVER), "hello") as process:
        assert process.stdout is not None
        session_id = json.loads(process.stdout.readline())["thread_id"]
        process.stdout.readline()
        process.kill()
    ran = shell.run("resume", session_id)
    assert ran.code == 0
    assert "closed a task that was running when its process died" in ran.err
    assert "idle" in ran.out


def test_a_session_in_use_names_its_id_its_file_its_owner_and_the_way_out(shell: Shell) -> None:
    """HARDENING F9; issue 5, 6."""
    session_id = run_session(shell)
    with held(shell, session_id):
        ran = shell.run("resume", "--last")
    assert (ran.code, ran.out) == (1, "")
    for word in (session_id, f"{session_id}.db", "process ", "--follow"):
        assert word in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_model_that_is_gone_is_told_with_the_way_out(shell: Shell) -> None:
    run_session(shell)
    (shell.folder / "script.json").unlink()
    ran = shell.run("resume", "--last")
    assert ran.code == 2
    assert "script.json" in ran.err
    assert "-m names another" in ran.err
    (shell.folder / "other.json").write_text('["Hello."]')
    assert shell.run("resume", "--last", "-m", "scripted/other.json").code == 0


@pytest.mark.slow
def test_on_a_terminal_one_conversations(shell: Shell) -> None:
    run_session(shell)
    screen = Screen(shell, "resume", "--plain", "--last")
    shown = screen.until("› ")
    assert "you hello" in shown
    assert "Ctrl-D leaves" in shown
    screen.type("How are you?\n")
    screen.until("tokens")
    screen.until("› ")
    screen.type("\x04")
    assert screen.close() == 0
    lines = shell.run("conv", "history", "root", "--last").out.splitlines()
    assert lines[-2:] == ["user      How are you?", "assistant Good morning."]


@pytest.mark.slow
def test_one_watches_what_another_process_does_until_it_is_done(shell: Shell) -> None:
    """Issue 5, 6: a read-only live view."""
    session_id = run_session(shell)
    shell.script("Late.", NEVER)
    owner = Screen(shell, "resume", "--plain", session_id)
    owner.until("› ")
    watcher = Screen(shell, "resume", session_id, "--follow")
    watcher.until("you hello")
    owner.type("Are you there?\n")
    watcher.until("Late.")
    assert "you Are you there?" in watcher.seen
    owner.until("› ")
    owner.type("\x04")
    assert owner.close() == 0
    assert watcher.close() == 0


@pytest.mark.slow
def test_whoever_watches_may_leave_and_disturbs_nobody(shell: Shell) -> None:
    session_id = run_session(shell)
    owner = Screen(shell, "resume", "--plain", session_id)
    owner.until("› ")
    watcher = Screen(shell, "resume", session_id, "--follow")
    watcher.until("Good morning.")
    watcher.process.send_signal(signal.SIGINT)
    assert watcher.close() == 130
    owner.type("Still there?\n")
    owner.until("tokens")
    owner.until("› ")
    owner.type("\x04")
    assert owner.close() == 0


def test_watching_a_session_that_nobody_has_shows_it_and_ends(shell: Shell) -> None:
    run_session(shell)
    ran = shell.run("resume", "--last", "--follow")
    assert (ran.code, ran.out) == (0, "you hello\nGood morning.\n")
    assert ran.err.startswith("watching ")


# ---- exec resume


def test_exec_goes_on_with_a_stored_session(shell: Shell) -> None:
    session_id = run_session(shell)
    ran = shell.run("exec", "resume", session_id[:8], "And now?")
    assert (ran.code, ran.out) == (0, "Good morning.\n")
    assert shell.spawn("exec", "resume", "--last", "-", input=b"From a pipe\n").code == 0
    lines = shell.run("conv", "history", "root", "--session", session_id, "--json").lines
    assert [line["text"] for line in lines if line["role"] == "user"] == ["hello", "And now?", "From a pipe"]


def test_json_has_the_same_thread_and_only_what_is_new(shell: Shell) -> None:
    """DESIGN, Sessions: the thread is the session."""
    model = shell.script("One.", "Two.")
    first = shell.run("exec", "--json", "-m", model, "hello").lines
    again = shell.run("exec", "resume", "--json", first[0]["thread_id"], "And now?").lines
    assert again[0]["type"] == "thread.started"
    assert again[0]["thread_id"] == first[0]["thread_id"]
    assert min(line["seq"] for line in again if "seq" in line) > max(line["seq"] for line in first if "seq" in line)
    assert [line["type"] for line in again[1:]] == ["turn.started", "item.completed", "turn.completed"]


def test_without_a_prompt_it_shows_the_last_answer_and_runs_nothing(shell: Shell) -> None:
    session_id = run_session(shell)
    ran = shell.run("exec", "resume", "--last")
    assert (ran.code, ran.out) == (0, "Good morning.\n")
    (line,) = shell.run("exec", "resume", "--last", "--json").lines
    assert line["thread_id"] == session_id
    assert len(shell.run("conv", "history", "root", "--last", "--json").lines) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["resume"], 2, "which session?"),
        (["resume", "00000000", "x"], 1, "no session"),
        (["resume", "zz", "x"], 2, "is no session"),
        (["--last", "x"], 2, "--last goes with `exec resume`"),
        (["resume", "--last", "one", "two"], 2, "put it in quotes"),
    ],
)
def test_mistakes_of_exec_resume(shell: Shell, arguments: list[str], code: int, expected: str) -> None:
    run_session(shell)
    ran = shell.run("exec", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert expected in ran.err
    assert len(ran.err.splitlines()) == 1


def test_flags_hold_for_a_session_that_goes_on(shell: Shell) -> None:
    """Settings matter: the storage policy narrows what was stored, the directory is where root works."""
    session_id = run_session(shell, text="canary")
    elsewhere = shell.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "script.json").write_text('["There."]')
    ran = shell.run("exec", "resume", session_id, "-C", str(elsewhere), "--storage", "headers-only", "where?")
    assert ran.code == 0
    export = shell.run("sessions", "export", session_id).out
    assert "canary" not in export
    assert '"storage":"headers_only"' in export


# ---- app-server --resume


def request(id: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def test_a_stored_session_is_served(shell: Shell) -> None:
    session_id = run_session(shell)
    sent = request(1, "initialize") + request(2, "conversation/history", conversation_id="root")
    ran = shell.spawn("app-server", "--resume", session_id[:8], input=sent)
    assert (ran.code, ran.err) == (0, "")
    answers = {line["id"]: line["result"] for line in ran.lines if "id" in line}
    assert answers[1]["session_id"] == session_id
    assert [entry["text"] for entry in answers[2]["entries"]] == ["hello", "Good morning."]
    types = [line["params"]["type"] for line in ran.lines if line.get("method") == "event"]
    assert types[0] == "session_configured"
    assert "subscriber_lagged" not in types


def test_one_that_cannot_be_served_is_told_before_anything_is(shell: Shell) -> None:
    session_id = run_session(shell)
    assert shell.run("app-server", "--resume", "00000000").code == 1
    with held(shell, session_id), shell.start("app-server", "--resume", session_id) as process:
        out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (1, b"")
    assert b"is in use" in err
