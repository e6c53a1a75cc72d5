"""What a merge is about to change, written down before it changes the first file, and removed after the last.

One merge at a time changes a tree: its process holds the lock of the tree. A journal whose lock is free was left by a
process that was killed. It lies in our own folder, which no command sees, and holds no content of files: what stood
there before is an object of the repository, as all that we merge.
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
    """All that is needed to take a merge back, or to finish it."""

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
    """What files are called by that are beside the others meanwhile."""
    files: tuple[PlannedFile, ...]
    folders: tuple[str, ...]
    """Directories that are made for new files."""
    before: str | None
    """The tree with what stands at the paths now, byte for byte; None where nothing does."""
    commit: JournaledCommit | None

    @property
    def before_ref(self) -> str:
        """Keeps that tree from being removed."""
        return f"refs/tertulia/before/{self.conversation_id}"

    @property
    def merged_ref(self) -> str:
        """Names what was merged last of the child."""
        return merged_ref(self.conversation_id)


def merged_ref(conversation_id: str) -> str:
    """The ref that names what was merged last of a child."""
    # Not by the branch: that may be removed, and one day have the name again.
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
        """Before the first file is changed; it is on the disk then. LimitError where it is too large."""
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
        """What is written there; None where nothing is, or nothing that we wrote."""
        try:
            return self._file.load()
        except (OSError, ValueError):
            return None

    def forget(self) -> None:
        """All is done, or taken back."""
        self._file.path.unlink(missing_ok=True)

    def hold(self) -> int | None:
        """Have the tree for this process, until it is released; None where another one has it."""
        try:
            return hold_file(self._lock)
        except FileNotFoundError:
            # The folder went with the last of the others; it is made the next time.
            return None

    def scratch(self) -> tempfile.TemporaryDirectory[str]:
        """A directory for files that are there only meanwhile; what a killed process leaves goes with the journal."""
        return tempfile.TemporaryDirectory(prefix=f"{self._key}.files-", dir=self._folder)

    def release(self, number: int) -> None:
        """The tree is free again, and the folder goes with the last."""
        # A process that was killed while it wrote the journal had changed nothing yet.
        self._file.path.with_suffix(".new").unlink(missing_ok=True)
        for folder in self._folder.glob(f"{self._key}.files-*"):
            shutil.rmtree(folder, ignore_errors=True)
        release_file(self._lock, number)
        with suppress(OSError):
            self._folder.rmdir()

    @asynccontextmanager
    async def held(self, wait_s: float = WAIT_S) -> AsyncGenerator[None]:
        """Have the tree while the block runs. BusyError where another process has it for too long."""
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
    """Those of which something is there: merges that are under way, and what killed processes have left."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [TreeJournal(folder, key) for key in sorted({name.partition(".")[0] for name in names})]
