"""`--plain` at a pseudo-terminal: what a screen reader reads is never rewritten, and no line comes twice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tertulia.cli import open_terminal
from tests.cli.running import Shell
from tests.cli.stored_sessions import Screen, ids
from tests.sandbox.confined import need

pytestmark = pytest.mark.slow
PROMPT = "› "


def delegating(outside: Path) -> tuple[Any, ...]:
    create = {"name": "conv_create", "arguments": {"user_instruction": "Run the tests", "title": "tester"}}
    plan = {"plan": [{"step": "Have it tested", "status": "in_progress"}, {"step": "Tell", "status": "pending"}]}
    done = {"plan": [{"step": "Have it tested", "status": "completed"}, {"step": "Tell", "status": "pending"}]}
    leaves = {"command": ["touch", str(outside)], "sandbox_permissions": "require_escalated", "justification": "so"}
    return (
        {"tool_calls": [{"name": "update_plan", "arguments": plan}]},
        {"tool_calls": [create]},
        {"tool_calls": [{"name": "shell", "arguments": leaves}]},
        "The file is not there.\n\nI was told why.",
        {"tool_calls": [{"name": "update_plan", "arguments": done}]},
        "It was refused.\n- one reason\n- another reason",
    )


def accessible(monkeypatch: pytest.MonkeyPatch, shell: Shell, *arguments: str) -> Screen:
    monkeypatch.setenv("ACCESSIBLE", "1")
    screen = Screen(shell, *arguments)
    screen.until(PROMPT)
    return screen


def test_a_screen_reader_reads_a_delegation_and_answers_by_number(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UI.md 6: no repeated line, nothing rewritten; S004-26, S004-33."""
    need("bubblewrap")
    outside = shell.folder.parent / "made"
    screen = accessible(monkeypatch, shell, "-m", shell.script(*delegating(outside)))
    screen.type("go\n")
    screen.until("no, because …: ")
    screen.type("maybe\n")
    screen.until("type one of the numbers 1 to ")
    screen.type("6 use make instead\n")
    screen.until("done: ")
    screen.until(PROMPT)
    screen.type("/exit\n")
    assert screen.close() == 0
    assert not outside.exists()
    seen = screen.seen
    assert "\x1b" not in seen
    assert not re.search("\r(?!\n)", seen)
    assert "tester asks: run outside the sandbox" in seen
    assert "  for: root" in seen
    assert "waits: tester works, then root goes on with the answer" in seen
    assert "tester: The file is not there." in seen
    assert "root: goes on" in seen
    assert "root: - one reason" in seen
    assert "\a" in seen
    lines = [line for line in seen.replace("\r", "").replace("\a", "").split("\n") if line.strip()]
    assert len(lines) == len(set(lines))


def test_conversations_are_opened_messaged_and_closed_by_typing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """S004-37."""
    screen = accessible(monkeypatch, shell, "-m", shell.script("I am here.", "Still here."))
    screen.type("/conv create --title reviewer Are you there?\n")
    screen.until("reviewer: I am here.")
    screen.until(PROMPT)
    screen.type("/go reviewer\n")
    screen.until("goes to reviewer now")
    screen.until(f"reviewer{PROMPT}")
    screen.type("And now?\n")
    screen.until("reviewer: Still here.")
    screen.until(PROMPT)
    screen.type("/go root\n")
    screen.until(PROMPT)
    screen.type("/conv call conv_list {}\n")
    screen.until('"title":"reviewer"')
    screen.until(PROMPT)
    screen.type("/conv destroy reviewer\n")
    screen.until("is closed")
    screen.until(PROMPT)
    screen.type("/conv send reviewer hello\n")
    screen.until("refused: there is no open conversation 'reviewer'")
    screen.until(PROMPT)
    screen.type("/conv dance\n")
    screen.until("refused: there is no `/conv dance`")
    screen.until(PROMPT)
    screen.type("/exit\n")
    assert screen.close() == 0
    assert len(ids(shell)) == 1


def test_without_the_screen_installed_it_says_how_to_get_it_and_goes_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = "import sys, importlib.util as u; find = u.find_spec; "
    hidden += "u.find_spec = lambda name, *more: None if name == 'textual' else find(name, *more)\n"
    hooks = shell.folder.parent / "hooks"
    hooks.mkdir()
    (hooks / "usercustomize.py").write_text(hidden)
    (hooks / "sitecustomize.py").write_text(hidden)
    monkeypatch.setattr("tests.cli.running.SOURCE", f"{hooks}:{Path(open_terminal.__file__).parents[2]}")
    screen = Screen(shell, "-m", shell.script("Hello."))
    screen.until("pip install 'tertulia[tui]'")
    screen.until(PROMPT)
    screen.type("hi\n")
    screen.until("Hello.")
    screen.until(PROMPT)
    screen.type("/exit\n")
    assert screen.close() == 0
