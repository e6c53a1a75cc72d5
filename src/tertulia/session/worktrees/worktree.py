"""A tree of a git repository as a commit: the caller's as it is now, untouched, and a worktree of ours with its branch.

Files are read by git and by nothing else. What it cannot take without starting a program, and what it cannot read, is
left out and named: of such a file the version of the last commit stays.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tertulia.errors import GitError
from tertulia.policy.display_text import printable
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.worktree import OwnWorktree
from tertulia.sandbox.mounts.stubs import is_stub
from tertulia.session.worktrees.git_runner import Git
from tertulia.tools.threads import run_in_thread

MAX_FILE_BYTES = 100 * 1024 * 1024
"""Of a file that is committed: what is left out of a commit can be had again, what is in one stays for ever."""
_MAX_DIFFSTAT_FILES = 50
_MAX_DIFFSTAT_CHARACTERS = 8_000
_NO_FILTER = (b"unspecified", b"unset", b"set")


class LeftOut(msgspec.Struct, frozen=True):
    """A file whose state is in no commit."""

    path: str
    """From the top of the tree."""
    reason: str

    def __str__(self) -> str:
        return f"{printable(self.path).replace(chr(10), '⟨U+000A⟩')} ({self.reason})"


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
    left_out = await _take_changes(tree.git, index, _below(tree.top, masked))
    return WrittenState(await _commit(tree.git, index, parents, message), left_out)


async def snapshot(worktree: Worktree, variables: Mapping[str, str]) -> WorktreeState:
    """Commit on its branch what is not committed in a worktree, and say what it has come to."""
    git = await worktree.git(variables)
    before = (await git.run("rev-parse", "--verify", f"refs/heads/{worktree.branch}^{{commit}}")).decode().strip()
    left_out = await _take_changes(git, None)
    message = f"Work of conversation {worktree.conversation_id}\n"
    commit = await _commit(git, None, (before,), message)
    if commit != before:
        await git.run("update-ref", "-m", "tertulia: commit", f"refs/heads/{worktree.branch}", commit, before)
    return WorktreeState(worktree.branch, commit, await diffstat(git, worktree.start, commit), left_out)


async def diffstat(git: Git, before: str, after: str) -> str:
    """What differs between two commits, for people."""
    if before == after:
        return ""
    shape = ("--stat=100", f"--stat-count={_MAX_DIFFSTAT_FILES}", "-M", "--no-ext-diff", "--no-textconv")
    listed = await git.run("diff-tree", "--no-color", *shape, before, after)
    return printable(listed.decode("utf-8", "replace")).rstrip()[-_MAX_DIFFSTAT_CHARACTERS:]


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


async def _take_changes(git: Git, index: Path | None, masked: Sequence[bytes] = ()) -> tuple[LeftOut, ...]:
    """Bring what differs in the files into an index, but for what lies at or below a masked path."""
    await git.run("update-index", "-q", "--unmerged", "--refresh", index=index, accepted=(0, 1))
    words = await _list(git, index, "diff-files", "--name-status", "--no-renames", "--ignore-submodules=dirty")
    statuses = dict(zip(words[1::2], words[::2], strict=True))
    untracked = await _list(git, index, "ls-files", "-o", "--exclude-standard")
    present = [*(path for path, status in statuses.items() if status != b"D"), *untracked]
    filtered = await _filters(git, index, present)
    taken, absent, left_out = await run_in_thread(_choose, git.directory, present, filtered, masked)
    gone = [*(path for path, status in statuses.items() if status == b"D"), *absent]
    for option, paths in (("--force-remove", gone), ("--add", taken)):
        if paths:
            stdin = b"".join(path + b"\0" for path in paths)
            await git.run("update-index", option, "--remove", "--replace", "-z", "--stdin", stdin=stdin, index=index)
    return left_out


async def _list(git: Git, index: Path | None, *words: str) -> list[bytes]:
    return (await git.run(*words, "-z", index=index)).split(b"\0")[:-1]


async def _filters(git: Git, index: Path | None, paths: Sequence[bytes]) -> dict[bytes, str]:
    """The filters that attributes name, by path."""
    if not paths:
        return {}
    stdin = b"".join(path + b"\0" for path in paths)
    words = (await git.run("check-attr", "-z", "--stdin", "filter", stdin=stdin, index=index)).split(b"\0")[:-1]
    named = zip(words[::3], words[2::3], strict=True)
    return {path: name.decode("utf-8", "replace")[:80] for path, name in named if name not in _NO_FILTER}


def _choose(
    top: Path, paths: Sequence[bytes], filtered: Mapping[bytes, str], masked: Sequence[bytes]
) -> tuple[list[bytes], list[bytes], tuple[LeftOut, ...]]:
    """Those that are committed, those that are not there any more, and those that are left out."""
    taken: list[bytes] = []
    absent: list[bytes] = []
    left_out: list[LeftOut] = []
    for path in dict.fromkeys(paths):
        name = os.fsdecode(path)
        if is_stub(top / name):
            # It stands there for a command that runs, and goes with it.
            continue
        try:
            status = os.lstat(top / name)
        except (FileNotFoundError, NotADirectoryError):
            absent.append(path)
            continue
        if any(path == place or path.startswith(place + b"/") for place in masked):
            reason = "masked"
        elif path in filtered:
            reason = f"filter {printable(filtered[path])}"
        else:
            reason = _obstacle(top / name, path, status)
        if reason is None:
            taken.append(path)
        else:
            left_out.append(LeftOut(name, reason))
    return taken, absent, tuple(left_out)


def _obstacle(place: Path, path: bytes, status: os.stat_result) -> str | None:
    """Why git cannot or should not take it."""
    if path.endswith(b"/"):
        return "a repository of its own"
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return "not a plain file"
    if status.st_size > MAX_FILE_BYTES:
        return f"larger than {MAX_FILE_BYTES // 1024**2} MB"
    return None if os.access(place, os.R_OK) else "not readable"


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
