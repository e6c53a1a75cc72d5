"""From a merged tree to the files of the caller: what may be written, what is there now, and the writing itself.

Files are read and written by the program that applies patches, inside the sandbox, with the rights of the call: a merge
may change exactly the files that a patch may.
"""

from __future__ import annotations

import base64
import hashlib
import os
import posixpath
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, SandboxError
from tertulia.policy.display_text import visible
from tertulia.protocol.tool_events import ApprovalFile
from tertulia.protocol.validation_text import is_encodable
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.session.merging.tree_merge import FileDiff, TreeChange, TreeMerge, conflict_error
from tertulia.session.worktrees.git_runner import Git
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.patch.disk_undo import FileShape, PlannedFile, folders_above
from tertulia.tools.patch.engine import check_disk_answer, check_unprotected
from tertulia.tools.patch.text import path_fault
from tertulia.tools.threads import run_in_thread
from tertulia.tools.tool import CallContext

_FAILED = "the merge was not applied"


class FilePlan(msgspec.Struct, frozen=True):
    """The request for the disk program, and what is needed to undo it."""

    changes: list[dict[str, Any]]
    files: tuple[PlannedFile, ...]
    folders: tuple[str, ...]
    """Directories that are not there yet."""


def check_merge_paths(merge: TreeMerge, top: Path, place: CommandEnvironment, call: CallContext) -> None:
    """Refuse what a patch could not change either. `call` is in the directory `top`."""
    if call.rights.sandbox == "read_only":
        raise SandboxError(
            "this conversation may write no file (sandbox read-only), and a merge writes files; nothing was changed"
        )
    paths = [change.path for change in merge.changes]
    for path in paths:
        _check_path(path)
    if call.rights.sandbox != "danger_full_access":
        check_unprotected(paths)
        _check_roots(paths, top, place.confinement(call.rights, call.worktree).writable_roots)
    place.check_changeable(paths, call)
    _check_folders(merge.changes)


def _check_path(path: str) -> None:
    fault = path_fault(path)
    if fault is None and not is_encodable(path):
        fault = f"the path '{visible(path)}' is not UTF-8"
    if fault is not None:
        raise InvalidParamsError(f"{fault}; nothing was changed")


def _check_roots(paths: Iterable[str], top: Path, roots: Sequence[str]) -> None:
    for path in paths:
        if not any(is_inside(str(top / path), root) for root in roots):
            raise SandboxError(
                f"{path} lies outside of what this conversation may write ({', '.join(roots) or 'nothing'}); nothing "
                "was changed"
            )


def _check_folders(changes: Sequence[TreeChange]) -> None:
    """A file and a directory of one name cannot be exchanged in one step that can be undone."""
    before = {change.path for change in changes if change.old is not None}
    after = {change.path for change in changes if change.new is not None}
    for path in sorted(before | after):
        others = after if path in before else before
        for above in folders_above(path):
            if above in others:
                raise InvalidParamsError(
                    f"'{above}' is a file on one side and a directory on the other, which a merge does not exchange; "
                    "nothing was changed: merge the branch by hand"
                )


# ── contents ─────────────────────────────────────────────────────────────────────────────────────────────────


async def new_contents(git: Git, merge: TreeMerge) -> dict[str, bytes]:
    """What each file that stays or comes has to hold on disk, its line ends as its attributes say."""
    paths = [change.path for change in merge.changes if change.new is not None]
    with tempfile.TemporaryDirectory(prefix="tertulia-merge-") as folder:
        index, files = Path(folder, "index"), Path(folder, "files")
        os.mkdir(files)
        await git.run("read-tree", merge.tree, index=index)
        listed = "".join(f"{path}\0" for path in paths).encode()
        await git.run("checkout-index", "-f", "-z", "--stdin", f"--prefix={files}/", stdin=listed, index=index)
        return await run_in_thread(_read_files, files, paths)


def _read_files(folder: Path, paths: Iterable[str]) -> dict[str, bytes]:
    return {path: _read(folder / path) for path in paths}


def _read(path: Path) -> bytes:
    # Where the repository knows no links, git writes a file that holds where one would point.
    return os.fsencode(os.readlink(path)) if stat.S_ISLNK(path.lstat().st_mode) else path.read_bytes()


def check_links(merge: TreeMerge, contents: Mapping[str, bytes], top: Path) -> None:
    """Refuse links that lead out of the tree, or whose target is uncertain."""
    for change in merge.changes:
        if change.new is not None and change.new.kind == "link":
            target = os.fsdecode(contents[change.path])
            if not _leads_inside(change.path, target, top):
                raise InvalidParamsError(
                    f"'{change.path}' is a symbolic link to '{visible(target)}', which leads out of {top} or cannot be "
                    "followed with certainty; nothing was changed"
                )


def _leads_inside(path: str, target: str, top: Path) -> bool:
    """Whether the target stays inside.

    `..` is accepted only at its beginning: behind a name it could follow another link.
    """
    parts = target.split("/")
    down = next((number for number, part in enumerate(parts) if part not in ("..", ".")), len(parts))
    folder = posixpath.dirname(path)
    named = posixpath.normpath(posixpath.join(folder, target))
    if not target or target.startswith("/") or "\0" in target or ".." in parts[down:] or named.split("/")[0] == "..":
        return False
    real = os.path.realpath(top)
    return is_inside(os.path.realpath(os.path.join(real, folder, target)), real)


# ── the disk ─────────────────────────────────────────────────────────────────────────────────────────────────


async def plan_files(
    merge: TreeMerge, contents: Mapping[str, bytes], place: CommandEnvironment, call: CallContext
) -> FilePlan:
    """Read the files, and plan their changes; MergeConflict where they are not as in the caller's state."""
    answer = await place.on_disk({"verb": "digest", "paths": [change.path for change in merge.changes]}, call, _FAILED)
    check_disk_answer(answer, "the merge")
    there = msgspec.convert(answer["files"], dict[str, FileShape | None])
    in_the_way = [
        f"{_obstacle(change)}: {visible(change.path)}"
        for change in merge.changes
        if _shape(_kind_on_disk(there[change.path])) != _shape(None if change.old is None else change.old.kind)
    ]
    if in_the_way:
        raise conflict_error("the files are not as git sees them", in_the_way)
    # In a thread: megabytes are encoded and hashed.
    return await run_in_thread(_file_plan, merge, contents, there, call.cwd)


def _file_plan(
    merge: TreeMerge, contents: Mapping[str, bytes], there: Mapping[str, FileShape | None], top: str
) -> FilePlan:
    renamed = {file.path: file.renamed_from for file in merge.files if file.renamed_from is not None}
    changes = [_change(change, there[change.path], contents, renamed) for change in merge.changes]
    files = [PlannedFile(change.path, there[change.path], _new_shape(change, contents)) for change in merge.changes]
    above = {folder for file in files if file.new is not None for folder in folders_above(file.path)}
    missing = sorted(folder for folder in above if not os.path.lexists(os.path.join(top, folder)))
    return FilePlan(changes, tuple(files), tuple(missing))


def _new_shape(change: TreeChange, contents: Mapping[str, bytes]) -> FileShape | None:
    if change.new is None:
        return None
    return FileShape(change.new.kind, hashlib.sha256(contents[change.path]).hexdigest())


async def write_files(plan: FilePlan, suffix: str, place: CommandEnvironment, call: CallContext) -> None:
    """Write all files or none, unless the process is killed. `suffix`: part of the names of temporary files."""
    request = {"verb": "apply", "changes": plan.changes, "suffix": suffix}
    check_disk_answer(await place.on_disk(request, call, _FAILED), "the merge")


async def check_old_contents(git: Git, merge: TreeMerge) -> None:
    """Refuse files that are not what was merged: git does not look at all of them, and others may write them.

    A user can have git leave changes of a file unseen (`assume-unchanged`, `skip-worktree`); a merge would undo them.
    """
    files = [change for change in merge.changes if change.old is not None and change.old.kind != "link"]
    listed = "".join(f"{_quoted(change.path)}\n" for change in files).encode()
    ids = (await git.run("hash-object", "--stdin-paths", stdin=listed)).decode().split() if files else []
    different = [
        change.path for change, id in zip(files, ids, strict=True) if change.old is not None and change.old.blob != id
    ]
    links = [change for change in merge.changes if change.old is not None and change.old.kind == "link"]
    different += [change.path for change in links if not await _points_as_merged(git, change)]
    if different:
        raise conflict_error(
            "files are not what git has of them (they change just now, or it was told not to look)",
            [f"changed: {visible(path)}" for path in different],
        )


async def _points_as_merged(git: Git, change: TreeChange) -> bool:
    assert change.old is not None
    try:
        target = os.fsencode(os.readlink(git.directory / change.path))
    except OSError:
        return False
    return target == await git.run("cat-file", "blob", change.old.blob)


def _quoted(path: str) -> str:
    """As git reads it in a list: a quote at its beginning would begin a quoted one."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"' if path.startswith('"') else path


def _kind_on_disk(found: FileShape | None) -> str | None:
    return None if found is None else found.kind


def _shape(kind: str | None) -> str | None:
    """The shape of a file; not every file system stores the executable bit."""
    return "file" if kind == "executable" else kind


def _obstacle(change: TreeChange) -> str:
    return "ignored file in the way" if change.old is None else "changed"


def _change(
    change: TreeChange, found: FileShape | None, contents: Mapping[str, bytes], renamed: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "path": change.path,
        "old": None if found is None else found.digest,
        "old_kind": _kind_on_disk(found),
        "new": None if change.new is None else base64.b64encode(contents[change.path]).decode(),
        "like": renamed.get(change.path),
        **({} if change.new is None else {"kind": change.new.kind}),
    }


def as_approval_files(files: Iterable[FileDiff]) -> tuple[ApprovalFile, ...]:
    """The files as a question lists them; a binary file has no lines."""
    return tuple(_as_approval_file(file) for file in files)


def _as_approval_file(file: FileDiff) -> ApprovalFile:
    added, removed = file.added or 0, file.removed or 0
    match file.status:
        case "added":
            return ApprovalFile(file.path, "add", added, removed)
        case "deleted":
            return ApprovalFile(file.path, "delete", added, removed)
        case "modified":
            return ApprovalFile(file.path, "update", added, removed)
        case "renamed":
            return ApprovalFile(f"{file.renamed_from} → {file.path}", "move", added, removed)
