"""Issue 26 (4): `tertulia replay --model` asks another model the same, in a copy of the first files."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import NEVER_MS, Shell
from tests.cli.stored_sessions import ids
from tests.deadlines import HANG_S
from tests.sandbox.confined import need


@pytest.fixture(autouse=True)
def confined() -> None:
    """Calls that write are confined, and recorded only then."""
    need("bubblewrap")


def tool(script: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "shell", "arguments": {"command": ["sh", "-c", script]}}]}


def story(shell: Shell, *flags: str) -> str:
    """A session of two messages, which changes a file and adds one."""
    (shell.folder / "a").write_text("one\n")
    model = shell.script(tool("echo two > a; echo secret > b"), "Done.")
    first = shell.run("exec", "--json", "-m", model, "-a", "never", *flags, "Change a")
    assert first.code == 0, first.err
    (shell.folder / "script.json").write_text(json.dumps({"replies": ["Nothing more."]}))
    assert shell.run("exec", "resume", "--last", "What else?").code == 0
    return first.lines[0]["thread_id"]


def other(shell: Shell, *replies: Any) -> str:
    (shell.folder / "other.json").write_text(json.dumps({"replies": replies}))
    return "scripted/other.json"


def test_both_transcripts_stand_beside_each_other(shell: Shell) -> None:
    """With tokens, cost, calls and files; the session's own directory is neither read nor changed."""
    session_id = story(shell)
    look = f"cat a; cat {shell.folder}/b; echo three > a; echo x > {shell.folder}/c"
    model = other(shell, tool(look), "Changed <b>otherwise</b>.", "That is all.")
    ran = shell.run("replay", session_id[:8], "-m", model, "-a", "never", "--html", "both.html")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0] == "you Change a"
    assert lines[1].startswith("· $ echo two > a; echo secret > b")
    assert " │ ✗ $ cat a; cat" in lines[1]
    assert any(line.startswith("Done.  ") for line in lines)
    assert any(line.endswith("│ Changed <b>otherwise</b>.") for line in lines)
    assert any(line.startswith("Nothing more.  ") and line.endswith("│ That is all.") for line in lines)
    assert "changed a, added b" in ran.out
    assert [path.read_text() for path in map(shell.folder.joinpath, "ab")] == ["two\n", "secret\n"]
    assert not (shell.folder / "c").exists()
    page = (shell.folder / "both.html").read_text()
    assert "Changed &lt;b&gt;otherwise&lt;/b&gt;." in page
    assert "http" not in page.replace("http-equiv", "")
    looking = other(shell, tool(f"cat {shell.folder}/b; ls -a {shell.folder}; true"), "No.", "No.")
    again = shell.run("sessions", "replay", session_id, "-m", looking, "-a", "never", "--json").lines[0]
    assert [line["text"] for line in again["right"]["answers"][1]] == ["No."]
    assert again["right"]["spent"]["input_tokens"] > 0
    assert again["left"]["changes"] == [{"path": "a", "act": "changed"}, {"path": "b", "act": "added"}]
    assert again["right"]["changes"] == []
    # It has seen nothing of what came of the session.
    assert "secret" not in shell.run("sessions", "export", again["right"]["session_id"]).out
    # What the other model was asked is a session that can be played as well.
    assert "you What else?" in shell.run("sessions", "replay", again["right"]["session_id"]).out
    assert list(Path("/tmp").glob("tertulia-eval-*/workspace")) == []


def test_it_stops_where_the_other_model_fails(shell: Shell) -> None:
    story(shell)
    ran = shell.run("replay", "--last", "-m", other(shell, {"error": "The provider is overloaded"}, "never asked"))
    assert ran.code == 1
    assert "not sent" in ran.out
    assert "overloaded" in ran.out.splitlines()[-1]


def test_a_budget_and_narrow_rights_hold(shell: Shell) -> None:
    """The rights of the session are a ceiling: what it might not write, the other model may not either."""
    story(shell)
    spent = shell.run("replay", "--last", "-m", other(shell, "One.", "Two."), "-c", "budget={tokens=10}")
    assert (spent.code, "of 10 tokens" in spent.out, "Two." in spent.out) == (1, True, False)
    (shell.folder / "p").mkdir()
    reading = shell.run("exec", "--json", "-s", "read-only", "-m", shell.script("Hi."), "hello").lines[0]["thread_id"]
    model = other(shell, tool("echo x > new"), "Done.")
    ran = shell.run("replay", reading, "-m", model, "--files", "p", "-s", "danger-full-access", "--json")
    assert ran.lines[0]["right"]["changes"] == []
    assert ran.lines[0]["right"]["spent"]["failed_calls"] == 1


def test_only_the_copy_is_written_and_only_what_the_session_reached(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the settings of now allow, with a name that is not UTF-8, and a page for its user alone."""
    session_id, outside = story(shell), tmp_path_factory.mktemp("outside")
    model = other(shell, tool(f"echo x > \"$(printf 'n\\377')\"; echo x > {outside}/x"), "Done.", "Done.")
    rights = ("-a", "never", "--add-dir", str(outside), "-c", "network=true")
    ran = shell.run("replay", session_id, "-m", model, *rights, "--json", "--html", "both.html")
    assert ran.code == 0, ran.err
    assert ran.lines[0]["right"]["changes"] == [{"path": "n\\xff", "act": "added"}]
    assert list(outside.iterdir()) == []
    assert (shell.folder / "both.html").stat().st_mode & 0o777 == 0o600
    lines = shell.run("sessions", "export", ran.lines[0]["right"]["session_id"]).lines
    (terms,) = [line["record"] for line in lines if line.get("kind") == "agreed"]
    assert '"network":false' in json.dumps(terms, separators=(",", ":")).replace("\\", ""), terms


def test_what_cannot_be_done_is_refused_before_a_model_is_asked(shell: Shell) -> None:
    """And no session is begun for it."""
    session_id = story(shell)
    headers = shell.run("exec", "--json", "-m", shell.script("Hi."), "--storage", "headers-only", "hello")
    before = ids(shell)
    model = other(shell, "never asked")
    for words, code, reason in (
        ((session_id, "--html", "x.html"), 2, "go with --model"),
        ((session_id, "-m", model, "--verify"), 2, "leave out --model"),
        ((session_id, "-m", model, "--html", "nowhere/x.html"), 2, "nowhere is no folder that can be written"),
        ((session_id, "-m", "nobody/knows"), 2, "nobody"),
        ((headers.lines[0]["thread_id"], "-m", model), 1, "texts of its messages are not stored"),
        ((session_id, "-m", model, "--files", "nowhere"), 2, "nowhere"),
    ):
        ran = shell.run("replay", *words)
        assert (ran.code, reason in ran.err) == (code, True), ran.err
    assert ids(shell) == before


def test_the_stricter_policy_holds_for_the_copy(shell: Shell) -> None:
    session_id = story(shell, "--storage", "ttl:3600")
    answer = shell.run("replay", session_id, "-m", other(shell, "One.", "Two."), "--json").lines[0]
    lines = shell.run("sessions", "export", answer["right"]["session_id"]).lines
    assert [line["record"]["storage"] for line in lines if line.get("kind") == "agreed"] == [{"ttl": 3600.0}]


def test_a_signal_stops_it_and_shows_what_there_is(shell: Shell) -> None:
    story(shell)
    model = other(shell, "One.", {"text": "late", "delay_ms": NEVER_MS})
    with shell.start("replay", "--last", "-m", model, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        while b"message 2 of 2" not in (line := process.stdout.readline()):
            assert line, "it ended before the second message"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, out
    assert b"One." in out
    assert out.splitlines()[-1] == b"scripted/other.json: stopped"
