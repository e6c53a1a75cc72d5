"""The git that we run ourselves: it starts nothing, asks for nothing, and is ended with its caller."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tertulia.errors import GitError
from tertulia.session.worktrees.git_runner import Git
from tests.deadlines import HANG_S
from tests.session.worktrees.repository import Repository, committed, variables


async def test_a_missing_git_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="no git on the PATH; install git"):
        await Git.find(tmp_path, {"PATH": str(tmp_path)})


async def test_an_old_git_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "git", "echo git version 2.17.1")
    (tmp_path / "work").mkdir()
    with pytest.raises(GitError, match=r"git 2\.17 .* too old: 2\.32"):
        await Git.find(tmp_path / "work", {"PATH": str(tmp_path / "bin")})


async def test_a_git_in_the_tree_itself_is_not_started(tmp_path: Path) -> None:
    program(tmp_path / "git", f"touch {tmp_path}/ran; echo git version 2.99.0")
    with pytest.raises(GitError, match="no git on the PATH"):
        await Git.find(tmp_path, {"PATH": f"{tmp_path}:.:"})
    assert not (tmp_path / "ran").exists()


async def test_the_words_of_git_come_in_one_line_that_cannot_steer_a_terminal(tmp_path: Path) -> None:
    git = await Git.find(committed(tmp_path).top, variables(tmp_path))
    with pytest.raises(GitError, match="`git rev-parse` failed: Needed a single revision") as caught:
        await git.run("rev-parse", "--verify", "a\x1b[2Jb\nc")
    assert "\x1b" not in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.code == "git_error"


async def test_variables_of_the_user_do_not_redirect_it(tmp_path: Path) -> None:
    here, other = committed(tmp_path / "here"), committed(tmp_path / "other")
    hostile = {
        **variables(tmp_path),
        "GIT_DIR": str(other.top / ".git"),
        "GIT_WORK_TREE": str(other.top),
        "GIT_INDEX_FILE": "/nowhere",
        "GIT_OBJECT_DIRECTORY": "/nowhere",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {tmp_path}/ran",
        "GIT_EXTERNAL_DIFF": f"touch {tmp_path}/ran",
    }
    git = await Git.find(here.top, hostile)
    assert (await git.run("rev-parse", "--show-toplevel")).decode().strip() == str(here.top)
    assert await git.run("status", "--porcelain") == b""
    assert not (tmp_path / "ran").exists()


async def test_the_author_is_the_users_or_ours(tmp_path: Path) -> None:
    home = tmp_path / "home"
    repository = committed(tmp_path / "repo")
    empty = await Git.find(repository.top, variables(home))
    assert (await empty.run("var", "GIT_AUTHOR_IDENT")).startswith(b"Tertulia <tertulia@localhost>")
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n[alias]\nvar = !false\n")
    own = await Git.find(repository.top, variables(home))
    assert (await own.run("var", "GIT_COMMITTER_IDENT")).startswith(b"Ada <ada@example.org>")
    # Git commits nothing by a name of which nothing is left.
    (home / ".gitconfig").write_text('[user]\nname = " ,."\nemail = "<>"\n')
    odd = await Git.find(repository.top, variables(home))
    assert (await odd.run("var", "GIT_COMMITTER_IDENT")).startswith(b"Tertulia <tertulia@localhost>")


async def test_it_goes_to_no_network_and_no_other_repository(tmp_path: Path) -> None:
    """A partial clone fetches what it lacks, by a program that the configuration names."""
    repository = committed(tmp_path / "repo")
    evil = program(tmp_path / "evil", f"touch {tmp_path}/ran")
    repository.git("config", "core.repositoryformatversion", "1")
    repository.git("config", "extensions.partialClone", "origin")
    repository.git("config", "remote.origin.promisor", "true")
    repository.git("config", "remote.origin.url", str(tmp_path / "other"))
    repository.git("config", "remote.origin.uploadpack", str(evil))
    git = await Git.find(repository.top, variables(tmp_path))
    with pytest.raises(GitError):
        await git.run("cat-file", "-p", "1" * 40)
    assert not (tmp_path / "ran").exists()


async def test_filters_of_every_spelling_are_switched_off(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    for number, name in enumerate(("lfs", "a b", "x.y", 'q"uote', "Größe")):
        ran = f"touch {tmp_path}/ran{number}"
        for key in ("clean", "smudge", "process"):
            repository.git("config", f"filter.{name}.{key}", ran)
        repository.git("config", f"filter.{name}.required", "true")
    included = tmp_path / "included"
    included.write_text(f'[filter "in"]\nclean = touch {tmp_path}/ran9\n')
    repository.git("config", "include.path", str(included))
    (repository.top / ".gitattributes").write_text("*.a filter=lfs\n*.b filter=x.y\n*.c filter=in\n")
    for end in "abc":
        (repository.top / f"file.{end}").write_text("text")
    git = await Git.find(repository.top, variables(tmp_path))
    await git.run("add", "-A")
    assert not list(tmp_path.glob("ran*"))


async def test_a_cancelled_call_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "pid")
    acts = f"--version) echo git version 2.40.0;; config) ;; *) echo $$ > {tmp_path}/pid; exec sleep 1000;;"
    waits = f'case "$1" in {acts} esac'
    program(tmp_path / "bin" / "git", waits)
    git = await Git.find(tmp_path / "work", {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    running = asyncio.create_task(git.run("status"))
    async with asyncio.timeout(HANG_S):
        group = int(await asyncio.to_thread((tmp_path / "pid").read_text))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


async def test_one_that_takes_too_long_or_writes_too_much_is_ended(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    acts = 'case "$1" in --version) echo git version 2.40.0;; log) exec yes;; slow) exec sleep 1000;; esac'
    program(tmp_path / "bin" / "git", acts)
    git = await Git.find(tmp_path / "work", {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    with pytest.raises(GitError, match=r"took longer than 0\.05 s"):
        await git.run("slow", timeout_s=0.05)
    with pytest.raises(GitError, match=r"wrote more than 1,000 bytes"):
        await git.run("log", max_bytes=1000)


async def test_a_repository_of_another_user_is_refused_by_git_itself(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    for path in (repository.top, repository.top / ".git"):
        os.chown(path, 12345, 12345)
    git = await Git.find(repository.top, variables(tmp_path))
    with pytest.raises(GitError, match="dubious ownership"):
        await git.run("rev-parse", "--show-toplevel")
    (tmp_path / ".gitconfig").write_text(f"[safe]\ndirectory = /other\ndirectory = {repository.top}\n")
    trusted = await Git.find(repository.top, variables(tmp_path))
    assert (await trusted.run("rev-parse", "--show-toplevel")).decode().strip() == str(repository.top)


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_helpers_repository_is_a_real_one(tmp_path: Path) -> None:
    repository: Repository = committed(tmp_path)
    assert subprocess.run(["git", "-C", str(repository.top), "fsck"], check=False, capture_output=True).returncode == 0
