"""`tertulia checkpoints` and `tertulia undo`, at a shell as a person uses them (26-1)."""

from __future__ import annotations

from tests.cli.running import Shell
from tests.cli.stored_sessions import run_session

QUIET = ("-s", "danger-full-access", "-a", "never")


def write(script: str) -> dict[str, object]:
    """A call of the shell."""
    return {"tool_calls": [{"name": "shell", "arguments": {"command": ["sh", "-c", script]}}]}


def files(shell: Shell) -> dict[str, str]:
    """What is in the directory, without the script of the model."""
    return {path.name: path.read_text() for path in shell.folder.iterdir() if path.suffix != ".json"}


def test_what_exec_did_is_listed_shown_undone_and_brought_back(shell: Shell) -> None:
    """26-1: shown first, done with --yes, a path alone, back to a checkpoint, and the undo is undone."""
    (shell.folder / "a").write_text("one\n")
    run_session(shell, write("echo two > a; echo new > b"), "done", flags=QUIET)
    after = {"a": "two\n", "b": "new\n"}
    (listed,) = shell.run("checkpoints", "--json").lines
    assert (listed["cause"], listed["files"]) == ("task", 2)
    assert listed["id"] in shell.run("checkpoints").out
    shown = shell.run("undo", "--dry-run")
    assert (shown.code, shown.out.splitlines()[:2]) == (0, ["a changes back", "b goes"])
    question = shell.run("undo")
    assert (question.code, "--yes" in question.out, files(shell)) == (1, True, after)
    assert shell.run("undo", "b", "--yes").code == 0
    assert files(shell) == {"a": "two\n"}
    ran = shell.run("undo", "--to", listed["id"], "--yes")
    assert (ran.code, files(shell)) == (0, {"a": "one\n"})
    again = ran.out.split("undo --to ")[1].split("`")[0]
    assert shell.run("undo", "--to", again, "--yes").code == 0
    assert files(shell) == {"a": "two\n"}


def test_a_refused_undo_names_the_reason_and_changes_nothing(shell: Shell) -> None:
    run_session(shell, write("echo two > a"), "done", flags=QUIET)
    for words, reason in (
        (("undo", "--to", "00000000", "--yes"), "there is no checkpoint '00000000'"),
        (("undo", "../a", "--yes"), "outside the workspace"),
        (("undo", "nothing", "--yes"), "there is no 'nothing'"),
    ):
        ran = shell.run(*words)
        assert (ran.code in (1, 2), reason in ran.err, files(shell)) == (True, True, {"a": "two\n"}), ran.err
    (shell.folder / "a").write_text("mine\n")
    ran = shell.run("undo", "--yes")
    assert "left: a: changed since, and not by this conversation" in ran.out
    assert files(shell) == {"a": "mine\n"}
