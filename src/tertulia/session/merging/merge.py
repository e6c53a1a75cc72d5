"""Brings the worktree of a child into the tree of its caller: read, merged, approved, written, all or nothing.

What was approved is what is written: after the approval everything is read again, and if the result would differ,
nothing is written. What was merged once is the base of the next merge: a ref below `refs/tertulia` names it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tertulia.errors import GitError, NotFoundError, TertuliaError
from tertulia.policy.display_text import visible
from tertulia.protocol.tool_events import Decider, PatchApplyBegin, PatchApplyEnd, PatchChange
from tertulia.session.merging.branch_commit import BranchCommit, add_to_branch, prepare_commit, take_index
from tertulia.session.merging.caller_files import (
    FilePlan,
    as_approval_files,
    check_links,
    check_merge_paths,
    check_old_contents,
    new_contents,
    plan_files,
    write_files,
)
from tertulia.session.merging.journal import JournaledCommit, MergeJournal, TreeJournal, merged_ref
from tertulia.session.merging.recovery import finish, keep_old_files, recover
from tertulia.session.merging.tree_merge import FileDiff, TreeMerge, conflict_error, merge_commits
from tertulia.session.worktrees.lifecycle import Step
from tertulia.session.worktrees.tree_files import LeftOut
from tertulia.session.worktrees.worktree import RepositoryTree, Worktree, WrittenState, snapshot, write_state
from tertulia.tools.command_environment import CommandEnvironment, PatchSource
from tertulia.tools.conv_merge import MergeMode
from tertulia.tools.tool import CallContext

_EVENT_KINDS = {"added": "add", "deleted": "delete", "modified": "update", "renamed": "update"}
_SHOWN_DIFF = 256 * 1024
"""The most characters of the diff in the event; the approval request has all of it."""


class MergeSides(msgspec.Struct, frozen=True):
    """What is merged, and into what."""

    worktree: Worktree
    tree: RepositoryTree
    """The tree that the caller works in."""
    title: str | None
    """What the child is called in lists."""
    variables: Mapping[str, str]
    """The user's environment, from which git finds its place."""
    journal: TreeJournal
    """The journal of the merge. The caller holds its lock."""
    alone: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """A lock under which no other code commits in the worktree."""


class MergeOutcome(msgspec.Struct, frozen=True):
    """What came of a merge. Without files there was nothing to merge."""

    mode: MergeMode
    branch: str
    """The branch of the child's worktree."""
    merged_commit: str
    """The commit of the child's state that was merged."""
    files: tuple[FileDiff, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    commit: str | None = None
    """In mode `commit`: the commit that was made."""
    onto: str | None = None
    """The branch that has it."""


class _Prepared(msgspec.Struct, frozen=True):
    """Everything that is computed before the approval."""

    theirs: WrittenState
    merge: TreeMerge
    plan: FilePlan
    commit: BranchCommit | None

    @property
    def question(self) -> tuple[object, ...]:
        """The text that the approval is for."""
        branch = None if self.commit is None else (self.commit.branch, self.commit.head)
        return self.merge.changes, self.merge.diff, self.plan.changes, branch


class WorktreeMerge:
    """One merge of a child's worktree."""

    def __init__(
        self,
        sides: MergeSides,
        mode: MergeMode,
        place: CommandEnvironment,
        call: CallContext,
        check_idle: Callable[[], None],
        step: Step = lambda _: None,
    ) -> None:
        """`check_idle` raises where the child works at this moment; `step` is called before each step of writing."""
        self._sides = sides
        self._mode: MergeMode = mode
        self._place = place
        # Paths are relative to the top of the repository, also where the caller works in a subdirectory.
        self._call = replace(call, cwd=str(sides.tree.top))
        self._to_top = os.path.relpath(sides.tree.top, os.path.realpath(call.cwd))
        self._check_idle = check_idle
        self._step = step

    async def run(self) -> MergeOutcome:
        """Merge. Whatever stops it leaves every file, the index and every branch as they were.

        Raises:
            BusyError: The child works.
            NotFoundError: The branch is gone.
            MergeConflictError: The two sides contradict each other, or one of them changed meanwhile.
            InvalidParamsError: A path may not be changed, or there is no branch to commit to.
            SandboxError: The caller may not write there.
            LimitError: The merge is too large.
            ApprovalDeniedError: A person, or the policy, said no.
            GitError: Git is not there, or failed.
        """
        prepared = await self._prepare()
        if not prepared.merge.changes:
            return self._outcome(prepared)
        ended, decider = "interrupted", None
        self._call.publish(
            PatchApplyBegin(
                self._call.call_id,
                [self._described(file) for file in prepared.merge.files],
                prepared.merge.diff[:_SHOWN_DIFF],
            )
        )
        try:
            decider = await self._approve(prepared)
            if decider.kind != "policy":
                prepared = await self._prepare_again(prepared)
            await self._write(prepared)
            ended = ""
        except TertuliaError as error:
            ended = error.message
            raise
        finally:
            self._publish_end(prepared, ended, decider)
        return self._outcome(prepared)

    # ── before the question ──────────────────────────────────────────────────────────────────────────────────

    async def _prepare(self) -> _Prepared:
        sides, call = self._sides, self._call
        self._check_idle()
        theirs = await _their_state(sides)
        base = await _merged_before(sides)
        with sides.journal.scratch() as folder:
            before, masked = Path(folder, "before"), self._place.masked
            ours = await write_state(sides.tree, before, [base], "State of the caller\n", masked=masked)
            merge = await merge_commits(sides.tree.git, sides.tree.store, base, ours.commit, theirs.commit)
            if not merge.changes:
                return _Prepared(theirs, merge, FilePlan([], (), ()), None)
            _check_seen(merge, ours)
            check_merge_paths(merge, sides.tree.top, self._place, call)
            contents = await new_contents(sides.tree.git, merge)
            check_links(merge, contents, sides.tree.top)
            plan = await plan_files(merge, contents, self._place, call)
        await check_old_contents(sides.tree.git, merge)
        commit = (
            await prepare_commit(sides.tree, merge, self._message(theirs.commit)) if self._mode == "commit" else None
        )
        return _Prepared(theirs, merge, plan, commit)

    def _message(self, theirs: str) -> str:
        worktree, title = self._sides.worktree, self._sides.title
        subject = f"Merge {worktree.branch}" if title is None else f"Merge {worktree.branch}: {visible(title)}"
        return f"{subject}\n\nConversation: {worktree.conversation_id}\nCommit: {theirs}\n"

    async def _approve(self, prepared: _Prepared) -> Decider:
        branch, commit = self._sides.worktree.branch, prepared.commit
        then = "" if commit is None else f", committed on {visible(commit.branch)},"
        left_out = prepared.merge.left_out
        without = f" (not merged: {', '.join(map(str, left_out))})" if left_out else ""
        about = PatchSource(f"apply the merge of {branch}{then}", f"What the merge of {branch}{then} changes{without}")
        files = as_approval_files(prepared.merge.files)
        return await self._place.approve_patch(prepared.merge.diff, files, self._call, about)

    async def _prepare_again(self, first: _Prepared) -> _Prepared:
        now = await self._prepare()
        if now.question != first.question:
            raise conflict_error(
                "what would be merged has changed since it was asked about; merge again to be asked anew",
                [f"changed: {visible(path)}" for path in sorted(_different(first.merge, now.merge))],
            )
        return now

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _write(self, prepared: _Prepared) -> None:
        sides, commit, git = self._sides, prepared.commit, self._sides.tree.git
        self._step("keep the old files")
        journal = await self._journal(prepared)
        self._step("journal")
        # Not in a thread, which would go on after its caller was cancelled.
        sides.journal.write(journal)
        try:
            if journal.before is not None:
                self._step("name the old files")
                await git.run("update-ref", "--no-deref", journal.before_ref, journal.before)
            if commit is not None:
                self._step("hold the index")
                take_index(sides.tree.store, commit, journal.suffix)
            self._step("files")
            await write_files(prepared.plan, journal.suffix, self._place, self._call)
            self._step("ref")
            if commit is None:
                await git.run("update-ref", "--no-deref", journal.merged_ref, journal.merged_commit)
            else:
                await add_to_branch(sides.tree, commit)
        except BaseException:
            # Also after a cancellation: some of the files, or files without their commit, would be half a merge.
            await self._take_back(journal)
            raise
        self._step("finish")
        await finish(git, sides.journal, journal, self._step)

    async def _journal(self, prepared: _Prepared) -> MergeJournal:
        sides, plan, commit = self._sides, prepared.plan, prepared.commit
        index = None if commit is None else hashlib.sha256(commit.index).hexdigest()
        return MergeJournal(
            conversation_id=sides.worktree.conversation_id,
            source=sides.worktree.branch,
            merged_commit=prepared.theirs.commit,
            top=str(sides.tree.top),
            store=str(sides.tree.store),
            suffix=os.urandom(8).hex(),
            files=plan.files,
            folders=plan.folders,
            before=await keep_old_files(sides.tree.git, plan.files),
            commit=None if commit is None or index is None else JournaledCommit(commit.branch, commit.commit, index),
        )

    async def _take_back(self, journal: MergeJournal) -> None:
        try:
            recovery = await recover(self._sides.journal, journal, self._sides.variables)
        except (TertuliaError, OSError) as error:
            raise GitError(
                f"the merge failed, and it could not be taken back yet ({error}): the next merge or session tries again"
            ) from None
        if recovery is not None and recovery.result == "left":
            raise GitError(recovery.text)

    def _described(self, file: FileDiff) -> PatchChange:
        """As a patch tells its changes: from the caller's directory."""
        path = os.path.normpath(os.path.join(self._to_top, file.path))
        change: PatchChange = {"kind": _EVENT_KINDS[file.status], "path": path}
        if file.renamed_from is not None:
            old = os.path.normpath(os.path.join(self._to_top, file.renamed_from))
            change = {"kind": "update", "path": old, "move_to": path}
        if file.added is not None and file.removed is not None:
            change["added"], change["removed"] = file.added, file.removed
        return change

    def _publish_end(self, prepared: _Prepared, failure: str, decider: Decider | None) -> None:
        names = "\n".join(f"{_EVENT_KINDS[file.status][0].upper()} {file.path}" for file in prepared.merge.files)
        text = failure or f"Merged {self._sides.worktree.branch}:\n{names}"
        self._call.publish(PatchApplyEnd(self._call.call_id, not failure, text, None if failure else decider))

    def _outcome(self, prepared: _Prepared) -> MergeOutcome:
        left_out = {left.path: left for left in (*prepared.theirs.left_out, *prepared.merge.left_out)}
        commit = prepared.commit
        return MergeOutcome(
            self._mode,
            self._sides.worktree.branch,
            prepared.theirs.commit,
            prepared.merge.files,
            tuple(left_out.values()),
            None if commit is None else commit.commit,
            None if commit is None else commit.branch,
        )


async def _their_state(sides: MergeSides) -> WrittenState:
    """The child's state as a commit; of a child that is closed, the branch that was kept."""
    worktree = sides.worktree
    async with sides.alone():
        # Within it: a conversation that is closed just now takes its worktree away.
        if worktree.is_there:
            state = await snapshot(worktree, sides.variables)
            return WrittenState(state.commit, state.left_out)
    found = await _commit_of(sides, f"refs/heads/{worktree.branch}")
    if found is None:
        raise NotFoundError(f"the branch {worktree.branch} is gone, and with it what was to be merged")
    return WrittenState(found)


async def _merged_before(sides: MergeSides) -> str:
    """The merge base: what was merged last, else the commit at which the worktree began."""
    return await _commit_of(sides, merged_ref(sides.worktree.conversation_id)) or sides.worktree.start


async def _commit_of(sides: MergeSides, ref: str) -> str | None:
    found = await sides.tree.git.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", accepted=(0, 1))
    return found.decode().strip() or None


def _check_seen(merge: TreeMerge, ours: WrittenState) -> None:
    """Refuse files that git left out of the caller's state: they would be overwritten unnoticed."""
    unseen = {left.path: left.reason for left in ours.left_out}
    found = [f"{unseen[change.path]}: {visible(change.path)}" for change in merge.changes if change.path in unseen]
    if found:
        raise conflict_error("files that would be changed are not in what git sees here", found)


def _different(one: TreeMerge, other: TreeMerge) -> set[str]:
    """The paths of two merges that are not the same in both."""
    return {change.path for change in {*one.changes} ^ {*other.changes}}
