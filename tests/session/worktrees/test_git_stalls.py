"""A pipe where git expects a file: found, named, and not waited for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import tertulia
from tertulia.errors import GitError
from tertulia.session.worktrees import git_runner
from tertulia.session.worktrees.worktree import RepositoryTree, write_state
from tertulia.testing import RecordedEvents, ScriptedModel
from tests.deadlines import HANG_S
from tests.session.worktrees.repository import committed, variables


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_runner, "SLOW_S", 0.2)


@pytest.mark.parametrize(
    "place",
    ["repo/.gitattributes", "repo/src/.gitignore", "repo/.git/info/exclude", "home/included", "home/attributes"],
)
async def test_a_pipe_is_named_and_git_is_ended(tmp_path: Path, place: str) -> None:
    repository = committed(tmp_path / "repo")
    user = variables(tmp_path / "home")
    repository.write("src/new", "new\n")
    (tmp_path / "home" / ".gitconfig").write_text(
        "[include]\n\tpath = included\n[core]\n\tattributesfile = ~/attributes\n" if place.startswith("home") else ""
    )
    (tmp_path / place).unlink(missing_ok=True)
    os.mkfifo(tmp_path / place)
    async with asyncio.timeout(HANG_S):
        with pytest.raises(GitError, match=f"waited for {tmp_path / place}, which is a pipe"):
            tree = await RepositoryTree.find(repository.top, user)
            await write_state(tree, tmp_path / "index", [], "State\n")


async def test_a_slow_git_that_waits_for_nothing_of_that_kind_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nsleep 0.5\necho done\n")
    program.chmod(0o755)
    git = git_runner.Git(str(program), tmp_path, {"PATH": os.environ["PATH"]})
    assert await git.run("status") == b"done\n"


async def test_a_command_that_puts_one_into_its_worktree_is_named_and_stops_no_end(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    settings = tertulia.Settings(model=ScriptedModel(["Done."], repeat=True), cwd=str(repository.top))
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        child = await session.open(workspace="worktree")
        assert child.details.worktree is not None
        pipe = Path(child.details.worktree.path, ".gitattributes")
        os.mkfifo(pipe)
        assert (await child.message("Hello.")).worktree is None
        await child.close()
    warnings = {event.data.code: event.data.message for event in events.seen if event.type == "warning"}
    assert str(pipe) in warnings["worktree_not_committed"]
    assert str(pipe) in warnings["worktree_kept"]
    pipe.unlink()
