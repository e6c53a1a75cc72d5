"""`tertulia mcp trust`: shown in full, asked for, bound to what was shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import Shell
from tests.cli.serving import configure, dot_mcp
from tests.cli.stored_sessions import Screen
from tests.mcp.fakes import bare

SECRET = "hunter2hunter2"


def status(shell: Shell) -> list[str]:
    return [row["status"] for row in shell.run("mcp", "ls", "--json").lines]


def test_with_nobody_to_ask_it_is_refused(shell: Shell) -> None:
    """C3: headless refuses."""
    dot_mcp(shell, x=("c",))
    assert status(shell) == ["untrusted"]
    ran = shell.run("mcp", "trust", "x")
    assert ran.code == 2
    assert ran.err == "tertulia: there is no terminal to ask on; look at it, then `tertulia mcp trust x --yes`\n"
    assert status(shell) == ["untrusted"]


def test_yes_trusts_what_is_shown_until_it_changes(shell: Shell) -> None:
    """C2, C3"""
    dot_mcp(shell, x=("c", "-a"))
    assert status(shell) == ["untrusted"]
    ran = shell.run("mcp", "trust", "x", "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert "x is trusted, as long as this stays as it is" in ran.out
    assert "outside any sandbox" in ran.out
    assert status(shell) == ["enabled"]
    assert shell.run("mcp", "trust", "x").out == "x is trusted already\n"
    dot_mcp(shell, x=("c", "-b"))
    assert status(shell) == ["untrusted"]


def test_a_session_starts_it_only_after_that(shell: Shell, tmp_path: Path) -> None:
    """C2, C3: headless, and the project asks for it to be required; nothing of it runs, and the task does."""
    record = tmp_path / "record"
    argv = bare("--record", str(record))
    entry = {"command": argv[0], "args": [*argv[1:]], "required": True}
    dot_mcp(shell, x=entry)
    model = shell.script("Done.", repeat=True)
    ran = shell.run("exec", "-m", model, "Go")
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert "MCP server x is untrusted" in ran.err
    assert not record.exists()
    shell.run("mcp", "trust", "x", "--yes")
    assert shell.run("exec", "-m", model, "Go").code == 0
    assert record.read_text().startswith("start ")
    record.unlink()
    dot_mcp(shell, x={**entry, "env": {"EDITED": "1"}})
    assert shell.run("exec", "-m", model, "Go").code == 0
    assert not record.exists()


def test_trust_can_be_taken_back(shell: Shell) -> None:
    dot_mcp(shell, x=("c",))
    shell.run("mcp", "trust", "x", "-y")
    assert status(shell) == ["enabled"]
    assert shell.run("mcp", "trust", "--revoke", "x").out == "x is no longer trusted\n"
    assert status(shell) == ["untrusted"]
    assert shell.run("mcp", "trust", "--revoke", "x").out == "x was not trusted\n"


def test_it_is_shown_in_full_and_nothing_in_it_can_hide(shell: Shell) -> None:
    """Escaped, with secrets masked."""
    entry = {
        "command": "sh",
        "args": ["-c", "evil\r\x1b[2K\u202e good"],
        "env": {"TOKEN": SECRET, "LD_PRELOAD": "evil.so"},
        "required": True,
    }
    dot_mcp(shell, x=entry)
    out = shell.run("mcp", "trust", "x", "--yes").out
    assert SECRET not in out
    assert out.isascii()
    shown = json.loads(out[out.index("{") : out.rindex("}") + 1])
    assert shown == {**entry, "env": {"TOKEN": "<14 characters, not shown>", "LD_PRELOAD": "evil.so"}}
    assert r"evil\r\u001b[2K\u202e good" in out
    assert "It asks for more than to be started: required." in out


def test_the_variables_that_it_would_get_are_named(shell: Shell) -> None:
    dot_mcp(shell, x={"url": "https://evil.example/", "bearer_token_env_var": "OPENAI_API_KEY"})
    assert 'It gets these variables of yours: "OPENAI_API_KEY".\n' in shell.run("mcp", "trust", "x", "--yes").out


def test_what_cannot_start_all_the_same_is_told(shell: Shell) -> None:
    dot_mcp(shell, x={"type": "sse", "url": "https://x/"}, y={"url": "https://${NOT_SET_HERE}/"})
    assert "But it cannot start: " in shell.run("mcp", "trust", "x", "--yes").out
    assert "NOT_SET_HERE is not set" in shell.run("mcp", "trust", "y", "--yes").out


def test_who_is_not_there_cannot_be_trusted(shell: Shell) -> None:
    assert "no file of this project defines an MCP server 'x'; there is none" in shell.run("mcp", "trust", "x").err
    configure(shell, "mine")
    dot_mcp(shell, **{"github": ("c",), "mine": ("d",), "a b": ("e",)})
    assert "did you mean github?" in shell.run("mcp", "trust", "gitub").err
    assert "there are a b, github, mine" in shell.run("mcp", "trust", "zzz").err
    ran = shell.run("mcp", "trust", "mine", "--yes")
    assert ran.code == 1
    assert "mine is in your own settings and needs no trust" in ran.err
    ran = shell.run("mcp", "trust", "a b", "--yes")
    assert ran.code == 2
    assert "cannot be the name of a server" in ran.err


@pytest.mark.slow
def test_what_is_trusted_is_what_was_shown_whatever_stands_there_when_the_answer_comes(shell: Shell) -> None:
    """C2"""
    dot_mcp(shell, x=("the-command",))
    screen = Screen(shell, "mcp", "trust", "x")
    assert "the-command" in screen.until("Trust it?")
    dot_mcp(shell, x=("another-command",))
    screen.type("y\n")
    screen.until("trusted")
    assert screen.close() == 0
    assert status(shell) == ["untrusted"]
    dot_mcp(shell, x=("the-command",))
    assert status(shell) == ["enabled"]


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code", "after"), [("n\n", 1, "untrusted"), ("y\n", 0, "enabled")])
def test_on_a_terminal_it_asks(shell: Shell, answer, code, after) -> None:
    dot_mcp(shell, x=("the-command",))
    assert status(shell) == ["untrusted"]
    screen = Screen(shell, "mcp", "trust", "x")
    assert "the-command" in screen.until("Trust it?")
    screen.type(answer)
    screen.until("trusted")
    assert screen.close() == code
    assert status(shell) == [after]
