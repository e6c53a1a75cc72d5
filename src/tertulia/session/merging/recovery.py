"""Undoes or finishes an interrupted merge, by its journal.

One rule: a merge is done once its last ref is set, which git does in one step. That is the branch in mode `commit`, and
in mode `apply` the ref that names what was merged. A merge that is done is finished; any other is taken back whole,
unless a file is by now neither what stood there nor what was written: then all files are left as they are, and what
stood there before stays in the repository, below a ref that is named.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tertulia.errors import GitError, LimitError
from tertulia.policy.display_text import visible
from tertulia.session.merging.branch_commit import release_index
from tertulia.session.merging.journal import MergeJournal, TreeJournal
from tertulia.session.merging.tree_merge import MAX_BYTES, conflict_error
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.lifecycle import Step
from tertulia.session.worktrees.tree_files import copy_files
from tertulia.tools.patch.disk_program import RefusedError
from tertulia.tools.patch.disk_undo import (
    PlannedFile,
    clear_away,
    folders_above,
    open_root,
    put_back,
    remove_folders,
    stages,
)
from tertulia.tools.threads import run_in_thread

_MODES = {"file": "100644", "executable": "100755", "link": "120000"}
_MOST_NAMED = 10


class Recovery(msgspec.Struct, frozen=True):
    """The outcome of recovering an interrupted merge."""

    result: Literal["undone", "finished", "left"]
    text: str
    paths: tuple[str, ...] = ()
    """The files that were changed since, and so left."""


# ── before ───────────────────────────────────────────────────────────────────────────────────────────────────


async def keep_old_files(git: Git, files: Sequence[PlannedFile]) -> str | None:
    """What stands at the paths of a plan, byte for byte, as a tree of the repository; None where nothing does.

    MergeConflictError where a file is not the planned one any more.
    """
    old = [file for file in files if file.old is not None]
    if not old:
        return None
    with tempfile.TemporaryDirectory(prefix="tertulia-merge-") as folder:
        copies, index = Path(folder, "files"), Path(folder, "index")
        os.mkdir(copies)
        names = await run_in_thread(_copy, git.directory, old, copies)
        here = msgspec.structs.replace(git, directory=copies)
        stdin = "".join(f"{name}\n" for name in names).encode()
        ids = (await here.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=stdin)).decode().split()
        entries = [
            f"{_MODES[file.old.kind]} {id}\t{file.path}\0"
            for file, id in zip(old, ids, strict=True)
            if file.old is not None
        ]
        await git.run("update-index", "--add", "-z", "--index-info", stdin="".join(entries).encode(), index=index)
        return (await git.run("write-tree", index=index)).decode().strip()


def _copy(top: Path, files: Sequence[PlannedFile], folder: Path) -> list[str]:
    """Copy the files; the names of the copies."""
    found = copy_files(top, [os.fsencode(file.path) for file in files], {}, folder)
    names = {os.fsdecode(copied.path): copied.name for copied in found.files}
    different, size = list[str](), 0
    for file in files:
        content = (folder / names[file.path]).read_bytes() if file.path in names else None
        size += len(content or b"")
        if content is None or file.old is None or hashlib.sha256(content).hexdigest() != file.old.digest:
            different.append(f"changed: {visible(file.path)}")
    if different:
        raise conflict_error("files are not what they were a moment ago", different)
    if size > MAX_BYTES:
        raise LimitError(
            f"the files that would be changed have {size:,} bytes, and one merge changes files of at most "
            f"{MAX_BYTES:,}; nothing was changed"
        )
    return [names[file.path] for file in files]


# ── after ────────────────────────────────────────────────────────────────────────────────────────────────────


async def recover(place: TreeJournal, journal: MergeJournal, variables: Mapping[str, str]) -> Recovery | None:
    """Take a merge back, or finish it, and forget its journal; None where its tree is not there to be looked at.

    The caller holds the tree. GitError or OSError where it did not work: the journal stays for the next time.
    """
    top, store = Path(journal.top), Path(journal.store)
    if not _are_directories(top, store):
        return None
    found = await Git.find(store, variables, untrusted=(top,))
    git = await found.at(top, store).with_drivers_off()
    if await _is_done(git, journal):
        await finish(git, place, journal)
        return Recovery("finished", f"{subject(journal)} was done, and is finished now")
    return await undo(git, place, journal)


def _are_directories(*paths: Path) -> bool:
    return all(path.is_dir() for path in paths)


async def _is_done(git: Git, journal: MergeJournal) -> bool:
    if journal.commit is None:
        found = await git.run("rev-parse", "--verify", "--quiet", journal.merged_ref, accepted=(0, 1))
        return found.decode().strip() == journal.merged_commit
    # The user may have committed on top of it since; or removed the branch, or the commit with its objects.
    words = (f"refs/heads/{journal.commit.branch}", journal.commit.commit)
    common = await git.run("merge-base", *words, accepted=(0, 1, 128))
    return common.decode().strip() == journal.commit.commit


async def finish(git: Git, place: TreeJournal, journal: MergeJournal, step: Step = lambda _: None) -> None:
    """The steps after the last ref; each is idempotent."""
    if journal.commit is not None:
        release_index(Path(journal.store), journal.commit.index, journal.suffix, use=True)
        step("name what was merged")
        await git.run("update-ref", "--no-deref", journal.merged_ref, journal.merged_commit)
    step("clear away")
    await run_in_thread(_clear_away, journal)
    step("forget")
    await _forget(git, place, journal)


def _clear_away(journal: MergeJournal) -> None:
    emptied = {above for file in journal.files if file.new is None for above in folders_above(file.path)}
    with open_root(journal.top) as root:
        clear_away(root, journal.files, journal.suffix, undoing=False)
        remove_folders(root, emptied)


async def undo(git: Git, place: TreeJournal, journal: MergeJournal) -> Recovery:
    """Restore all old files, unless one of the files was changed since."""
    other = await run_in_thread(_clear_and_look, journal)
    if other and not journal.is_restore:
        place.forget()
        named = ", ".join(map(visible, other[:_MOST_NAMED]))
        more = f" and {len(other) - _MOST_NAMED:,} more" if len(other) > _MOST_NAMED else ""
        store = f"--git-dir={journal.store} " if journal.is_restore else ""
        show = f"`git {store}show {journal.before_ref}:PATH`"
        hint = "" if journal.before is None else f"; {show} has what stood there before"
        return Recovery(
            "left", f"{subject(journal)} was not taken back: {named}{more} changed since{hint}", tuple(other)
        )
    changed = await run_in_thread(_changed, journal)
    contents = await _contents(git, journal, changed)
    try:
        await run_in_thread(_put_back, journal, changed, contents)
    except RefusedError as refused:
        raise GitError(f"{subject(journal)} was not taken back: {refused.path}: {refused.reason}") from None
    await _forget(git, place, journal)
    if other:
        named = ", ".join(map(visible, other[:_MOST_NAMED]))
        return Recovery(
            "undone", f"{subject(journal)} was taken back, but for what changed since: {named}", tuple(other)
        )
    return Recovery("undone", f"{subject(journal)} was taken back: every file is as before")


def _clear_and_look(journal: MergeJournal) -> list[str]:
    """Remove temporary files; returns the files that are neither the old nor the new ones."""
    if journal.commit is not None:
        release_index(Path(journal.store), journal.commit.index, journal.suffix, use=False)
    with open_root(journal.top) as root:
        clear_away(root, journal.files, journal.suffix, undoing=True)
        return [path for path, stage in stages(root, journal.files).items() if stage == "other"]


def _changed(journal: MergeJournal) -> list[PlannedFile]:
    with open_root(journal.top) as root:
        found = stages(root, journal.files)
    return [file for file in journal.files if found[file.path] == "new"]


async def _contents(git: Git, journal: MergeJournal, files: Sequence[PlannedFile]) -> dict[str, bytes]:
    wanted = [file.path for file in files if file.old is not None]
    if not wanted or journal.before is None:
        return {}
    listed = (await git.run("ls-tree", "-r", "-z", "--full-tree", journal.before)).split(b"\0")[:-1]
    ids = {os.fsdecode(path): facts.split(b" ")[2] for facts, _, path in (line.partition(b"\t") for line in listed)}
    contents = await read_blobs(git, [ids[path].decode() for path in wanted])
    return dict(zip(wanted, contents, strict=True))


async def read_blobs(git: Git, ids: Sequence[str]) -> list[bytes]:
    """The contents of these objects, in their order. GitError where there is too much of it."""
    if not ids:
        return []
    stdin = "".join(f"{id}\n" for id in ids).encode()
    output = await git.run("cat-file", "--batch", stdin=stdin, max_bytes=2 * MAX_BYTES)
    contents: list[bytes] = []
    at = 0
    for _ in ids:
        line, _, _ = output[at : at + 200].partition(b"\n")
        begin, size = at + len(line) + 1, int(line.split(b" ")[2])
        contents.append(output[begin : begin + size])
        at = begin + size + 1
    return contents


def _put_back(journal: MergeJournal, files: Sequence[PlannedFile], contents: Mapping[str, bytes]) -> None:
    with open_root(journal.top) as root:
        # Those that are still empty: a file may have to take the place of one.
        remove_folders(root, journal.folders)
        put_back(root, files, contents, journal.suffix)
        remove_folders(root, journal.folders)


async def _forget(git: Git, place: TreeJournal, journal: MergeJournal) -> None:
    if journal.before is not None:
        await git.run("update-ref", "-d", "--no-deref", journal.before_ref)
    place.forget()


def subject(journal: MergeJournal) -> str:
    """What the journal is about, for sentences."""
    if journal.is_restore:
        return f"the restore of the checkpoint {journal.source} in {journal.top}"
    return f"the merge of {journal.source} into {journal.top}"
