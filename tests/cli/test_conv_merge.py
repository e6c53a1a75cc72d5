"""`tertulia conv merge`: what a conversation did in its worktree, brought into the workspace by a person."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.cli.running import SOURCE, Shell
from tests.cli.stored_sessions import Screen, run_session
from tests.sandbox.confined import need
from tests.session.worktrees.repository import Repository

WRITING = (
    {"tool_calls": [{"name": "conv_create", "arguments": {"user_instruction": "Write.", "workspace": "worktree"}}]},
    {"tool_calls": [{"name": "shell", "arguments": {"command": ["sh", "-c", "echo theirs >> a.txt; echo new > new"]}}]},
    "Written.",
    "It is written.",
)


def session_with_work(shell: Shell) -> tuple[Repository, str]:
    """A stored session whose child has worked, in a repository; and the id of the child."""
    need("bubblewrap")
    repository = Repository(shell.folder)
    repository.write("a.txt", "one\n")
    repository.write(".gitignore", "script.json\n")
    repository.commit("first")
    run_session(shell, *WRITING)
    assert not (shell.folder / "new").exists(), "it worked in a place of its own"
    _, child = shell.run("conv", "ls", "--last", "--json").lines
    return repository, str(child["id"])


def test_files_are_changed_and_listed(shell: Shell) -> None:
    repository, child = session_with_work(shell)
    ran = shell.run("conv", "merge", child[:8], "--last")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "modified a.txt +1 -0\nadded    new +1 -0\n"
    assert (shell.folder / "new").read_text() == "new\n"
    assert repository.git("status", "--porcelain").split("\n") == [" M a.txt", "?? new"]
    again = shell.run("conv", "merge", child[:8], "--last")
    assert again.code == 0
    assert again.out.startswith("nothing to merge: all of tertulia/")


def test_a_commit_is_made_and_told_as_json(shell: Shell) -> None:
    repository, child = session_with_work(shell)
    ran = shell.run("conv", "merge", child, "--last", "--mode", "commit", "--json")
    (answer,) = ran.lines
    assert (ran.code, answer["merged"], answer["onto"]) == (0, True, "main")
    assert answer["commit"] == repository.git("rev-parse", "main")
    assert repository.git("status", "--porcelain") == ""


def test_a_closed_conversation_is_merged_by_its_whole_id(shell: Shell) -> None:
    _, child = session_with_work(shell)
    assert shell.run("conv", "destroy", child, "--last").code == 0
    ran = shell.run("conv", "merge", child, "--last")
    assert ran.code == 0, ran.err
    assert (shell.folder / "new").read_text() == "new\n"


def test_a_conflict_ends_with_1_and_names_the_path(shell: Shell) -> None:
    repository, child = session_with_work(shell)
    repository.write("a.txt", "ours\n")
    before = repository.fingerprint()
    ran = shell.run("conv", "merge", child, "--last")
    assert ran.code == 1
    assert "content: a.txt" in ran.err
    assert repository.fingerprint() == before


def test_a_conversation_without_a_worktree_and_one_that_is_not_there(shell: Shell) -> None:
    session_with_work(shell)
    assert "has no worktree" in shell.run("conv", "merge", "root", "--last").err
    ran = shell.run("conv", "merge", "00000000-0000-4000-8000-000000000000", "--last")
    assert (ran.code, "not found" in ran.err) == (1, True)


def test_a_person_at_a_terminal_is_asked_and_sees_the_difference(shell: Shell) -> None:
    repository, child = session_with_work(shell)
    screen = Screen(shell, "conv", "merge", child, "--last", "-a", "untrusted", "--mode", "commit")
    shown = screen.until("[y]es")
    assert "committed on main" in shown
    assert "+theirs" in shown
    screen.type("n\n")
    screen.until("tertulia: ")
    assert screen.close() == 1
    assert repository.git("status", "--porcelain") == ""
    screen = Screen(shell, "conv", "merge", child, "--last", "-a", "untrusted", "--mode", "commit")
    screen.until("[y]es")
    screen.type("y\n")
    screen.until("committed on main: ")
    assert screen.close() == 0
    assert repository.git("log", "--format=%s", "-1").startswith("Merge tertulia/")


def test_without_a_terminal_what_has_to_be_asked_is_refused(shell: Shell) -> None:
    repository, child = session_with_work(shell)
    before = repository.fingerprint()
    ran = shell.run("conv", "merge", child, "--last", "-a", "untrusted")
    assert ran.code == 1
    assert {**repository.fingerprint(), "refs": None} == {**before, "refs": None}


def test_a_conversation_is_opened_with_a_worktree_written_to_and_merged(shell: Shell) -> None:
    """`conv create --workspace worktree`, with a message at once and with one later."""
    need("bubblewrap")
    repository = Repository(shell.folder)
    repository.write("a.txt", "one\n")
    repository.write(".gitignore", "script.json\n")
    repository.commit("first")
    run_session(shell)
    write = {"tool_calls": [{"name": "shell", "arguments": {"command": ["sh", "-c", "echo new > new"]}}]}
    model = shell.script(write, "Written.", repeat=True)
    words = ("conv", "create", "--last", "-m", model, "--workspace")
    opened = shell.run(*words, "worktree", "--title", "writer")
    assert (opened.code, opened.err) == (0, "")
    child = opened.out.strip()
    assert [name for name in repository.refs() if name.startswith("refs/heads/tertulia/")] == []
    answered = shell.run("conv", "send", child, "--last", "-m", model, "Write.")
    assert answered.out.strip() == "Written."
    assert not (shell.folder / "new").exists()
    (branch,) = [name for name in repository.refs() if name.startswith("refs/heads/tertulia/")]
    assert branch == f"refs/heads/tertulia/{child[:8]}"
    assert shell.run("conv", "merge", child, "--last").out == "added    new +1 -0\n"
    shared = shell.run(*words, "shared", "Write.")
    assert shared.code == 0
    refused = shell.run(*words, "own")
    assert (refused.code, "'own' is not one of 'shared', 'worktree'" in refused.err) == (2, True), refused.err


def test_where_there_is_no_repository_a_worktree_is_refused(shell: Shell) -> None:
    run_session(shell)
    ran = shell.run("conv", "create", "--last", "--workspace", "worktree", "Write.")
    assert ran.code == 1
    assert "needs a git repository" in ran.err
    assert len(shell.run("conv", "ls", "--last", "--json").lines) == 1


def test_a_merge_that_was_killed_is_taken_back_by_the_next_verb_and_told(shell: Shell) -> None:
    repository, child = session_with_work(shell)
    gits = {name: repository.git("show", f"HEAD:{name}") for name in ("a.txt", ".gitignore")}
    program = (
        "import os, signal, sys; from tertulia.session.merging import merge; from tertulia.cli.main import main\n"
        "async def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "merge.add_to_branch = die; sys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", program, "conv", "merge", child, "--last", "--mode", "commit"]
    died = subprocess.run(words, cwd=shell.folder, env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=False)
    assert died.returncode == -9
    assert (shell.folder / "new").exists()
    assert (shell.folder / ".git" / "index.lock").exists()
    ran = shell.run("conv", "ls", "--last")
    assert "a process was killed while it merged" in ran.err
    assert "every file is as before" in ran.err
    assert not (shell.folder / "new").exists()
    assert not (shell.folder / ".git" / "index.lock").exists()
    assert repository.git("status", "--porcelain") == ""
    assert {name: (shell.folder / name).read_text().rstrip("\n") for name in gits} == gits
    assert shell.run("conv", "ls", "--last").err == ""
    assert shell.run("conv", "merge", child, "--last", "--mode", "commit").code == 0
    assert (shell.folder / "new").read_text() == "new\n"
