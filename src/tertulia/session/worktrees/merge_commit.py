"""The commit of a merge on the caller's branch: of the merged paths, and of nothing that the user has not committed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.policy.display_text import visible
from tertulia.session.worktrees.merge_trees import TreeChange, TreeMerge, conflict_error, index_lines, names_of
from tertulia.session.worktrees.worktree import RepositoryTree

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
_BRANCHES = "refs/heads/"


class BranchCommit(msgspec.Struct, frozen=True):
    """A commit that no branch has yet."""

    branch: str
    """The name of the branch that it is for."""
    head: str
    """The commit that the branch is at, its parent."""
    commit: str
    changes: tuple[TreeChange, ...]


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
    commit = await tree.git.run("commit-tree", written, "-p", head, stdin=message.encode("utf-8", "replace"))
    return BranchCommit(branch, head, commit.decode().strip(), merge.changes)


async def add_to_branch(tree: RepositoryTree, prepared: BranchCommit) -> None:
    """Let the branch have the commit, and the index its files. Whatever stops it leaves both as they were."""
    await tree.git.run("update-index", "-z", "--index-info", stdin=index_lines(prepared.changes))
    try:
        words = ("-m", "commit: merge of a worktree", f"{_BRANCHES}{prepared.branch}", prepared.commit, prepared.head)
        await tree.git.run("update-ref", *words)
    except BaseException:
        before = (replace(change, old=change.new, new=change.old) for change in prepared.changes)
        await tree.git.run("update-index", "-z", "--index-info", stdin=index_lines(before))
        raise


async def _branch(tree: RepositoryTree) -> str | None:
    found = (await tree.git.run("symbolic-ref", "--quiet", "HEAD", accepted=(0, 1))).decode("utf-8", "surrogateescape")
    return found.strip().removeprefix(_BRANCHES) if found.startswith(_BRANCHES) else None


async def _check_committed(tree: RepositoryTree, head: str, merge: TreeMerge) -> None:
    """A commit of a merged path would take along what else is different there."""
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
