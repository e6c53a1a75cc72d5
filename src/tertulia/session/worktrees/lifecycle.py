"""The life of a worktree in repeatable steps: record, commit, branch with worktree, files, ready.

A record in our folder is written first and removed last. By it the next process finds whatever a killed one left, and
removes or reports it. No step touches the files, the index or a ref of the tree that a worktree is made from.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tertulia.errors import GitError
from tertulia.policy.private_file import PrivateFile, VersionedContent
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.protocol.worktree import OwnWorktree
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.held_file import hold_file, release_file
from tertulia.session.worktrees.tree_files import LeftOut
from tertulia.session.worktrees.worktree import RepositoryTree, Worktree, write_state
from tertulia.tools.threads import run_in_thread

BRANCHES = "tertulia"
_SHORT = 8
_DIRECTORY = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_log = logging.getLogger(__name__)
_MESSAGE = "State of the workspace that a conversation began with\n"


class WorktreeRecord(VersionedContent, frozen=True, kw_only=True):
    """The stored record of a worktree: written before the worktree is made, removed after it is gone."""

    session_id: SessionId
    worktree: OwnWorktree
    ready: bool = False
    """Whether the worktree is complete, so that a command may have worked in it."""


class MadeWorktree(msgspec.Struct, frozen=True):
    """A worktree that is ready, and the files of the caller whose uncommitted changes are not in it."""

    worktree: OwnWorktree
    left_out: tuple[LeftOut, ...] = ()


class WorktreeFolder:
    """Our folder of worktrees and their records, which the sessions of one user share."""

    def __init__(self, home: Path) -> None:
        self.top = home / "worktrees"

    def path(self, conversation_id: str) -> Path:
        """Where the worktree of a conversation lies."""
        return Path(os.path.realpath(self.top)) / conversation_id

    def index(self, conversation_id: str) -> Path:
        """The temporary index through which the caller's state is written as a commit."""
        return self.top / f"{conversation_id}.index"

    def record(self, record: WorktreeRecord) -> None:
        """Store this record in place of the one before."""
        file = self._file(record.worktree.conversation_id)
        with file.locked():
            file.write(record)

    def forget(self, conversation_id: str) -> None:
        """Remove the record and the temporary files of a worktree: the last step of its removal."""
        for folder in self.top.glob(f"{conversation_id}.files-*"):
            shutil.rmtree(folder)
        for path in (self.index(conversation_id), self._file(conversation_id).path):
            path.unlink(missing_ok=True)

    def set_not_ready(self, conversation_id: str) -> None:
        """Record that the files of a worktree are no longer complete."""
        if (record := self.find(conversation_id)) is not None and record.ready:
            self.record(replace(record, ready=False))

    def find(self, conversation_id: str) -> WorktreeRecord | None:
        """The record of a worktree; None where there is none, or its file cannot be read as one."""
        try:
            return self._file(conversation_id).load()
        except (OSError, ValueError):
            return None

    def records(self) -> Iterator[WorktreeRecord]:
        """The records of all worktrees, of every session."""
        for path in sorted(self.top.glob("*.json")):
            if (record := self.find(path.stem)) is not None:
                yield record

    def hold(self, session_id: str) -> int | None:
        """Lock this session for this process until `release`; None where another process holds the lock."""
        return hold_file(self.top / f"{session_id}.lock")

    def release(self, session_id: str, number: int) -> None:
        """Give up this process's lock on the session."""
        release_file(self.top / f"{session_id}.lock", number)

    def _file(self, conversation_id: str) -> PrivateFile[WorktreeRecord]:
        return PrivateFile(self.top / f"{conversation_id}.json", WorktreeRecord)


Step = Callable[[str], None]
"""Called with the name of each step before the step is done."""


class WorktreeLife:
    """Makes, restores and removes worktrees."""

    def __init__(
        self,
        folder: WorktreeFolder,
        variables: Mapping[str, str],
        step: Step = lambda _: None,
        *,
        masked: Sequence[str] = (),
    ) -> None:
        """`masked`: paths that commands must not see, so that their uncommitted changes come into no worktree."""
        self._folder = folder
        self._masked = masked
        self._known: set[str] = set()
        """Paths of the worktrees that this process has made, or has checked for a stale lock."""
        self._variables = variables
        self._step = step

    async def make(
        self, session_id: SessionId, conversation_id: ConversationId, cwd: str, caller: OwnWorktree | None
    ) -> MadeWorktree:
        """Make a worktree in the present state of the tree around a directory. A failure leaves nothing behind.

        Args:
            session_id: The session that the conversation belongs to.
            conversation_id: The conversation that will work in it.
            cwd: The directory in which the caller works.
            caller: The caller's own worktree; None where the caller works in none.

        Raises:
            GitError: There is no git, no repository, or git refused.
        """
        tree = await RepositoryTree.find(Path(cwd), self._variables)
        plan = OwnWorktree(
            conversation_id,
            original=str(tree.top) if caller is None else caller.original,
            repository=str(tree.top),
            common=str(tree.common),
            path=str(self._folder.path(conversation_id)),
            branch=await _free_branch(tree, conversation_id),
            start="",
        )
        record = WorktreeRecord(session_id=session_id, worktree=plan)
        try:
            self._step("record")
            await run_in_thread(self._folder.record, record)
            return await self._carry_out(tree, record)
        except OSError as error:
            await self.remove(record.worktree)
            raise GitError(f"the worktree cannot be made in {self._folder.top}: {error.strerror}") from None
        except BaseException:
            await self.remove(record.worktree)
            raise

    async def _carry_out(self, tree: RepositoryTree, record: WorktreeRecord) -> MadeWorktree:
        head = await tree.head()
        index = self._folder.index(record.worktree.conversation_id)
        self._step("commit")
        written = await write_state(tree, index, [] if head is None else [head], _MESSAGE, masked=self._masked)
        worktree = replace(record.worktree, start=written.commit, began=_began(head, written.commit))
        self._step("record the commit")
        await run_in_thread(self._folder.record, replace(record, worktree=worktree))
        await self._register(tree.git, worktree)
        self._step("files")
        await self.write_files(worktree)
        self._step("ready")
        await run_in_thread(self._folder.record, replace(record, worktree=worktree, ready=True))
        index.unlink(missing_ok=True)
        self._known.add(worktree.path)
        return MadeWorktree(worktree, written.left_out)

    async def _register(self, git: Git, worktree: OwnWorktree) -> None:
        self._step("branch")
        await git.run("update-ref", "-m", "tertulia: begin", f"refs/heads/{worktree.branch}", worktree.start, "")
        self._step("worktree")
        await git.run("worktree", "add", "--quiet", "--no-checkout", worktree.path, worktree.branch)

    async def write_files(self, worktree: OwnWorktree) -> None:
        """Write all files of the last commit, without any filter."""
        git = await Worktree.of(worktree).git(self._variables)
        await git.run("reset", "--hard", "--quiet", "--no-recurse-submodules")

    async def restore(self, session_id: SessionId, worktree: OwnWorktree) -> None:
        """Make a worktree again that was removed when its session was closed. GitError where that is not possible."""
        if _is_directory(worktree.path):
            record = await run_in_thread(self._folder.find, worktree.conversation_id)
            if record is None or record.ready:
                if worktree.path not in self._known:
                    # A lock that a git left which was killed with an earlier process.
                    (Worktree.of(worktree).store / "index.lock").unlink(missing_ok=True)
                    self._known.add(worktree.path)
                return
            # A process was killed while it wrote or removed the files.
            await run_in_thread(_remove_tree, Path(worktree.path), self._folder.top)
        tree = await RepositoryTree.find(Path(worktree.repository), self._variables)
        branch = f"refs/heads/{worktree.branch}"
        found = await tree.git.run("rev-parse", "--verify", "--quiet", f"{branch}^{{commit}}", accepted=(0, 1))
        await run_in_thread(self._folder.record, WorktreeRecord(session_id=session_id, worktree=worktree))
        if not found:
            await tree.git.run("update-ref", "-m", "tertulia: begin", branch, worktree.start, "")
        await run_in_thread(_remove_registration, worktree)
        await tree.git.run("worktree", "add", "--quiet", "--no-checkout", worktree.path, worktree.branch)
        await self.write_files(worktree)
        ready = WorktreeRecord(session_id=session_id, worktree=worktree, ready=True)
        await run_in_thread(self._folder.record, ready)

    async def is_clean(self, worktree: OwnWorktree) -> bool:
        """Whether everything in the worktree is committed, ignored files aside."""
        if not _is_directory(worktree.path):
            return True
        git = await Worktree.of(worktree).git(self._variables)
        shape = ("--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty", "--no-renames")
        unread: list[bytes] = []
        return not await git.run("status", *shape, unread=unread) and not unread

    async def remove(self, worktree: OwnWorktree) -> None:
        """Remove a worktree, and its branch where that has no commit beyond the first. A second call changes nothing.

        Raises GitError where git or the file system refused; the next call removes what is left.
        """
        try:
            await self._remove(worktree)
        except OSError as error:
            raise GitError(f"{error.filename or worktree.path} cannot be removed: {error.strerror}") from None

    async def _remove(self, worktree: OwnWorktree) -> None:
        self._step("remove files")
        # Recorded first: after an interruption, missing files would look like uncommitted work.
        await run_in_thread(self._folder.set_not_ready, worktree.conversation_id)
        await run_in_thread(_remove_tree, Path(worktree.path), self._folder.top)
        self._step("remove registration")
        await run_in_thread(_remove_registration, worktree)
        self._step("remove branch")
        if worktree.start and _is_directory(worktree.common):
            await self._remove_branch(worktree)
        self._step("forget")
        await run_in_thread(self._folder.forget, worktree.conversation_id)

    async def _remove_branch(self, worktree: OwnWorktree) -> None:
        common = Path(worktree.common)
        found = await Git.find(common, self._variables, untrusted=(worktree.repository, worktree.path))
        git, branch = found.at(common, common), f"refs/heads/{worktree.branch}"
        at = (await git.run("rev-parse", "--verify", "--quiet", branch, accepted=(0, 1))).decode().strip()
        if at == worktree.start:
            await git.run("update-ref", "-d", branch, worktree.start)


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _began(head: str | None, start: str) -> str:
    if head is None:
        return "the uncommitted files of your workspace, which has no commit yet"
    if head == start:
        return f"HEAD ({head[:12]}) of your workspace, which had no uncommitted changes"
    return f"HEAD ({head[:12]}) of your workspace with its uncommitted changes on top"


async def _free_branch(tree: RepositoryTree, conversation_id: str) -> str:
    """A free branch name: with the short id, or with the whole one where that branch exists already."""
    for name in (conversation_id[:_SHORT], conversation_id):
        branch = f"{BRANCHES}/{name}"
        if not await tree.git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", accepted=(0, 1)):
            return branch
    raise GitError(f"the repository has a branch {BRANCHES}/{conversation_id} already; rename or remove it")


def _remove_tree(path: Path, top: Path) -> None:
    if path.parent != Path(os.path.realpath(top)):
        raise GitError(f"{path} is not in our folder of worktrees, and was not touched")
    with suppress(FileNotFoundError):
        # A command may have changed the modes of its directories so that we may not write there.
        os.chmod(path, 0o700)
        for folder, names, _ in os.walk(path):
            for name in names:
                if not os.path.islink(below := os.path.join(folder, name)):
                    os.chmod(below, 0o700)
        shutil.rmtree(path)


def _remove_registration(worktree: OwnWorktree) -> None:
    """Remove git's own directory for a worktree from the repository; its name is unique to this conversation."""
    store = Path(worktree.common) / "worktrees" / Path(worktree.path).name
    if os.path.islink(store):
        return
    with suppress(FileNotFoundError):
        shutil.rmtree(store)
    with suppress(OSError):
        # Git, too, removes the folder `worktrees` when it is empty.
        store.parent.rmdir()


def make_folder(top: str, path: str) -> None:
    """Make a conversation's directory inside its worktree, since git keeps no empty directories.

    Where a command has put a link or a file in the way, the rest is not made.
    """
    way = os.path.relpath(path, top).split("/")
    if way[0] in (os.curdir, os.pardir):
        return
    here = os.open(top, _DIRECTORY)
    try:
        for name in way:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=here)
            there = os.open(name, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = there
    except OSError as error:
        _log.info("%s is not there, and was not made: %s", path, error.strerror)
    finally:
        os.close(here)
