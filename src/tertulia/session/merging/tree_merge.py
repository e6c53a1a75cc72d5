"""The three-way merge of two states of a repository, computed by git on commits: no file, index or branch is touched.

Attributes of the merged files have no effect: git sees an empty tree and an empty index, so it chooses no merge driver
and hides no difference.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from tertulia.errors import GitError, LimitError, MergeConflictError
from tertulia.policy.display_text import visible
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.tree_files import LeftOut

OLDEST_GIT: tuple[int, int] = (2, 38)
"""The first version that can merge commits without a working tree."""
MAX_FILES = 2_000
"""The most that one merge changes."""
MAX_BYTES = 64 * 1024 * 1024
"""Of all new contents of a merge."""
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_DIFF_BYTES = 8 * 1024 * 1024
_MAX_NAMED = 20
"""Paths that a sentence lists; the detail of the error has all."""

_NO_ATTRIBUTES = (
    ("core.attributesfile", "/dev/null"),
    ("merge.default", "text"),
    ("merge.renames", "true"),
    ("core.quotepath", "false"),
)
_NO_FILE = "000000"
_SUBMODULE = "160000"
_KINDS: dict[str, Literal["file", "executable", "link"]] = {
    "100644": "file",
    "100664": "file",
    "100755": "executable",
    "120000": "link",
}
_NO_FILTER = ("unspecified", "unset", "set")
_VERSION = re.compile(r"(\d+)\.(\d+)")
_CONFLICT = re.compile(r"CONFLICT \(([^)]*)\)")


class TreeFile(msgspec.Struct, frozen=True):
    """A file of one tree."""

    kind: Literal["file", "executable", "link"]
    mode: str
    blob: str


class TreeChange(msgspec.Struct, frozen=True):
    """A path that is another file in the merged tree than in ours."""

    path: str
    old: TreeFile | None
    new: TreeFile | None


class FileDiff(msgspec.Struct, frozen=True):
    """One file of the difference, as it is listed."""

    path: str
    status: Literal["added", "modified", "deleted", "renamed"]
    added: int | None
    """Lines; None for a binary file."""
    removed: int | None
    renamed_from: str | None = None


class TreeMerge(msgspec.Struct, frozen=True):
    """What a merge makes of our state."""

    ours: str
    """The commit of our state."""
    tree: str
    """Our state with all that is merged."""
    changes: tuple[TreeChange, ...]
    files: tuple[FileDiff, ...]
    """The same changes, a rename as one."""
    left_out: tuple[LeftOut, ...]
    diff: str
    """From ours to the tree, whole; a binary file by its old and new object ids."""


async def merge_commits(git: Git, store: Path, base: str, ours: str, theirs: str) -> TreeMerge:
    """Merge the state of `theirs` into that of `ours`, whose parent is `base`.

    Args:
        git: At the tree of `ours`, whose attributes say which paths have a filter.
        store: The git directory.
        base: The commit from which both sides are counted.
        ours: A commit whose only parent is the base.
        theirs: A commit with any history.

    Raises:
        MergeConflictError: Both sides changed the same; names each path and kind.
        LimitError: There is more to merge than one merge may change.
        GitError: Git failed.
    """
    await _check_version(git)
    async with _without_attributes(git, store) as (blind, index):
        # With this one parent, the base is the merge base, whatever happened to the branch since.
        merged = await _merge(blind, ours, await _with_parent(blind, theirs, base))
        changes, left_out = await tree_changes(blind, ours, merged)
        _check_count(changes)
        await blind.run("read-tree", merged, index=index)
        filtered = await _paths_with_filter(git, index, [change.path for change in changes])
        left_out += [LeftOut(path, "its attributes name a filter (such as Git LFS)") for path in filtered]
        changes = [change for change in changes if change.path not in filtered]
        await _check_sizes(blind, changes)
        tree = await _tree_with(blind, index, ours, changes) if left_out else merged
        diff = await whole_diff(blind, ours, tree)
        files = await changed_files(blind, ours, tree)
    return TreeMerge(ours, tree, tuple(changes), files, tuple(left_out), diff)


async def tree_changes(git: Git, ours: str, tree: str) -> tuple[list[TreeChange], list[LeftOut]]:
    """The paths that differ between two trees, a rename as two, and the submodules among them."""
    raw = await git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none", ours, tree)
    return _split_submodules(_read_raw(raw))


async def changed_files(git: Git, ours: str, tree: str, renames: str = "-M") -> tuple[FileDiff, ...]:
    """The same as it is listed, a rename as one, or with `--no-renames` as two."""
    shape = (renames, ours, tree)
    return _read_files(await _listed(git, "--numstat", *shape), await _listed(git, "--raw", *shape))


async def tree_of(git: Git, commit: str) -> str:
    """The id of a commit's tree."""
    return (await git.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")).decode().strip()


async def names_of(git: Git, *words: str) -> set[str]:
    """The paths that differ, by one of git's commands for differences."""
    verb, *others = words
    listed = await git.run(verb, "-z", "--name-only", "--no-renames", "--ignore-submodules=none", *others)
    return set(_texts(listed))


# ── git without attributes ─────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _without_attributes(git: Git, store: Path) -> AsyncGenerator[tuple[Git, Path]]:
    """Git that finds no attributes but the repository's own, and a place for an index that has some."""
    with tempfile.TemporaryDirectory(prefix="tertulia-merge-") as folder:
        empty = Path(folder, "tree")
        os.mkdir(empty)
        blind = (await git.with_drivers_off()).at(empty, store)
        variables = {**blind.variables, "GIT_INDEX_FILE": str(Path(folder, "index"))}
        settings = (*blind.settings, *_NO_ATTRIBUTES)
        yield msgspec.structs.replace(blind, variables=variables, settings=settings), Path(folder, "merged-index")


async def _check_version(git: Git) -> None:
    found = _VERSION.search((await git.run("--version")).decode())
    version: tuple[int, int] = (0, 0) if found is None else (int(found[1]), int(found[2]))
    if version < OLDEST_GIT:
        raise GitError(
            f"git {version[0]}.{version[1]} ({git.program}) cannot merge without touching files: "
            f"{OLDEST_GIT[0]}.{OLDEST_GIT[1]} or newer is needed; nothing was changed: merge the branch by hand"
        )


async def _with_parent(git: Git, commit: str, parent: str) -> str:
    tree = await tree_of(git, commit)
    return (await git.run("commit-tree", tree, "-p", parent, stdin=b"merge\n")).decode().strip()


async def _merge(git: Git, ours: str, theirs: str) -> str:
    output = await git.run("merge-tree", "--write-tree", "-z", "--messages", ours, theirs, accepted=(0, 1))
    tree, *rest = _texts(output)
    conflicts = list(dict.fromkeys(_conflicts(rest)))
    if conflicts:
        raise conflict_error("both sides changed the same", conflicts)
    return tree


def _conflicts(fields: list[str]) -> Iterator[str]:
    """What the messages of `merge-tree -z` say: a number, so many paths, what it is about, the message."""
    # Before them stand the files with conflicts, ended by an empty field.
    at, binary = fields.index("") + 1, set[str]()
    while at < len(fields):
        count = int(fields[at])
        paths, (about, message) = fields[at + 1 : at + 1 + count], fields[at + 1 + count : at + 3 + count]
        at += count + 3
        # The message says more: the subject of two files of one name is `contents` as well.
        kind = _CONFLICT.match(message) or _CONFLICT.match(about)
        if kind is not None and not (kind[1] == "content" and binary.issuperset(paths)):
            yield f"{kind[1]}: {' → '.join(dict.fromkeys(map(visible, paths)))}"
        if kind is not None and kind[1] == "binary":
            binary.update(paths)


def conflict_error(what: str, conflicts: Sequence[str]) -> MergeConflictError:
    """The refusal that names what stands in the way of a merge, each as `kind: path`."""
    more = f" and {len(conflicts) - _MAX_NAMED} more" if len(conflicts) > _MAX_NAMED else ""
    return MergeConflictError(
        f"{what}, nothing was changed: {'; '.join(conflicts[:_MAX_NAMED])}{more}", conflicts=list(conflicts)
    )


def _split_submodules(entries: Iterable[tuple[str, str, str, str, str]]) -> tuple[list[TreeChange], list[LeftOut]]:
    changes: list[TreeChange] = []
    left_out: list[LeftOut] = []
    for old_mode, new_mode, old, new, path in entries:
        if _SUBMODULE in (old_mode, new_mode):
            left_out.append(LeftOut(path, "it is a submodule"))
        else:
            changes.append(TreeChange(path, _file(old_mode, old), _file(new_mode, new)))
    return changes, left_out


def _file(mode: str, blob: str) -> TreeFile | None:
    return None if mode == _NO_FILE else TreeFile(_KINDS[mode], mode, blob)


def _read_raw(output: bytes) -> Iterator[tuple[str, str, str, str, str]]:
    """(old mode, new mode, old id, new id, path) of each entry of `--raw -z` without renames."""
    fields = _texts(output)
    for head, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, old, new, _ = head.removeprefix(":").split(" ")
        yield old_mode, new_mode, old, new, path


def _check_count(changes: Sequence[TreeChange]) -> None:
    if len(changes) > MAX_FILES:
        raise LimitError(
            f"the merge would change {len(changes):,} files, and one merge changes at most {MAX_FILES:,}; nothing was "
            "changed: merge the branch by hand"
        )


async def _paths_with_filter(git: Git, index: Path, paths: Sequence[str]) -> set[str]:
    """By the attributes of our tree as it is, and by those of an index."""
    listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    now = await git.run("check-attr", "-z", "--stdin", "filter", stdin=listed)
    later = await git.run("check-attr", "-z", "--stdin", "--cached", "filter", stdin=listed, index=index)
    fields = (*_texts(now), *_texts(later))
    triples = zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    return {path for path, _, value in triples if value not in _NO_FILTER}


async def _check_sizes(git: Git, changes: Sequence[TreeChange]) -> None:
    blobs = [(change.path, change.new.blob) for change in changes if change.new is not None]
    listed = "".join(f"{blob}\n" for _, blob in blobs).encode()
    output = await git.run("cat-file", "--batch-check=%(objectsize)", "--buffer", stdin=listed)
    sizes = [int(line) for line in output.split()]
    for (path, _), size in zip(blobs, sizes, strict=True):
        if size > MAX_FILE_BYTES:
            raise LimitError(
                f"{path} has {size:,} bytes, and a merge writes files of at most {MAX_FILE_BYTES:,}; nothing was "
                "changed"
            )
    if sum(sizes) > MAX_BYTES:
        raise LimitError(
            f"the merge would write {sum(sizes):,} bytes, and one merge writes at most {MAX_BYTES:,}; nothing was "
            "changed"
        )


async def _tree_with(git: Git, index: Path, ours: str, changes: Iterable[TreeChange]) -> str:
    """Our tree with these changes and no others."""
    await git.run("read-tree", ours, index=index)
    await git.run("update-index", "-z", "--index-info", stdin=index_lines(changes), index=index)
    return (await git.run("write-tree", index=index)).decode().strip()


def index_lines(changes: Iterable[TreeChange]) -> bytes:
    """The changes as `update-index -z --index-info` takes them."""
    return "".join(f"{_index_entry(change)}\t{change.path}\0" for change in changes).encode("utf-8", "surrogateescape")


def _index_entry(change: TreeChange) -> str:
    if change.new is not None:
        return f"{change.new.mode} {change.new.blob}"
    # Ids are longer in some repositories.
    return f"0 {'0' * (len(change.old.blob) if change.old is not None else 40)}"


async def whole_diff(git: Git, ours: str, tree: str) -> str:
    """The difference as text. LimitError where it is too long."""
    words = (
        "-p",
        "-r",
        "-M",
        "--full-index",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--ignore-submodules=none",
    )
    output = await git.run("diff-tree", *words, ours, tree)
    if len(output) > MAX_DIFF_BYTES:
        raise LimitError(
            f"the difference has {len(output):,} bytes, and one that is shown whole has at most {MAX_DIFF_BYTES:,}; "
            "nothing was changed: look at it, or merge the branch, by hand"
        )
    return output.decode("utf-8", "backslashreplace")


async def _listed(git: Git, form: str, renames: str, ours: str, tree: str) -> list[str]:
    return _texts(await git.run("diff-tree", form, "-r", "-z", renames, "--ignore-submodules=none", ours, tree))


def _read_files(numbers: list[str], raw: list[str]) -> tuple[FileDiff, ...]:
    """From `--numstat -z` and `--raw -z`, with renames."""
    counts: dict[str, tuple[int | None, int | None]] = {}
    fields = iter(numbers)
    for field in fields:
        added, removed, path = field.split("\t", 2)
        if not path:
            next(fields)
            path = next(fields)
        counts[path] = (_number(added), _number(removed))
    files: list[FileDiff] = []
    fields = iter(raw)
    for field in fields:
        letter, source, path = field.split(" ")[-1][0], None, next(fields)
        if letter in "RC":
            source, path = path, next(fields)
        files.append(FileDiff(path, _STATUS[letter], *counts[path], source))
    return tuple(files)


_STATUS: dict[str, Literal["added", "modified", "deleted", "renamed"]] = {
    "A": "added", "M": "modified", "T": "modified", "D": "deleted", "R": "renamed",
}  # fmt: skip


def _number(field: str) -> int | None:
    return None if field == "-" else int(field)


def _texts(output: bytes) -> list[str]:
    return output.decode("utf-8", "surrogateescape").split("\0")[:-1]
