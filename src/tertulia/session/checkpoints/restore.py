"""Writes a planned restore: all of it or nothing, also when the process is killed between any two steps.

By the journal of merges: the shadow repository has the present state and the one to restore, and a ref that is set in
one step says that the restore is done. Files are exchanged without following a link.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tertulia.errors import GitError, LimitError, MergeConflictError, TertuliaError
from tertulia.policy.display_text import visible
from tertulia.session.checkpoints.plan import RestorePlan
from tertulia.session.merging.journal import MergeJournal, TreeJournal
from tertulia.session.merging.recovery import finish, read_blobs, recover
from tertulia.session.merging.tree_merge import MAX_BYTES, TreeChange, TreeFile
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.lifecycle import Step
from tertulia.tools.patch.disk_program import RefusedError, digest
from tertulia.tools.patch.disk_undo import FileShape, PlannedFile, apply_exchanges, folders_above, open_root
from tertulia.tools.threads import run_in_thread


class RestoreSite(msgspec.Struct, frozen=True):
    """Where files are restored, and what that needs."""

    git: Git
    top: str
    """The directory of the workspace."""
    store: Path
    """The git directory of the shadow repository."""
    journal: TreeJournal
    """The journal of the workspace, whose lock is held."""
    variables: Mapping[str, str]
    modes: Mapping[str, int]
    """Permissions of files that have to be made again, where they are unusual."""


class _Contents(msgspec.Struct, frozen=True):
    """What the files of a plan hold now and are to hold."""

    old: dict[str, bytes]
    new: dict[str, bytes]


async def write_restore(
    site: RestoreSite, plan: RestorePlan, window_id: str, checkpoint_id: str, step: Step = lambda _: None
) -> None:
    """Write the planned files. Whatever stops it leaves every file as it was, at the latest when a session starts.

    Args:
        site: Where.
        plan: What.
        window_id: Names the restore; the ref of that name is set when it is done.
        checkpoint_id: What is restored, for messages.
        step: Called before each step.

    Raises:
        MergeConflictError: A file is not what was recorded a moment ago.
        LimitError: It is too large for one restore.
        GitError: Git failed, or the file system refused.
    """
    step("read")
    contents = await _contents(site.git, plan.changes)
    files, changes = await run_in_thread(_planned, site, plan, contents)
    journal = _journal(site, plan, files, (window_id, checkpoint_id))
    step("journal")
    # Not in a thread, which would go on after its caller was cancelled.
    site.journal.write(journal)
    try:
        step("name the old files")
        await site.git.run("update-ref", "--no-deref", journal.before_ref, plan.now)
        step("files")
        await run_in_thread(_write, site.top, changes, journal.suffix)
        step("ref")
        await site.git.run("update-ref", "--no-deref", journal.merged_ref, plan.target)
    except RefusedError as refused:
        await _take_back(site, journal)
        named = f"{visible(refused.path)}: {refused.reason}"
        raise MergeConflictError(f"nothing was restored: {named}", conflicts=[named]) from None
    except BaseException:
        # Also after a cancellation: some of the files would be half a restore.
        await _take_back(site, journal)
        raise
    step("finish")
    await finish(site.git, site.journal, journal, step)


def _journal(
    site: RestoreSite, plan: RestorePlan, files: tuple[PlannedFile, ...], ids: tuple[str, str]
) -> MergeJournal:
    window_id, checkpoint_id = ids
    return MergeJournal(
        conversation_id=window_id,
        source=checkpoint_id,
        merged_commit=plan.target,
        top=site.top,
        store=str(site.store),
        suffix=os.urandom(8).hex(),
        files=files,
        folders=_new_folders(site.top, files),
        before=plan.now,
        commit=None,
        is_restore=True,
    )


async def _contents(git: Git, changes: Sequence[TreeChange]) -> _Contents:
    old = [(change.path, change.old.blob) for change in changes if change.old is not None]
    new = [(change.path, change.new.blob) for change in changes if change.new is not None]
    for blobs in (old, new):
        await _check_sizes(git, [blob for _, blob in blobs])
    was = await read_blobs(git, [blob for _, blob in old])
    comes = await read_blobs(git, [blob for _, blob in new])
    return _Contents(
        {path: content for (path, _), content in zip(old, was, strict=True)},
        {path: content for (path, _), content in zip(new, comes, strict=True)},
    )


async def _check_sizes(git: Git, blobs: Sequence[str]) -> None:
    stdin = "".join(f"{blob}\n" for blob in blobs).encode()
    output = await git.run("cat-file", "--batch-check=%(objectsize)", "--buffer", stdin=stdin) if blobs else b""
    size = sum(int(line) for line in output.split())
    if size > MAX_BYTES:
        raise LimitError(
            f"the restore would change {size:,} bytes, and one restore changes at most {MAX_BYTES:,}; nothing was "
            "changed: name some of the paths, and then the others"
        )


def _planned(
    site: RestoreSite, plan: RestorePlan, contents: _Contents
) -> tuple[tuple[PlannedFile, ...], list[dict[str, object]]]:
    files: list[PlannedFile] = []
    changes: list[dict[str, object]] = []
    with open_root(site.top) as root:
        for change in plan.changes:
            old = _shape(change.old, contents.old.get(change.path))
            new = _shape(change.new, contents.new.get(change.path))
            if old is not None:
                old = _with_mode(root, change.path, old)
            mode = site.modes.get(change.path) if old is None or old.kind == "link" else None
            files.append(PlannedFile(change.path, old, new))
            changes.append(
                {
                    "path": change.path,
                    "old": None if old is None else old.digest,
                    "old_kind": None if old is None else old.kind,
                    "new": None if new is None else base64.b64encode(contents.new[change.path]).decode(),
                    "like": None,
                    **({} if new is None else {"kind": new.kind}),
                    **({} if mode is None else {"mode": mode}),
                }
            )
    return tuple(files), changes


def _shape(file: TreeFile | None, content: bytes | None) -> FileShape | None:
    if file is None or content is None:
        return None
    return FileShape(file.kind, hashlib.sha256(content).hexdigest())


def _with_mode(root: int, path: str, recorded: FileShape) -> FileShape:
    """The file that is there with its permissions; RefusedError where it is not the recorded one any more."""
    try:
        found = digest(root, path)
    except RefusedError as refused:
        raise _changed(path, refused.reason) from None
    if found is None or not recorded.is_like(shape := FileShape(**found)):
        raise _changed(path, "it changes just now")
    return shape


def _changed(path: str, reason: str) -> MergeConflictError:
    named = f"{visible(path)}: {reason}"
    return MergeConflictError(f"nothing was restored: {named}", conflicts=[named])


def _new_folders(top: str, files: Sequence[PlannedFile]) -> tuple[str, ...]:
    """Directories that are not there yet."""
    above = {folder for file in files if file.new is not None for folder in folders_above(file.path)}
    return tuple(sorted(folder for folder in above if not _is_directory(os.path.join(top, folder))))


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _write(top: str, changes: Sequence[dict[str, object]], suffix: str) -> None:
    with open_root(top) as root:
        apply_exchanges(root, changes, suffix)


async def _take_back(site: RestoreSite, journal: MergeJournal) -> None:
    try:
        recovery = await recover(site.journal, journal, site.variables)
    except (TertuliaError, OSError) as error:
        raise GitError(
            f"the restore failed, and it could not be taken back yet ({error}): the next session tries again"
        ) from None
    if recovery is not None and recovery.result == "left":
        raise GitError(recovery.text)
