"""A fresh copy of a task's repository, and the reference solution laid over one."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from tertulia.evals.checking import RunFacts
from tertulia.evals.task import Task
from tertulia.evals.task_files import copy_folder, relative_name
from tertulia.policy import file_lock
from tertulia.sandbox.directory_removal import remove_tree
from tertulia.session.worktrees.git_runner import Git
from tertulia.tools.threads import abandoned_threads, run_in_thread

_PREFIX = "tertulia-eval-"
_LOCK = ".in-use"


@asynccontextmanager
async def temporary_place() -> AsyncGenerator[Path]:
    """A new folder for workspaces, without links in its path; removed at the end, whatever programs left in it.

    Where this process is killed first, by `sweep_places` of a later one.
    """
    # Made at once and not in a thread: a caller that is cancelled meanwhile would leave it behind.
    place, lock = _make_place()
    with abandoned_threads() as left:
        try:
            yield place
        finally:
            if left:
                # What is still being copied there would come back.
                await asyncio.wait(left)
            remove_tree(str(place))
            os.close(lock)


def _make_place() -> tuple[Path, int]:
    """The place, and a descriptor whose lock says that it is in use: the kernel takes it back with the process."""
    place = Path(os.path.realpath(mkdtemp(prefix=_PREFIX)))
    # Under another name until it is locked: no sweep can take the place for one that was left.
    lock = os.open(place / f"{_LOCK}-new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    file_lock.lock(lock)
    os.rename(place / f"{_LOCK}-new", place / _LOCK)
    return place, lock


def sweep_places() -> int:
    """Remove the places of commands that were killed; how many there were."""
    count = 0
    for place in Path(gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if place.lstat().st_uid != os.geteuid() or place.is_symlink():
                continue
            lock = os.open(place / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            # It is just being made or removed.
            continue
        try:
            if file_lock.try_lock(lock):
                remove_tree(str(place))
                count += 1
        finally:
            os.close(lock)
    return count


def move_whole(folders: Sequence[Path], suite: Path) -> None:
    """Move folders into a suite, which is made where there is none; a copy that fails leaves none of them. Blocks."""
    suite.mkdir(parents=True, exist_ok=True)
    # Across file systems a move is a copy: it is made beside the target, under a name that `load_suite` passes over.
    beside = mkdtemp(prefix=".new-", dir=suite)
    try:
        copies = [Path(shutil.move(folder, beside)) for folder in folders]
        for copy in copies:
            os.rename(copy, suite / copy.name)
    finally:
        remove_tree(beside)


async def make_workspace(task: Task, place: Path, variables: Mapping[str, str]) -> Path:
    """Copy the repository to a new folder in `place`. GitError where the task wants git and there is none."""
    workspace = place / "workspace"
    await run_in_thread(copy_folder, task.repository, workspace)
    if task.table.git:
        git = await Git.find(workspace, {**variables, "GIT_CEILING_DIRECTORIES": str(place)})
        await git.run("init", "--quiet", "--initial-branch=main", variables=_below(place))
        await git.run("add", "--all", "--force", variables=_below(place))
        await git.run("commit", "--quiet", "--message=The repository as the task has it", variables=_below(place))
    return workspace


async def solve(task: Task, workspace: Path, variables: Mapping[str, str]) -> RunFacts:
    """Lay the reference solution over a fresh workspace, and return what its run would have answered and done."""
    reference = task.table.reference
    for name in reference.delete:
        (workspace / relative_name(name, f"{task.folder}: reference.delete")).unlink()
    if task.solution.is_dir():
        await run_in_thread(copy_folder, task.solution, workspace)
    if task.solution_patch.is_file():
        git = await Git.find(workspace, variables)
        patch = task.solution_patch.read_bytes()
        await git.run("apply", "--whitespace=nowarn", stdin=patch, variables=_below(workspace.parent))
    return RunFacts(
        answer=reference.answer,
        calls=tuple((name, True) for name in reference.calls),
        conversations=tuple((one.title, one.answer) for one in reference.conversations),
    )


def _below(place: Path) -> dict[str, str]:
    """So that git takes no repository for its own in which the folder of temporary files happens to lie."""
    return {"GIT_CEILING_DIRECTORIES": os.path.realpath(place)}
