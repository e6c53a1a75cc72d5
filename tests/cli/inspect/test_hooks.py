"""`tertulia hooks`, and that a project's hooks are asked only when the user has trusted what they are now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Shell

GUARD = (
    'import json\nopen({record!r}, "a").write("asked ")\nprint(json.dumps({{"decision": "refuse", "reason": "no"}}))\n'
)
TABLE = '[hooks.guard]\non = ["before_tool"]\ncommand = ["python3", "hooks/guard.py"]\n'


@pytest.fixture
def record(shell: Shell, tmp_path: Path) -> Path:
    """A project with a hook, which writes into this file that it was asked."""
    path = tmp_path / "record"
    folder = Path(shell.folder, ".tertulia")
    (folder / "hooks").mkdir(parents=True)
    (folder / "config.toml").write_text(TABLE)
    (folder / "hooks" / "guard.py").write_text(GUARD.format(record=str(path)))
    return path


def status(shell: Shell) -> dict[str, str]:
    return {row["name"]: row["status"] for row in shell.run("hooks", "ls", "--json").lines}


def test_trust_holds_for_the_table_and_the_program(shell: Shell, record: Path) -> None:
    """C2, C3: a change of the program takes it away."""
    assert status(shell) == {"guard": "untrusted"}
    ran = shell.run("hooks", "trust", "guard")
    assert (ran.code, ran.err) == (
        2,
        "tertulia: there is no terminal to ask on; look at it, then `tertulia hooks trust guard --yes`\n",
    )
    ran = shell.run("hooks", "trust", "guard", "--yes")
    assert ran.code == 0
    assert "hooks/guard.py" in ran.out
    assert "outside any sandbox" in ran.out
    assert "the program itself, starts or reads is not checked" in ran.out
    assert status(shell) == {"guard": "active"}
    with Path(shell.folder, ".tertulia", "hooks", "guard.py").open("a") as program:
        program.write("# changed\n")
    assert status(shell) == {"guard": "untrusted"}
    shell.run("hooks", "trust", "guard", "--yes")
    assert "no longer trusted" in shell.run("hooks", "trust", "--revoke", "guard").out
    assert status(shell) == {"guard": "untrusted"}


def test_a_projects_hook_is_asked_only_after_that(shell: Shell, record: Path) -> None:
    """C2, C3: before it a warning says how, and the task runs."""
    model = shell.script({"tool_calls": [{"name": "conv_list", "arguments": {}}]}, "Done.")
    ran = shell.run("exec", "-m", model, "Go")
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert "tertulia hooks trust guard" in ran.err
    assert not record.exists()
    shell.run("hooks", "trust", "guard", "--yes")
    ran = shell.run("exec", "-m", model, "Go")
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert "the hook guard refuses this: no" in ran.err
    assert record.read_text() == "asked "


def test_a_program_that_conversations_could_replace_is_not_trusted(shell: Shell, record: Path) -> None:
    """A model writes the workspace, and the program runs outside any sandbox."""
    Path(shell.folder, "guard.py").write_text("")
    Path(shell.folder, ".tertulia", "config.toml").write_text(TABLE.replace("hooks/guard.py", "../guard.py"))
    ran = shell.run("hooks", "trust", "guard", "--yes")
    assert ran.code == 2
    assert "can be changed by commands of a conversation" in ran.err
    assert status(shell) == {"guard": "unusable"}
    assert not list(shell.folder.rglob("hook-trust.json"))


def test_a_folder_of_ours_that_leads_elsewhere_is_not_trusted(shell: Shell, record: Path) -> None:
    """What a link calls `.tertulia` is a folder that commands can write."""
    folder = Path(shell.folder, ".tertulia")
    folder.rename(folder.with_name("plain"))
    folder.symlink_to("plain")
    ran = shell.run("hooks", "trust", "guard", "--yes")
    assert ran.code == 2
    assert "can be changed by commands of a conversation" in ran.err
    assert status(shell) == {"guard": "unusable"}


def test_the_users_own_hook_counts_before_one_of_the_project(shell: Shell, record: Path) -> None:
    ran = shell.run("-c", 'hooks.guard={on=["task_end"], command=["true"]}', "hooks", "ls", "--json")
    assert [(row["name"], row["status"]) for row in ran.lines] == [("guard", "active"), ("guard", "ignored")]


def test_help_says_how_one_is_set_up(shell: Shell) -> None:
    assert "no hooks" in shell.run("hooks", "ls").out
    assert "[hooks.no-push]" in shell.run("hooks").out
    ran = shell.run("hooks", "trust", "nothing")
    assert ran.code == 1
    assert "there is none" in ran.err
