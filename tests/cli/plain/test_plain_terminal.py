"""`--plain` at a pseudo-terminal: what a screen reader reads is never rewritten, and no line comes twice."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tertulia.cli import open_terminal
from tests.cli.running import Shell
from tests.cli.stored_sessions import Screen, ids
from tests.deadlines import HANG_S
from tests.sandbox.confined import need

pytestmark = pytest.mark.slow
PROMPT, CTRL_D = "› ", "\x04"


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


def read_aloud(seen: str) -> list[str]:
    """What a screen reader reads: lines with anything in them."""
    return [line for line in seen.replace("\r", "").replace("\a", "").split("\n") if line.strip()]


def patching(lines: int) -> tuple[Any, ...]:
    body = "".join(f"+line {number} of the new file, which is no other\n" for number in range(lines))
    patch = f"*** Begin Patch\n*** Add File: big.py\n{body}*** End Patch\n"
    return ({"tool_calls": [{"name": "apply_patch", "arguments": {"input": patch}}]}, "Written.")


@pytest.mark.parametrize(("lines", "answers"), [(400, ["1"]), (1_200, ["4", "1"])])
def test_no_line_of_a_long_patch_is_read_twice(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, lines: int, answers: list[str]
) -> None:
    """UI.md 6: neither when it is asked about, nor when what was hidden is shown, nor when it is applied."""
    flags = ("-a", "untrusted", "-m", shell.script(*patching(lines)))
    screen = accessible(monkeypatch, shell, *flags)
    screen.type("go\n")
    for answer in answers:
        screen.until("no, because …")
        screen.until(": ")
        screen.type(f"{answer}\n")
    screen.until("applied big.py")
    screen.until("done: ")
    screen.until(PROMPT)
    screen.type(CTRL_D)
    assert screen.close() == 0
    read = read_aloud(screen.seen)
    for number in range(lines):
        # A line at which the text is cut is read in two pieces.
        assert sum(f"+line {number} of the new file, which is no other" in line for line in read) <= 1, number
    assert len(read) == len(set(read))
    whole = [line for line in read if "of the new file, which is no other" in line]
    assert len(whole) >= lines - 2
    assert len((shell.folder / "big.py").read_text().splitlines()) == lines


def test_leaving_tells_the_last_exchange_the_cost_and_how_to_go_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 22 (7): as the screen does when it is left, and still no line is read twice."""
    for leave in (CTRL_D, "/exit\n"):
        screen = accessible(monkeypatch, shell, "-m", shell.script("The first line.\nThe second line."))
        screen.type("hello there\n")
        screen.until("done: ")
        screen.until(PROMPT)
        screen.type(leave)
        screen.until("To go on: tertulia resume ")
        assert screen.close() == 0
        assert "You wrote last: hello there\r\n" in screen.seen
        assert "The answer was: The first line. The second line.\r\n" in screen.seen
        assert re.search(r"\r\n[\d,]+ tokens\r\nTo go on", screen.seen)
        read = read_aloud(screen.seen)
        assert len(read) == len(set(read))


def working(shell: Shell, *after: Any) -> str:
    """A model whose first call runs until a file is there."""
    waits = {"command": ["sh", "-c", "touch begun; while [ ! -e go ]; do sleep 0.05; done"]}
    return shell.script({"tool_calls": [{"name": "shell", "arguments": waits}]}, *after)


def until_begun(shell: Shell, screen: Screen) -> None:
    screen.until("while [ ! -e go ]")
    until_file(shell.folder / "begun")


def until_file(path: Path) -> None:
    deadline = time.monotonic() + HANG_S
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def user_texts(shell: Shell) -> list[str]:
    lines = shell.run("conv", "history", "root", "--last", "--json").lines
    return [entry["text"] for line in lines for entry in line.get("entries", [line]) if entry.get("role") == "user"]


def test_a_line_typed_while_a_task_runs_steers_it_and_queue_sends_one_after_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 22 (5, 7): steer and queue, as in the composer of the screen."""
    need("bubblewrap")
    screen = accessible(monkeypatch, shell, "-m", working(shell, "The first answer.", "The second answer."))
    screen.type("begin\n")
    until_begun(shell, screen)
    screen.type("use the other file\n")
    screen.until("use the other file")
    screen.type("/queue then tidy up\n")
    screen.type("/why ls\n")
    screen.until("it would run")
    (shell.folder / "go").touch()
    screen.until("The first answer.")
    screen.until("done: ")
    screen.until("The second answer.")
    screen.until("done: ")
    screen.until(PROMPT)
    screen.type("/exit\n")
    assert screen.close() == 0
    assert user_texts(shell) == ["begin", "use the other file", "then tidy up"]
    steered = shell.run("sessions", "export", *ids(shell)).out
    assert steered.index("use the other file") < steered.index("The first answer.")
    assert screen.seen.count("use the other file") == 1


@pytest.mark.parametrize("stop", ["/stop\n", "\x03"])
def test_what_runs_is_stopped_by_a_command_or_a_key(shell: Shell, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    need("bubblewrap")
    screen = accessible(monkeypatch, shell, "-m", working(shell, "Never."))
    screen.type("begin\n")
    until_begun(shell, screen)
    if stop == "\x03":
        screen.process.send_signal(signal.SIGINT)
    else:
        screen.type(stop)
    screen.until("interrupted")
    screen.until(PROMPT)
    screen.type("/exit\n")
    assert screen.close() == 0
    assert "Never." not in screen.seen


def test_a_half_typed_line_keeps_a_question_waiting_and_never_answers_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UI.md 4.4: typed text never answers; here the line would end in the number of a yes."""
    need("bubblewrap")
    made = shell.folder.parent / "made"
    leaves = {"command": ["touch", str(made)], "sandbox_permissions": "require_escalated", "justification": "x"}
    script = working(shell, {"tool_calls": [{"name": "shell", "arguments": leaves}]}, "Answered.")
    screen = accessible(monkeypatch, shell, "-m", script)
    screen.type("begin\n")
    until_begun(shell, screen)
    screen.type("item number ")
    screen.until("item number ")
    (shell.folder / "go").touch()
    data = shell.folder.parent / "home" / ".local" / "share" / "tertulia"
    until_stored(data, b"approval_request")
    assert "asks: " not in screen.seen
    screen.type("1\n")
    screen.until("no, because …: ")
    screen.type("5\n")
    screen.until("Answered.")
    screen.until(PROMPT)
    screen.type("/exit\n")
    assert screen.close() == 0
    assert not made.exists()
    assert user_texts(shell) == ["begin", "item number 1"]


def until_stored(home: Path, text: bytes) -> None:
    deadline = time.monotonic() + HANG_S
    while not any(text in file.read_bytes() for file in (home / "sessions").rglob("*.db*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_end_of_input_while_a_task_runs_leaves(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    need("bubblewrap")
    screen = accessible(monkeypatch, shell, "-m", working(shell, "Never."))
    screen.type("begin\n")
    until_begun(shell, screen)
    screen.type(CTRL_D)
    screen.until("To go on: tertulia resume ")
    assert screen.close() == 0
