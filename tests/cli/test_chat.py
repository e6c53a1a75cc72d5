"""A conversation at the terminal: lines, keys that edit, stop and leave, and questions that are answered."""

from __future__ import annotations

import json
import select
import signal
from typing import Any

import pytest

from tests.cli.running import NEVER_MS, Shell
from tests.cli.stored_sessions import Screen, home, ids, run_session
from tests.contract.serving_tools import spoilt
from tests.sandbox.confined import need

pytestmark = pytest.mark.slow
UP, CTRL_D = "\x1b[A", "\x04"
PROMPT = "› "


def chat(shell: Shell, *replies: Any, flags: tuple[str, ...] = ()) -> Screen:
    screen = Screen(shell, "--plain", "-m", shell.script(*replies, repeat=True), *flags)
    screen.until(PROMPT)
    return screen


def leave(screen: Screen) -> int:
    screen.type(CTRL_D)
    return screen.close()


def user_texts(shell: Shell) -> list[str]:
    """What the model was told by a person in the newest session."""
    lines = shell.run("conv", "history", "root", "--last", "--json").lines
    return [entry["text"] for line in lines for entry in line.get("entries", [line]) if entry.get("role") == "user"]


def test_without_a_command_a_new_session_begins_and_says_what_it_is(shell: Shell) -> None:
    """Issue 19, 3: always a new one, and one line about those before."""
    before = run_session(shell)
    screen = chat(shell, "Hello.")
    assert "scripted/script.json · " in screen.seen
    assert str(shell.folder) in screen.seen
    assert "workspace-write" in screen.seen
    assert "1 earlier session: `tertulia resume --last`" in screen.seen
    screen.type("hi\n")
    screen.until("Hello.")
    screen.until(PROMPT)
    assert leave(screen) == 0
    assert len(ids(shell) - {before}) == 1
    assert user_texts(shell) == ["hi"]


def test_commands_never_go_to_the_model(shell: Shell) -> None:
    screen = chat(shell, "Hello.")
    screen.type("/help\n")
    screen.until("/conv ls")
    screen.until(PROMPT)
    screen.type("/conversations\n")
    screen.until("root")
    screen.until(PROMPT)
    screen.type("/nonsense\n")
    screen.until("there is no command /nonsense")
    screen.until(PROMPT)
    screen.type("//etc is a path\n")
    screen.until("Hello.")
    screen.until(PROMPT)
    screen.type("/exit\n")
    assert screen.close() == 0
    assert user_texts(shell) == ["/etc is a path"]


def test_the_arrow_key_brings_back_a_line_and_is_not_sent(shell: Shell) -> None:
    screen = chat(shell, "Hello.")
    screen.type("first\n")
    screen.until("tokens")
    screen.until(PROMPT)
    screen.type(f"{UP}\n")
    screen.until("tokens")
    screen.until(PROMPT)
    assert leave(screen) == 0
    assert user_texts(shell) == ["first", "first"]


def test_a_paste_of_several_lines_is_one_message(shell: Shell) -> None:
    screen = chat(shell, "Hello.")
    screen.type("\x1b[200~one\ntwo\nthree\x1b[201~\n")
    screen.until("tokens")
    screen.until(PROMPT)
    assert leave(screen) == 0
    assert user_texts(shell) == ["one\ntwo\nthree"]


def test_lines_are_there_in_the_next_chat_only_where_they_may_be_stored(shell: Shell) -> None:
    for policy, stored in (("headers-only", False), ("full", True)):
        screen = chat(shell, "Hello.", flags=("--storage", policy))
        screen.type("my canary line\n")
        screen.until("tokens")
        screen.until(PROMPT)
        assert leave(screen) == 0
        file = home(shell) / "chat-history.json"
        assert (file.exists() and "my canary line" in file.read_text()) is stored
    assert file.stat().st_mode & 0o777 == 0o600
    screen = chat(shell, "Hello.")
    screen.type(f"{UP}\n")
    screen.until("tokens")
    screen.until(PROMPT)
    assert leave(screen) == 0
    assert user_texts(shell) == ["my canary line"]


def test_a_signal_stops_an_answer_and_not_the_program(shell: Shell) -> None:
    screen = chat(shell, {"text": "never", "delay_ms": NEVER_MS}, "Hello.")
    screen.type("hold the line\n")
    taken(shell)
    screen.process.send_signal(signal.SIGINT)
    screen.until("interrupted")
    screen.until(PROMPT)
    screen.type("again\n")
    screen.until("Hello.")
    screen.until(PROMPT)
    assert leave(screen) == 0


def taken(shell: Shell) -> None:
    """Come back when the session has stored the message, so when its task runs."""
    while b"hold the line" not in b"".join(file.read_bytes() for file in (home(shell) / "sessions").rglob("*.db*")):
        select.select([], [], [], 0.01)


def test_two_signals_at_the_prompt_leave(shell: Shell) -> None:
    screen = chat(shell, "Hello.")
    screen.process.send_signal(signal.SIGINT)
    screen.until("Ctrl-C once more")
    screen.until(PROMPT)
    screen.process.send_signal(signal.SIGINT)
    assert screen.close() == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_in_good_order_when_told_to(shell: Shell, number: signal.Signals) -> None:
    screen = chat(shell, "Hello.")
    screen.process.send_signal(number)
    assert screen.close() == 130


def test_a_question_is_answered_at_the_keyboard_and_the_y_is_not_sent_to_the_model(shell: Shell) -> None:
    """Issue 19, 1: `resume` waited for 300 s and sent the typed y to the model."""
    need("bubblewrap")
    made = shell.folder.parent / "made"
    arguments = {"command": ["touch", str(made)], "sandbox_permissions": "require_escalated", "justification": "x"}
    screen = chat(shell, {"tool_calls": [{"name": "shell", "arguments": arguments}]}, "Made.")
    screen.type("make it\n")
    screen.until("no, because …: ")
    screen.type("1\n")
    screen.until("Made.")
    screen.until(PROMPT)
    assert leave(screen) == 0
    assert made.exists()
    assert user_texts(shell) == ["make it"]


def test_resume_goes_on_in_the_same_way(shell: Shell) -> None:
    session_id = run_session(shell)
    screen = Screen(shell, "resume", "--plain", session_id)
    screen.until("you hello")
    screen.until(PROMPT)
    screen.type("/help\n")
    screen.until("/exit")
    screen.until(PROMPT)
    screen.type("How are you?\n")
    screen.until("tokens")
    screen.until(PROMPT)
    assert leave(screen) == 0
    assert ids(shell) == {session_id}
    assert user_texts(shell) == ["hello", "How are you?"]


def test_a_session_that_cannot_start_is_one_sentence(shell: Shell) -> None:
    screen = Screen(shell, "--plain", "-m", "scripted/missing.json")
    screen.until("missing.json")
    assert screen.close() == 2
    assert "Traceback" not in screen.seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_it_waits_for_a_server(shell: Shell, number: signal.Signals) -> None:
    """Issue 19, 11: a required server is waited for before the first line, and the person need not."""
    server = spoilt("hangs", required=True)
    table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in server.items())
    screen = Screen(shell, "--plain", "-m", shell.script("never"), "-c", f"mcp_servers.slow={{{table}}}")
    screen.until("waiting up to 30 s for the MCP server 'slow', which must be there (required = true)")
    screen.process.send_signal(number)
    assert screen.close() == 130
    assert "Traceback" not in screen.seen


def test_off_a_terminal_the_help_is_shown(shell: Shell) -> None:
    ran = shell.spawn()
    assert ran.code == 0
    assert ran.out.startswith("Usage: tertulia")
    assert json.dumps(ran.err) == '""'


def test_a_conversation_begins_as_an_agent_and_with_instructions(shell: Shell) -> None:
    """Issue 19 (7): `tertulia --agent` and `tertulia --instructions`, told what AGENTS.md says."""
    (shell.folder / "AGENTS.md").write_text("Rule one.")
    agent = ("--agent", "a", "-c", 'agents.a={instructions="Of the agent.", sandbox="read-only"}')
    screen = chat(shell, "Hello.", flags=agent)
    screen.type("hi\n")
    screen.until("Hello.")
    screen.until(PROMPT)
    assert leave(screen) == 0
    exported = shell.run("sessions", "export", *ids(shell)).out
    for text in ("Of the agent.", "<sandbox_mode>read-only</sandbox_mode>", "Rule one."):
        assert text in exported
    before = ids(shell)
    screen = chat(shell, "Hello.", flags=(*agent, "--instructions", "Of the person."))
    screen.type("hi\n")
    screen.until("Hello.")
    screen.until(PROMPT)
    assert leave(screen) == 0
    (session,) = ids(shell) - before
    assert "Of the person." in shell.run("sessions", "export", session).out
