"""The journal of a merge: written before the first file is changed, and removed after the last.

One merge at a time changes a tree: its process holds the lock of the tree. A journal whose lock is free was left by a
process that was killed. It lies in the data directory, which no command sees, and holds no file contents: the old
contents are objects of the repository.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from tertulia.errors import BusyError, InvalidParamsError, LimitError
from tertulia.policy.private_file import MAX_BYTES, PrivateFile, VersionedContent
from tertulia.session.worktrees.held_file import hold_file, release_file
from tertulia.tools.patch.disk_undo import PlannedFile

WAIT_S = 60.0
"""How long a merge waits for that of another process into the same tree."""
_PAUSE_S = 0.05
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class JournaledCommit(msgspec.Struct, frozen=True):
    """In mode `commit`: what becomes of the branch and of the index."""

    branch: str
    commit: str
    index: str
    """SHA-256 of the index that has the merged files."""


class MergeJournal(VersionedContent, frozen=True, kw_only=True):
    """Everything that is needed to undo a merge, or to finish it."""

    conversation_id: str
    """The child that is merged."""
    source: str
    """The branch of its worktree."""
    merged_commit: str
    """Its state that is merged."""
    top: str
    """The tree that is changed."""
    store: str
    """The git directory of that tree."""
    suffix: str
    """Part of the names of temporary files."""
    files: tuple[PlannedFile, ...]
    folders: tuple[str, ...]
    """Directories that are made for new files."""
    before: str | None
    """The git tree with the old files, byte for byte; None where there are none."""
    commit: JournaledCommit | None
    is_restore: bool = False
    """Whether it is the restore of a checkpoint: `source` and `conversation_id` name that, and `store` is ours."""

    @property
    def before_ref(self) -> str:
        """The ref that keeps the tree of old files from being garbage-collected."""
        return f"refs/tertulia/before/{self.conversation_id}"

    @property
    def merged_ref(self) -> str:
        """Names what was merged last of the child."""
        return merged_ref(self.conversation_id)


def merged_ref(conversation_id: str) -> str:
    """The ref that names what was merged last of a child."""
    # Not by the name of the branch, which may be removed and used again.
    return f"refs/tertulia/merged/{conversation_id}"


class TreeJournal:
    """The place of the journal of one tree, with its lock."""

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder
        self._key = key
        self._lock = folder / f"{key}.lock"
        self._file = PrivateFile(folder / f"{key}.json", MergeJournal)

    @classmethod
    def of(cls, folder: Path, top: str) -> TreeJournal:
        """That of the tree with this top."""
        return cls(folder, hashlib.sha256(os.fsencode(top)).hexdigest()[:32])

    def write(self, journal: MergeJournal) -> None:
        """Write the journal to the disk, before the first file is changed. LimitError where it is too large."""
        try:
            size = len(msgspec.json.format(msgspec.json.encode(journal)))
        except UnicodeEncodeError:
            raise InvalidParamsError(
                f"the path {journal.top!r} or a name in it is not UTF-8: nothing was changed"
            ) from None
        if size >= MAX_BYTES:
            raise LimitError("the names of the files that would be merged are too long; nothing was changed")
        with self._file.locked():
            self._file.write(journal)
            number = os.open(self._file.path.parent, _DIRECTORY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def load(self) -> MergeJournal | None:
        """The journal; None where there is none, or the file is no journal."""
        try:
            return self._file.load()
        except (OSError, ValueError):
            return None

    def forget(self) -> None:
        """Remove the journal: the merge is finished or undone."""
        self._file.path.unlink(missing_ok=True)

    def hold(self) -> int | None:
        """Lock the tree for this process until `release`; None where another process has the lock."""
        try:
            return hold_file(self._lock)
        except FileNotFoundError:
            # Another process has just removed the empty folder; it is created at the next attempt.
            return None

    def scratch(self) -> tempfile.TemporaryDirectory[str]:
        """A directory for temporary files; those of a killed process are removed with its journal."""
        return tempfile.TemporaryDirectory(prefix=f"{self._key}.files-", dir=self._folder)

    def release(self, number: int) -> None:
        """Unlock the tree, and remove the folder when it is empty."""
        # A journal that was being written when its process was killed: nothing had been changed yet.
        self._file.path.with_suffix(".new").unlink(missing_ok=True)
        for folder in self._folder.glob(f"{self._key}.files-*"):
            shutil.rmtree(folder, ignore_errors=True)
        release_file(self._lock, number)
        with suppress(OSError):
            self._folder.rmdir()

    @asynccontextmanager
    async def held(self, wait_s: float = WAIT_S) -> AsyncGenerator[None]:
        """Hold the lock of the tree inside the block. BusyError where another process holds it for too long."""
        until = asyncio.get_running_loop().time() + wait_s
        while (number := self.hold()) is None:
            if asyncio.get_running_loop().time() >= until:
                raise BusyError(
                    f"another process merges into this tree, and did not end within {wait_s:g} s; it may wait for an "
                    "answer to its question. Nothing was changed: merge again when it is done",
                    retry_after_s=wait_s,
                )
            await asyncio.sleep(_PAUSE_S)
        try:
            yield
        finally:
            self.release(number)


def tree_journals(folder: Path) -> list[TreeJournal]:
    """The journals that exist: of merges in progress, and those that killed processes have left."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [TreeJournal(folder, key) for key in sorted({name.partition(".")[0] for name in names})]
