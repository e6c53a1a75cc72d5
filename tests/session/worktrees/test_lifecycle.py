"""A worktree from its record to its end, with real git; and a process that is killed between each two steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tertulia.errors import GitError
from tertulia.protocol.ids import ConversationId, SessionId, new_conversation_id
from tertulia.session.worktrees.lifecycle import WorktreeFolder, WorktreeLife
from tertulia.session.worktrees.worktree import Worktree, snapshot
from tests.session.worktrees.repository import Repository, committed, variables

SESSION = SessionId("session-1")
ID = ConversationId("0123abcd-0000-4000-8000-000000000001")
MAKING = ("record", "commit", "record the commit", "branch", "worktree", "files", "ready")
REMOVING = ("remove files", "remove registration", "remove branch", "forget")


def life(tmp_path: Path) -> WorktreeLife:
    return WorktreeLife(WorktreeFolder(tmp_path / "data"), variables(tmp_path / "home"))


def left_behind(repository: Repository, tmp_path: Path) -> list[str]:
    """All that a worktree leaves, besides objects that git itself removes."""
    ours = [path.name for path in (tmp_path / "data" / "worktrees").glob("*") if path.suffix != ".lock"]
    refs = [name for name in repository.refs() if name.startswith("refs/heads/tertulia")]
    registered = [line for line in repository.git("worktree", "list").splitlines()[1:] if line]
    stores = repository.top / ".git" / "worktrees"
    return [*ours, *refs, *registered, *([path.name for path in stores.iterdir()] if stores.exists() else [])]


async def test_it_begins_as_the_callers_tree_and_leaves_that_alone(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    repository.write(".gitignore", "*.log\n")
    repository.write("a.txt", "changed\n")
    repository.write("new.sh", "run\n").chmod(0o755)
    repository.write("seen.log", "ignored\n")
    (repository.top / "src" / "b.txt").unlink()
    before = repository.fingerprint()
    made = await life(tmp_path).make(SESSION, ID, str(repository.top / "src"), None)
    worktree = made.worktree
    assert worktree.branch == "tertulia/0123abcd"
    assert worktree.began.startswith(f"HEAD ({repository.git('rev-parse', 'HEAD')[:12]})")
    files = {str(path.relative_to(worktree.path)) for path in Path(worktree.path).rglob("*") if path.is_file()}
    assert files == {".git", ".gitignore", "a.txt", "new.sh"}
    assert os.access(Path(worktree.path) / "new.sh", os.X_OK)
    assert repository.git("status", "--porcelain", at=Path(worktree.path)) == ""
    after = repository.fingerprint()
    refs = after.pop("refs")
    assert isinstance(refs, dict)
    assert refs.pop(f"refs/heads/{worktree.branch}") == worktree.start
    assert {**after, "refs": refs} == before


async def test_after_work_it_is_committed_and_a_branch_with_commits_stays(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    place = Path(worktree.path)
    (place / "a.txt").write_text("one\n")
    (place / "made").write_text("made\n")
    assert not await alive.is_clean(worktree)
    state = await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    assert "2 files changed, 1 insertion(+), 2 deletions(-)" in state.diffstat
    assert repository.tree(state.commit) == {"a.txt": "100644 one", "made": "100644 made", "src/b.txt": "100644 b"}
    assert (await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))).commit == state.commit
    assert await alive.is_clean(worktree)
    await alive.remove(worktree)
    assert left_behind(repository, tmp_path) == [f"refs/heads/{worktree.branch}"]
    assert repository.git("rev-parse", worktree.branch) == state.commit


async def test_a_branch_without_commits_goes_with_it(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    before = repository.fingerprint()
    alive = life(tmp_path)
    made = await alive.make(SESSION, ID, str(repository.top), None)
    await alive.remove(made.worktree)
    await alive.remove(made.worktree)
    assert left_behind(repository, tmp_path) == []
    assert repository.fingerprint() == before


async def test_it_can_be_had_again_from_its_branch_or_from_where_it_began(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    await alive.remove(worktree)
    await alive.restore(SESSION, worktree)
    (Path(worktree.path) / "made").write_text("made\n")
    await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    await alive.remove(worktree)
    await alive.restore(SESSION, worktree)
    assert (Path(worktree.path) / "made").read_text() == "made\n"
    assert await alive.is_clean(worktree)


@pytest.mark.parametrize("state", ["detached", "unborn"])
async def test_it_begins_at_any_head(tmp_path: Path, state: str) -> None:
    repository = committed(tmp_path / "repo") if state == "detached" else Repository(tmp_path / "repo")
    if state == "detached":
        repository.git("checkout", "-q", "--detach")
    repository.write("new", "new\n")
    made = await life(tmp_path).make(SESSION, ID, str(repository.top), None)
    assert (Path(made.worktree.path) / "new").read_text() == "new\n"
    assert ("has no commit yet" in made.worktree.began) is (state == "unborn")


async def test_a_branch_that_exists_already_is_not_taken(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    repository.git("branch", "tertulia/0123abcd")
    made = await life(tmp_path).make(SESSION, ID, str(repository.top), None)
    assert made.worktree.branch == f"tertulia/{ID}"
    repository.git("branch", f"tertulia/{ID[:8]}-x")
    other = committed(tmp_path / "other")
    other.git("branch", "tertulia")
    with pytest.raises(GitError, match="tertulia"):
        await life(tmp_path).make(SESSION, new_conversation_id(), str(other.top), None)
    assert left_behind(other, tmp_path / "nowhere") == ["refs/heads/tertulia"]


async def test_a_file_of_the_user_that_is_called_like_its_branch_changes_nothing(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    repository.write(f"tertulia/{ID[:8]}", "a file\n")
    repository.write(ID, "another\n")
    repository.write("HEAD", "and another\n")
    made = await life(tmp_path).make(SESSION, ID, str(repository.top), None)
    assert (Path(made.worktree.path) / ID).read_text() == "another\n"


async def test_nothing_of_a_hostile_repository_runs(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    repository.write("big.bin", "version https://git-lfs.github.com/spec/v1\n")
    repository.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs\n*.txt filter=evil\n")
    repository.commit()
    ran = f"touch {tmp_path}/ran"
    hooks = repository.top / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        *("post-checkout", "reference-transaction", "post-index-change", "pre-commit", "post-commit"),
        "update",
    ):
        (hooks / name).write_text(f"#!/bin/sh\n{ran}-{name}\n")
        (hooks / name).chmod(0o755)
    for driver in ("lfs", "evil"):
        for key in ("clean", "smudge", "process"):
            repository.git("config", f"filter.{driver}.{key}", f"{ran}-{driver}")
        repository.git("config", f"filter.{driver}.required", "true")
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "gpg.program", "credential.helper"):
        repository.git("config", key, f"{ran}-{key}")
    for key in ("commit.gpgSign", "tag.gpgSign"):
        repository.git("config", key, "true")
    repository.git("config", "alias.worktree", f"!{ran}-alias")
    repository.git("config", "core.hooksPath", str(hooks))
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    place = Path(worktree.path)
    assert (place / "big.bin").read_text().startswith("version https://git-lfs")
    (place / "made").write_text("made\n")
    (place / "new.bin").write_text("content\n")
    state = await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    assert [str(entry) for entry in state.left_out] == ["new.bin (filter lfs)"]
    assert "new.bin" not in repository.git("ls-tree", "-r", "--name-only", state.commit)
    await alive.is_clean(worktree)
    await alive.remove(worktree)
    assert [path.name for path in tmp_path.glob("ran*")] == []


async def test_what_a_command_writes_into_a_worktree_does_not_lead_us_elsewhere(tmp_path: Path) -> None:
    """A `.git` of its own, with settings and hooks, where the file was that names the repository."""
    repository = committed(tmp_path / "repo")
    alive = life(tmp_path)
    worktree = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    place = Path(worktree.path)
    (place / ".git").unlink()
    evil = Repository(place)
    evil.git("config", "core.fsmonitor", f"touch {tmp_path}/ran")
    evil.git("config", "core.worktree", str(tmp_path))
    (place / "made").write_text("made\n")
    (place / "link").symlink_to("/etc")
    state = await snapshot(Worktree.of(worktree), variables(tmp_path / "home"))
    assert repository.tree(state.commit)["link"] == "120000 /etc"
    assert "made" in repository.tree(state.commit)
    assert not (tmp_path / "ran").exists()
    await alive.remove(worktree)
    assert os.path.isdir("/etc")


async def test_a_worktree_of_a_worktree_begins_as_that_one_is(tmp_path: Path) -> None:
    repository = committed(tmp_path / "repo")
    alive = life(tmp_path)
    outer = (await alive.make(SESSION, ID, str(repository.top), None)).worktree
    (Path(outer.path) / "made").write_text("in the outer one\n")
    inner = (await alive.make(SESSION, new_conversation_id(), outer.path, outer)).worktree
    assert (Path(inner.path) / "made").read_text() == "in the outer one\n"
    assert inner.original == str(repository.top)
    assert inner.place_of(str(repository.top / "src")) == f"{inner.path}/src"
    assert inner.place_of(f"{outer.path}/src") == f"{inner.path}/src"
    await alive.remove(outer)
    assert await alive.is_clean(inner)


DYING = """
import asyncio, os, sys
from pathlib import Path
from tertulia.session.worktrees.lifecycle import WorktreeFolder, WorktreeLife
home, repository, user, last, removes = sys.argv[1:]

def step(name):
    if name == last:
        os.kill(os.getpid(), 9)

async def main():
    folder = WorktreeFolder(Path(home))
    folder.hold("session-1")
    variables = {"HOME": user, "PATH": os.environ["PATH"]}
    life = WorktreeLife(folder, variables, step)
    made = await life.make("session-1", "0123abcd-0000-4000-8000-000000000001", repository, None)
    await life.remove(made.worktree)

asyncio.run(main())
"""


@pytest.mark.parametrize("step", [*MAKING, *REMOVING])
async def test_a_kill_before_each_step_leaves_nothing_that_is_not_found(tmp_path: Path, step: str) -> None:
    """Issue 20, proof: a crash between each two steps, nothing lost, nothing left behind."""
    repository = committed(tmp_path / "repo")
    repository.write("a.txt", "not committed\n")
    before = repository.fingerprint()
    variables(tmp_path / "home")
    arguments = [str(tmp_path / "data"), str(repository.top), str(tmp_path / "home"), step, ""]
    died = subprocess.run([sys.executable, "-c", DYING, *arguments], capture_output=True, check=False)
    assert died.returncode == -9, died.stderr.decode()
    folder = WorktreeFolder(tmp_path / "data")
    lock = folder.hold("session-1")
    assert lock is not None, "the lock went with the process"
    records = list(folder.records())
    assert [record.ready for record in records] == ([] if step == "record" else [step == REMOVING[0]])
    for record in records:
        await life(tmp_path).remove(record.worktree)
    folder.release("session-1", lock)
    assert left_behind(repository, tmp_path) == []
    assert repository.fingerprint() == before
    assert repository.git("fsck", "--connectivity-only", "--no-dangling") == ""


def test_a_session_that_another_process_has_is_not_held_twice(tmp_path: Path) -> None:
    folder = WorktreeFolder(tmp_path)
    lock = folder.hold("one")
    assert lock is not None
    assert folder.hold("one") is None
    folder.release("one", lock)
    again = folder.hold("one")
    assert again is not None
    folder.release("one", again)


def test_a_record_that_we_did_not_write_is_not_obeyed(tmp_path: Path) -> None:
    folder = WorktreeFolder(tmp_path)
    folder.top.mkdir()
    (folder.top / "x.json").write_text(json.dumps({"version": 1, "session_id": "s", "worktree": {"path": "/etc"}}))
    (folder.top / "y.json").write_text("{")
    assert list(folder.records()) == []
