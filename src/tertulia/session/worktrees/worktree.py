"""The state of a git tree as a commit: of the caller's tree, which is not touched, and of a conversation's own
worktree.

Files that git cannot take without starting a program, and files that cannot be read, are left out and reported: the
commit keeps their last committed version.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tertulia.errors import GitError
from tertulia.policy.display_text import printable
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.worktree import OwnWorktree
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.tree_files import LeftOut, copy_files
from tertulia.session.worktrees.tree_objects import write_objects
from tertulia.tools.threads import run_in_thread

_MAX_DIFFSTAT_FILES = 50
_MAX_DIFFSTAT_CHARACTERS = 8_000
_SUBMODULE = b":160000"
_NO_FILTER = (b"unspecified", b"unset", b"set")
_FILE_MODES = (b"100644", b"100755")
_DECIDING = ("filter", "text", "eol", "crlf", "ident", "working-tree-encoding")


class WrittenState(msgspec.Struct, frozen=True):
    """The commit that has the state of a tree, and the files that are not in it."""

    commit: str
    left_out: tuple[LeftOut, ...] = ()


class WorktreeState(msgspec.Struct, frozen=True):
    """The state of a worktree after a commit."""

    branch: str
    commit: str
    diffstat: str
    """The difference from the commit it began at, as `git diff --stat` prints it; empty where there is none."""
    left_out: tuple[LeftOut, ...] = ()


class RepositoryTree(msgspec.Struct, frozen=True):
    """The tree of a repository in which a caller works: the main one, or a worktree."""

    git: Git
    top: Path
    store: Path
    """The tree's own git directory, with its index and HEAD."""
    common: Path
    """The git directory that all trees of the repository share; for the main tree the same as `store`."""

    @classmethod
    async def find(cls, directory: Path, variables: Mapping[str, str]) -> RepositoryTree:
        """The tree that a directory lies in. GitError where it lies in none."""
        git = await Git.find(directory, variables)
        top = await _path(git, "--show-toplevel")
        store, common = await _path(git, "--absolute-git-dir"), await _path(git, "--git-common-dir")
        here = _real(directory)
        if not here.is_relative_to(top):
            # Checked because `core.worktree` can name any directory.
            raise GitError(f"the repository of {str(here)!r} says that its files are in {str(top)!r}")
        tree = cls(git.at(top, store), top, store, common)
        return msgspec.structs.replace(tree, git=await tree.git.with_drivers_off())

    async def head(self) -> str | None:
        """The commit at HEAD; None before the first commit."""
        found = await self.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", accepted=(0, 1))
        return found.decode("ascii").strip() or None


class Worktree(msgspec.Struct, frozen=True):
    """The worktree of one conversation."""

    conversation_id: ConversationId
    repository: Path
    """The top of the tree in which the caller works."""
    common: Path
    """The git directory that the worktree shares with the caller's tree."""
    path: Path
    """The top of the worktree, in a folder of ours."""
    branch: str
    start: str
    """The first commit of the worktree: HEAD, with the caller's uncommitted changes on top."""

    @classmethod
    def of(cls, own: OwnWorktree) -> Worktree:
        """The worktree that a conversation's terms name."""
        places = (Path(own.repository), Path(own.common), Path(own.path))
        return cls(own.conversation_id, *places, own.branch, own.start)

    @property
    def is_there(self) -> bool:
        """Whether the worktree's directory exists."""
        return self.path.is_dir()

    @property
    def store(self) -> Path:
        """The worktree's own git directory, derived from paths we know: no file that a command can write decides it."""
        return self.common / "worktrees" / self.path.name

    async def git(self, variables: Mapping[str, str]) -> Git:
        """Git for this worktree, with all drivers off."""
        # Looked for from the shared git directory: the tree that the worktree was made from may be gone.
        git = await Git.find(self.common, variables, untrusted=(self.repository, self.path))
        return await git.at(self.path, self.store).with_drivers_off()


async def write_state(
    tree: RepositoryTree, index: Path, parents: Sequence[str], message: str, *, masked: Sequence[str] = ()
) -> WrittenState:
    """Write the present state of a tree as a commit. Its index, refs and files stay as they are.

    Args:
        tree: The tree to read: staged, unstaged and untracked files, but no ignored ones.
        index: A path in a folder of ours at which no file exists; the temporary index is written and left there.
        parents: The parents of the commit. A single parent with the same content is returned instead of a new commit.
        message: The commit message.
        masked: Paths that commands must not see. Uncommitted changes there are left out: all can read a commit.
    """

    def copy() -> None:
        try:
            # With its times: git checks the content of files that are not older than the index.
            shutil.copy2(tree.store / "index", index)
        except FileNotFoundError:
            return

    await run_in_thread(copy)
    with _scratch(index.parent, index.stem) as folder:
        left_out = await _take_changes(tree.git, index, Path(folder), relative_spellings(tree.top, masked))
    return WrittenState(await _commit(tree.git, index, parents, message), left_out)


async def snapshot(worktree: Worktree, variables: Mapping[str, str]) -> WorktreeState:
    """Commit the uncommitted changes of a worktree on its branch; returns the state after it."""
    git = await worktree.git(variables)
    branch = f"refs/heads/{worktree.branch}"
    found = await git.run("rev-parse", "--verify", "--quiet", f"{branch}^{{commit}}", accepted=(0, 1))
    if not (before := found.decode().strip()):
        raise GitError(f"the branch {worktree.branch} is gone; the files are in {worktree.path}")
    with _scratch(worktree.path.parent, worktree.path.name) as folder:
        left_out = await _take_changes(git, None, Path(folder))
    message = f"Work of conversation {worktree.conversation_id}\n"
    commit = await _commit(git, None, (before,), message)
    if commit != before:
        await git.run("update-ref", "-m", "tertulia: commit", branch, commit, before)
    return WorktreeState(worktree.branch, commit, await diffstat(git, worktree.start, commit), left_out)


async def diffstat(git: Git, before: str, after: str) -> str:
    """The difference between two commits as text for people; empty where there is none."""
    if before == after:
        return ""
    shape = ("--stat=100", f"--stat-count={_MAX_DIFFSTAT_FILES}", "-M", "--no-ext-diff", "--no-textconv")
    listed = await git.run("diff-tree", "--no-color", *shape, before, after)
    return printable(listed.decode("utf-8", "replace")).rstrip()[-_MAX_DIFFSTAT_CHARACTERS:]


def _scratch(folder: Path, name: str) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=folder, prefix=f"{name}.files-")


async def _path(git: Git, question: str) -> Path:
    words = ("rev-parse", "--path-format=absolute", question)
    answer = (await git.run(*words)).decode("utf-8", "surrogateescape").removesuffix("\n")
    return _real(answer)


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def relative_spellings(top: Path, paths: Iterable[str]) -> tuple[bytes, ...]:
    """The paths that lie in a tree, relative to its top, with links resolved in each way that git may see them."""
    spelled = (
        place
        for path in paths
        for place in (path, os.path.realpath(path), os.path.join(_real(os.path.dirname(path)), os.path.basename(path)))
    )
    return tuple({os.fsencode(os.path.relpath(place, top)) for place in spelled if Path(place).is_relative_to(top)})


async def _take_changes(
    git: Git, index: Path | None, folder: Path, masked: Sequence[bytes] = ()
) -> tuple[LeftOut, ...]:
    """Update an index with the changed files, except those at or below a masked path.

    `folder`: a folder of ours for the copies.
    """
    await git.run("update-index", "-q", "--unmerged", "--refresh", index=index, accepted=(0, 1))
    unread: list[bytes] = []
    words = await _list(git, index, unread, "diff-files", "--raw", "--no-renames", "--ignore-submodules=dirty")
    facts = dict(zip(words[1::2], (word.split(b" ") for word in words[::2]), strict=True))
    gone = [path for path, (*_, status) in facts.items() if status == b"D"]
    present = [path for path, (*_, status) in facts.items() if status != b"D"]
    present += await _list(git, index, unread, "ls-files", "-o", "--exclude-standard")
    attributes = await _attributes(git, index, present)
    reasons = {path: f"filter {printable(named['filter'])}" for path, named in attributes.items() if "filter" in named}
    reasons |= {path: "masked" for path in present if any(is_below(path, place) for place in masked)}
    found = await run_in_thread(copy_files, git.directory, present, reasons, folder)
    # Git reads these by their paths. Allowed only for known submodules, of which git reads the commit and nothing else.
    submodules = [path for path in found.submodules if path in facts and facts[path][0] == _SUBMODULE]
    for option, paths in (("--force-remove", (*gone, *found.absent)), ("--replace", submodules)):
        if paths:
            stdin = b"".join(path + b"\0" for path in paths)
            await git.run("update-index", "--add", option, "-z", "--stdin", stdin=stdin, index=index)
    hashed, not_taken = await write_objects(git, index, folder, found.files, attributes)
    modes = {path: new for path, (_, new, *_) in facts.items() if new in _FILE_MODES}
    # With `core.fileMode` off the executable bit of a file means nothing: the mode that git reports counts.
    entries = [(modes.get(f.path, f.mode) if f.mode in _FILE_MODES else f.mode, id, f.path) for f, id in hashed]
    refused: list[bytes] = []
    if lines := b"".join(b"%s %s 0\t%s\0" % entry for entry in entries):
        words = ("update-index", "--add", "--replace", "-z", "--index-info")
        await git.run(*words, stdin=lines, index=index, unread=refused)
    unseen = [LeftOut(os.fsdecode(path), "not readable") for path in sorted(set(unread))]
    others = [LeftOut(os.fsdecode(path), "it is a directory") for path in found.submodules if path not in submodules]
    names = [LeftOut(os.fsdecode(path), "git takes no such name") for path in refused]
    return (*found.left_out, *not_taken, *unseen, *others, *names)


def is_below(path: bytes, place: bytes) -> bool:
    """Whether a path is this place, or lies in it."""
    return path == place or path.startswith(place + b"/")


async def _list(git: Git, index: Path | None, unread: list[bytes], *words: str) -> list[bytes]:
    return (await git.run(*words, "-z", index=index, unread=unread)).split(b"\0")[:-1]


async def _attributes(git: Git, index: Path | None, paths: Sequence[bytes]) -> dict[bytes, dict[str, str]]:
    """By path, the attributes that are set and decide about the content of the file."""
    if not paths:
        return {}
    stdin = b"".join(path + b"\0" for path in paths)
    words = (await git.run("check-attr", "-z", "--stdin", *_DECIDING, stdin=stdin, index=index)).split(b"\0")[:-1]
    found: dict[bytes, dict[str, str]] = {}
    for path, name, value in zip(words[::3], words[1::3], words[2::3], strict=True):
        unset = (b"unspecified", b"unset") if name != b"filter" else _NO_FILTER
        if value not in unset:
            found.setdefault(path, {})[name.decode()] = value.decode("utf-8", "replace")[:80]
    return found


async def _commit(git: Git, index: Path | None, parents: Sequence[str], message: str) -> str:
    """Write an index as a commit; returns the parent instead where there is one with the same content."""
    tree = (await git.run("write-tree", index=index)).decode("ascii").strip()
    if len(parents) == 1:
        before = (await git.run("rev-parse", "--verify", f"{parents[0]}^{{tree}}")).decode("ascii").strip()
        if before == tree:
            return parents[0]
    named = [word for parent in parents for word in ("-p", parent)]
    written = await git.run("commit-tree", tree, *named, stdin=message.encode())
    return written.decode("ascii").strip()
