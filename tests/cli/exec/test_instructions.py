"""`--instructions FILE|TEXT`: how the two are told apart, and what becomes of them."""

from __future__ import annotations

import os

import pytest

from tertulia.cli.exec.instructions import resolve_instructions
from tertulia.errors import InvalidParamsError
from tests.cli.running import Shell
from tests.tables import each_row


def base_instructions(shell: Shell, session: str) -> bool:
    return '"Be brief."' in shell.run("sessions", "export", session).out


def test_exec_gives_them_to_the_conversation_and_a_resumed_one_keeps_them(shell: Shell) -> None:
    """Issue 19 (7)."""
    (shell.folder / "brief").write_text("Be brief.")
    for value in ("brief", "./brief", str(shell.folder / "brief"), "Be brief."):
        ran = shell.run("exec", "--json", "-m", shell.script("one", "two"), "--instructions", value, "hi")
        assert ran.code == 0
        session = ran.lines[0]["thread_id"]
        assert base_instructions(shell, session)
    assert shell.run("exec", "resume", session, "--instructions", "Be long, and kind.", "again").code == 0
    assert '"Be long, and kind."' in shell.run("sessions", "export", session).out


TEXTS = ["You are terse.", "Terse", "Terse.", "Say a/b or c.md, please.", "one\ntwo"]
PATHS = ["nope.md", "./nope", "/no/such", "docs/nope", "~/nope", "nope.txt"]


@each_row("text", TEXTS)
def test_what_does_not_look_like_a_file_is_the_text(text: str) -> None:
    assert resolve_instructions(text) == text


@each_row("path", PATHS)
def test_what_looks_like_a_file_and_is_none_is_refused(path: str) -> None:
    with pytest.raises(InvalidParamsError, match="there is no file"):
        resolve_instructions(path)


def test_a_file_that_cannot_be_used_is_named_and_never_waited_for(shell: Shell) -> None:
    os.mkfifo(shell.folder / "pipe")
    (shell.folder / "binary.md").write_bytes(b"\xff\xfe")
    (shell.folder / "empty.md").write_text(" ")
    (shell.folder / "gone.md").symlink_to("nowhere")
    for name, reason in (
        ("pipe", "is not a file"),
        (".", "is not a file"),
        ("binary.md", "is not a text"),
        ("empty.md", "is empty"),
        ("gone.md", "cannot be read: No such file"),
        ("", "--instructions is empty"),
    ):
        ran = shell.run("exec", "-m", "scripted/tour", "--instructions", name, "hi")
        assert ran.code == 2
        assert reason in ran.err
    assert shell.run("sessions", "ls", "--json").out.strip() in ("", "[]")


def test_before_a_command_it_is_refused_and_not_dropped(shell: Shell) -> None:
    ran = shell.run("--instructions", "x", "exec", "-m", "scripted/tour", "hi")
    assert (ran.code, "goes after `exec`" in ran.err) == (2, True)


def test_they_win_over_those_of_an_agent(shell: Shell) -> None:
    flags = ("-c", 'agents.a.instructions="Of the agent."', "--agent", "a")
    ran = shell.run("exec", "--json", *flags, "-m", shell.script("one"), "--instructions", "Be brief.", "hi")
    assert base_instructions(shell, ran.lines[0]["thread_id"])
