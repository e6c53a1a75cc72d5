"""The commit of a merge on the caller's branch: of the merged paths, and of nothing that the user has not committed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from tertulia.errors import GitError, InvalidParamsError
from tertulia.policy.display_text import visible
from tertulia.session.merging.tree_merge import TreeMerge, conflict_error, index_lines, names_of
from tertulia.session.worktrees.worktree import RepositoryTree
from tertulia.tools.threads import run_in_thread

_BRANCHES = "refs/heads/"
_LOCK = "index.lock"
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}


class BranchCommit(msgspec.Struct, frozen=True):
    """A commit that no branch has yet."""

    branch: str
    """The name of the branch that it is for."""
    head: str
    """The commit that the branch is at, its parent."""
    commit: str
    index: bytes
    """The index of the tree with the merged files."""
    index_before: str | None
    """SHA-256 of the index as it is without them; None where there is none."""


async def prepare_commit(tree: RepositoryTree, merge: TreeMerge, message: str) -> BranchCommit:
    """Make the commit. Nothing refers to it until `add_to_branch`.

    Raises:
        InvalidParamsError: There is no branch to commit to, or git is in the middle of something else.
        MergeConflictError: A path that is merged has changes that are staged or not committed; names each.
    """
    head, branch = await tree.head(), await _branch(tree)
    if head is None or branch is None:
        raise InvalidParamsError(
            f"mode commit needs a branch with a commit, and {tree.top} is on none (HEAD is detached, or there is no "
            'commit yet); nothing was changed: use mode "apply", or check out a branch'
        )
    for name, act in _UNDER_WAY.items():
        if (tree.store / name).exists():
            raise InvalidParamsError(
                f'{act} is under way in {tree.top}; nothing was changed: end it first, or use mode "apply"'
            )
    await _check_committed(tree, head, merge)
    with tempfile.TemporaryDirectory(prefix="tertulia-merge-") as folder:
        index = Path(folder, "index")
        await tree.git.run("read-tree", head, index=index)
        await tree.git.run("update-index", "-z", "--index-info", stdin=index_lines(merge.changes), index=index)
        written = (await tree.git.run("write-tree", index=index)).decode().strip()
        own = Path(folder, "own")
        before = await run_in_thread(_copy_index, tree.store, own)
        await tree.git.run("update-index", "-z", "--index-info", stdin=index_lines(merge.changes), index=own)
        content = await run_in_thread(own.read_bytes)
    commit = await tree.git.run("commit-tree", written, "-p", head, stdin=message.encode("utf-8", "replace"))
    return BranchCommit(branch, head, commit.decode().strip(), content, before)


async def add_to_branch(tree: RepositoryTree, prepared: BranchCommit) -> None:
    """Move the branch to the commit, atomically. `release_index` then puts its files into the index."""
    words = ("-m", "commit: merge of a worktree", f"{_BRANCHES}{prepared.branch}", prepared.commit, prepared.head)
    await tree.git.run("update-ref", *words)


def take_index(store: Path, prepared: BranchCommit, suffix: str) -> None:
    """Lock the index of a tree, so that no git writes it meanwhile and no user stages half of a merge. Blocks.

    Raises:
        GitError: Another git holds it.
        MergeConflictError: It has changed since the commit was made.
    """
    fresh, lock = _fresh(store, suffix), store / _LOCK
    fresh.write_bytes(prepared.index)
    try:
        if prepared.index_before is not None:
            shutil.copymode(store / "index", fresh)
        _put_in_place(fresh, lock)
    except FileExistsError:
        raise GitError(
            f"{lock} exists: another git works in {store}, or was killed there; nothing was changed: wait for it, or "
            "remove that file"
        ) from None
    finally:
        fresh.unlink()
    if _digest(store / "index") != prepared.index_before:
        lock.unlink()
        raise conflict_error("the index has changed meanwhile", ["changed: the index"])


def release_index(store: Path, digest: str, suffix: str, *, use: bool) -> None:
    """Unlock an index that is locked with this content; `use`: make the content the index. Idempotent. Blocks."""
    _fresh(store, suffix).unlink(missing_ok=True)
    lock = store / _LOCK
    if _digest(lock) == digest:
        if use:
            os.rename(lock, store / "index")
        else:
            lock.unlink()


def _put_in_place(fresh: Path, lock: Path) -> None:
    """Create the lock file with its complete content, by which it is recognised; FileExistsError where there is one."""
    try:
        os.link(fresh, lock)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no hard links.
        with open(lock, "xb") as file:
            file.write(fresh.read_bytes())


def _fresh(store: Path, suffix: str) -> Path:
    return store / f"index.tertulia-{suffix}"


def _copy_index(store: Path, copy: Path) -> str | None:
    with suppress(FileNotFoundError):
        # With its times: git takes a file for changed that was written in the second of the index.
        shutil.copy2(store / "index", copy)
    return _digest(copy)


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


async def _branch(tree: RepositoryTree) -> str | None:
    found = (await tree.git.run("symbolic-ref", "--quiet", "HEAD", accepted=(0, 1))).decode("utf-8", "surrogateescape")
    return found.strip().removeprefix(_BRANCHES) if found.startswith(_BRANCHES) else None


async def _check_committed(tree: RepositoryTree, head: str, merge: TreeMerge) -> None:
    """Refuse paths with uncommitted changes, which the commit would include."""
    staged = await names_of(tree.git, "diff-index", "--cached", head)
    changed = await names_of(tree.git, "diff-tree", "-r", head, merge.ours)
    paths = {change.path for change in merge.changes}
    found = [
        *(f"staged: {visible(path)}" for path in sorted(paths & staged)),
        *(f"not committed: {visible(path)}" for path in sorted((paths & changed) - staged)),
    ]
    if found:
        raise conflict_error(
            'files that would be merged have changes of yours (commit them first, or use mode "apply")', found
        )
