"""A tree of a git repository as a commit: the caller's as it is now, untouched, and a worktree of ours with its branch.

Files are read by git and by nothing else. What it cannot take without starting a program, and what it cannot read, is
left out and named: of such a file the version of the last commit stays.
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
    """The state of a tree as a commit."""

    commit: str
    left_out: tuple[LeftOut, ...] = ()


class WorktreeState(msgspec.Struct, frozen=True):
    """What a worktree has come to."""

    branch: str
    commit: str
    diffstat: str
    """What differs from where it began, as `git diff --stat` says it; empty where nothing does."""
    left_out: tuple[LeftOut, ...] = ()


class RepositoryTree(msgspec.Struct, frozen=True):
    """A tree of a repository that a caller works in: its main one, or a worktree."""

    git: Git
    top: Path
    store: Path
    """Its git directory, which has its index and HEAD."""
    common: Path
    """The git directory that all trees of the repository share; the same for the main one."""

    @classmethod
    async def find(cls, directory: Path, variables: Mapping[str, str]) -> RepositoryTree:
        """The tree that a directory lies in. GitError where it lies in none."""
        git = await Git.find(directory, variables)
        top = await _path(git, "--show-toplevel")
        store, common = await _path(git, "--absolute-git-dir"), await _path(git, "--git-common-dir")
        here = _real(directory)
        if not here.is_relative_to(top):
            # `core.worktree` can name any directory.
            raise GitError(f"the repository of {str(here)!r} says that its files are in {str(top)!r}")
        tree = cls(git.at(top, store), top, store, common)
        return msgspec.structs.replace(tree, git=await tree.git.with_drivers_off())

    async def head(self) -> str | None:
        """The commit that it is at; None before the first."""
        found = await self.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", accepted=(0, 1))
        return found.decode("ascii").strip() or None


class Worktree(msgspec.Struct, frozen=True):
    """The worktree of one conversation."""

    conversation_id: ConversationId
    repository: Path
    """The top of the tree that its caller works in."""
    common: Path
    """The git directory that it shares with that."""
    path: Path
    """Its own top, in a folder of ours."""
    branch: str
    start: str
    """The commit it began at: HEAD, with the caller's uncommitted changes on top."""

    @classmethod
    def of(cls, own: OwnWorktree) -> Worktree:
        """The one that a conversation's terms name."""
        places = (Path(own.repository), Path(own.common), Path(own.path))
        return cls(own.conversation_id, *places, own.branch, own.start)

    @property
    def is_there(self) -> bool:
        """Whether it has not been taken away."""
        return self.path.is_dir()

    @property
    def store(self) -> Path:
        """Its own git directory: no file that a command can write says where that is."""
        return self.common / "worktrees" / self.path.name

    async def git(self, variables: Mapping[str, str]) -> Git:
        """Git as it is run in this worktree."""
        # Not in the tree that it was made from: that may be gone.
        git = await Git.find(self.common, variables, untrusted=(self.repository, self.path))
        return await git.at(self.path, self.store).with_drivers_off()


async def write_state(
    tree: RepositoryTree, index: Path, parents: Sequence[str], message: str, *, masked: Sequence[str] = ()
) -> WrittenState:
    """The present state of a tree as a commit. Its index, refs and files stay as they are.

    Args:
        tree: What is read: staged, not staged and not tracked alike, but nothing that is ignored.
        index: A file that does not exist yet, in a folder of ours; it is left there.
        parents: Of the commit. Where the state is that of the first and there is only one, that is the answer.
        message: Of the commit.
        masked: Paths that commands do not see. What is not committed there stays out: a commit is for all to read.
    """

    def copy() -> None:
        try:
            # With its times: git takes a file for changed that was written in the second of the index.
            shutil.copy2(tree.store / "index", index)
        except FileNotFoundError:
            return

    await run_in_thread(copy)
    with _scratch(index.parent, index.stem) as folder:
        left_out = await _take_changes(tree.git, index, Path(folder), _below(tree.top, masked))
    return WrittenState(await _commit(tree.git, index, parents, message), left_out)


async def snapshot(worktree: Worktree, variables: Mapping[str, str]) -> WorktreeState:
    """Commit on its branch what is not committed in a worktree, and say what it has come to."""
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
    """What differs between two commits, for people."""
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


def _below(top: Path, paths: Iterable[str]) -> tuple[bytes, ...]:
    """Those of the paths that lie in a tree, from its top, however links on the way to them are spelled."""
    spelled = (
        place
        for path in paths
        for place in (path, os.path.realpath(path), os.path.join(_real(os.path.dirname(path)), os.path.basename(path)))
    )
    return tuple({os.fsencode(os.path.relpath(place, top)) for place in spelled if Path(place).is_relative_to(top)})


async def _take_changes(
    git: Git, index: Path | None, folder: Path, masked: Sequence[bytes] = ()
) -> tuple[LeftOut, ...]:
    """Bring what differs in the files into an index, but for what lies at or below a masked path.

    `folder`: one of ours, for copies.
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
    reasons |= {path: "masked" for path in present if any(_is_below(path, place) for place in masked)}
    found = await run_in_thread(copy_files, git.directory, present, reasons, folder)
    # Git looks at these by their paths: only at what it knows as a submodule, of which it reads nothing but the commit.
    submodules = [path for path in found.submodules if path in facts and facts[path][0] == _SUBMODULE]
    for option, paths in (("--force-remove", (*gone, *found.absent)), ("--replace", submodules)):
        if paths:
            stdin = b"".join(path + b"\0" for path in paths)
            await git.run("update-index", "--add", option, "-z", "--stdin", stdin=stdin, index=index)
    hashed, not_taken = await write_objects(git, index, folder, found.files, attributes)
    modes = {path: new for path, (_, new, *_) in facts.items() if new in _FILE_MODES}
    # Whether a file is executable is not asked everywhere: git knows.
    entries = [(modes.get(f.path, f.mode) if f.mode in _FILE_MODES else f.mode, id, f.path) for f, id in hashed]
    refused: list[bytes] = []
    if lines := b"".join(b"%s %s 0\t%s\0" % entry for entry in entries):
        words = ("update-index", "--add", "--replace", "-z", "--index-info")
        await git.run(*words, stdin=lines, index=index, unread=refused)
    unseen = [LeftOut(os.fsdecode(path), "not readable") for path in sorted(set(unread))]
    others = [LeftOut(os.fsdecode(path), "it is a directory") for path in found.submodules if path not in submodules]
    names = [LeftOut(os.fsdecode(path), "git takes no such name") for path in refused]
    return (*found.left_out, *not_taken, *unseen, *others, *names)


def _is_below(path: bytes, place: bytes) -> bool:
    return path == place or path.startswith(place + b"/")


async def _list(git: Git, index: Path | None, unread: list[bytes], *words: str) -> list[bytes]:
    return (await git.run(*words, "-z", index=index, unread=unread)).split(b"\0")[:-1]


async def _attributes(git: Git, index: Path | None, paths: Sequence[bytes]) -> dict[bytes, dict[str, str]]:
    """Those attributes that decide about the content of files, by path, as far as they are set."""
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
    """The commit of an index; the only parent where it has the same content."""
    tree = (await git.run("write-tree", index=index)).decode("ascii").strip()
    if len(parents) == 1:
        before = (await git.run("rev-parse", "--verify", f"{parents[0]}^{{tree}}")).decode("ascii").strip()
        if before == tree:
            return parents[0]
    named = [word for parent in parents for word in ("-p", parent)]
    written = await git.run("commit-tree", tree, *named, stdin=message.encode())
    return written.decode("ascii").strip()
