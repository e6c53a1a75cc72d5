"""The shadow repository of a workspace: its files as git trees, in a repository of ours.

Of the user's own repository only data is read: which files it ignores, and which of those it has all the same. Git runs
outside the sandbox as for worktrees, with all attributes that convert a file switched off, so that a tree has every
file byte for byte. Files are read without following links; links are recorded as links.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tertulia.context.git_repository import find_repository, git_directory
from tertulia.errors import BusyError, GitError, LimitError
from tertulia.sandbox.runner import PROTECTED_NAMES
from tertulia.session.checkpoints.windows import Manifest
from tertulia.session.worktrees.git_runner import Git
from tertulia.session.worktrees.held_file import hold_file
from tertulia.session.worktrees.tree_files import LINK, CopiedFile, LeftOut, copy_files
from tertulia.session.worktrees.worktree import is_below, relative_spellings
from tertulia.tools.threads import run_in_thread

MAX_FILE_BYTES = 10 * 1024 * 1024
"""The largest file that is recorded."""
WAIT_S = 120.0
"""How long a capture waits for that of another process, of which the first may be long."""
_PAUSE_S = 0.02
_BATCH_BYTES = 32 * 1024 * 1024
_BATCH_FILES = 4_000
_MAX_EXCLUDES = 1024 * 1024
_RESERVE_BYTES = 16 * 1024 * 1024
"""Of a disk that is nearly full: left for the records of sessions."""
_USUAL_MODES = (0o644, 0o755)
_NO_CONVERSION = b"* -text -crlf -eol -ident -filter -working-tree-encoding !diff !merge\n"
_SETTINGS = (
    ("core.attributesfile", os.devnull),
    ("core.autocrlf", "false"),
    ("core.bare", "false"),
    ("core.compression", "1"),
    ("core.filemode", "true"),
    ("core.ignorecase", "false"),
    ("core.preloadindex", "true"),
    ("core.symlinks", "true"),
    ("gc.auto", "0"),
    ("pack.compression", "1"),
)


class CapturedTree(msgspec.Struct, frozen=True):
    """The state of a workspace as a tree of its shadow repository, and the files that are not in it."""

    tree: str
    left_out: tuple[LeftOut, ...] = ()


class _Changes(msgspec.Struct, frozen=True):
    """What differs from the last capture, by paths as git has them."""

    present: list[bytes]
    gone: list[bytes]
    tracked: frozenset[bytes]
    unread: list[bytes]


class _Recorded(msgspec.Struct):
    """What a capture has come to so far."""

    size: int = 0
    written: bool = False
    removed: list[bytes] = []
    left_out: list[LeftOut] = []


class ShadowRepository:
    """The shadow repository of one workspace. Everything but `held` is called while it is held."""

    def __init__(
        self,
        folder: Path,
        workspace: str,
        variables: Mapping[str, str],
        *,
        masked: Sequence[str] = (),
        include_ignored: bool = False,
        max_bytes: float | None = None,
        place: Path | None = None,
    ) -> None:
        """`folder`: where the repositories of all workspaces lie; `masked`: paths that commands must not see; `place`:
        its own folder, where that is known already.
        """
        self.workspace = workspace
        self.folder = place or folder / workspace_key(workspace)
        self.store = self.folder / "git"
        self.manifest = Manifest(self.folder / "windows.json")
        self._variables = variables
        self._masked = masked
        self._hidden: tuple[bytes, ...] = ()
        self._include_ignored = include_ignored
        self._max_bytes = max_bytes
        self.new_bytes = 0
        """How much was recorded since a sweep last set this to 0."""
        self._git: Git | None = None
        self._prefix = b""
        self._forced: list[bytes] = []
        self._busy: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def held(self, wait_s: float = WAIT_S) -> AsyncGenerator[None]:
        """Let one caller at a time, of all processes, work in the repository. BusyError where that takes too long."""
        while self._busy is not None:
            await asyncio.wait([self._busy])
        mine = self._busy = asyncio.get_running_loop().create_future()
        number = None
        try:
            until = asyncio.get_running_loop().time() + wait_s
            while (number := hold_file(self.folder / "lock")) is None:
                if asyncio.get_running_loop().time() >= until:
                    raise BusyError(
                        f"another process records {self.workspace}, and did not end within {wait_s:g} s",
                        retry_after_s=wait_s,
                    )
                await asyncio.sleep(_PAUSE_S)
            self.manifest.load(self.workspace)
            yield
        finally:
            if number is not None:
                os.close(number)
            self._busy = None
            mine.set_result(None)

    async def git(self) -> Git:
        """Git for the repository, which is made where there is none. GitError where git cannot be used."""
        if self._git is not None and (self.store / "HEAD").is_file():
            return self._git
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = await Git.find(self.folder, self._variables, untrusted=(self.workspace,))
        top = find_repository(self.workspace) or self.workspace
        if not (self.store / "HEAD").is_file():
            await run_in_thread(lambda: shutil.rmtree(self.store, ignore_errors=True))
            await found.run("init", "--quiet", "--bare", "--template=", str(self.store))
        plain = found.at(Path(top), self.store)
        git = msgspec.structs.replace(plain, settings=(*plain.settings, *_SETTINGS))
        self._prefix = _prefix(self.workspace, top)
        self._hidden = await run_in_thread(relative_spellings, Path(self.workspace), self._masked)
        await run_in_thread(self._prepare, top)
        self._forced = await self._forced_paths(git, top)
        self._git = git
        return git

    def _prepare(self, top: str) -> None:
        """Write the files that decide what is recorded and how."""
        for left in self.folder.glob("index-*"):
            # Of a process that was killed.
            shutil.rmtree(left, ignore_errors=True)
        (self.store / "info").mkdir(exist_ok=True)
        (self.store / "info" / "attributes").write_bytes(_NO_CONVERSION)
        (self.store / "info" / "exclude").write_bytes(_user_excludes(top))
        if self.manifest.prefix != os.fsdecode(self._prefix):
            # The paths of the index are relative to the top of the user's repository, which is another one now.
            (self.store / "index").unlink(missing_ok=True)
            self.manifest.prefix, self.manifest.tree = os.fsdecode(self._prefix), None

    async def _forced_paths(self, git: Git, top: str) -> list[bytes]:
        """Files that the user's repository has although they are ignored: read from a copy of its index."""
        store = git_directory(top)
        if store is None or self._include_ignored or not (store / "index").is_file():
            return []
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="index-") as folder:
            copy = Path(folder, "index")
            await run_in_thread(shutil.copyfile, store / "index", copy)
            try:
                listed = await git.run("ls-files", "-c", "-i", "--exclude-standard", "-z", index=copy)
            except GitError:
                # An index that this git cannot read: then its ignored files are like any other's.
                return []
        return [path for path in listed.split(b"\0")[:-1] if path.startswith(self._prefix)]

    # ── capture ──────────────────────────────────────────────────────────────────────────────────────────────

    async def capture(self) -> CapturedTree:
        """Record the workspace as it is now. Two runs of git where nothing has changed.

        Raises:
            GitError: Git failed, or is not there.
            LimitError: There is more than may be recorded.
        """
        git = await self.git()
        # What a git has left that was killed: this process holds the repository.
        await run_in_thread(_remove_rest, self.store)
        try:
            return await self._captured(git)
        except GitError:
            # On a full disk half a pack takes the room that the session needs for its record.
            await run_in_thread(_remove_rest, self.store)
            raise

    async def _captured(self, git: Git) -> CapturedTree:
        changes = await self._changes(git)
        recorded = _Recorded(removed=list(changes.gone))
        recorded.left_out += [LeftOut(self._shown(path), "not readable") for path in sorted(set(changes.unread))]
        for batch in await run_in_thread(lambda: list(_batches(git.directory, changes.present))):
            await self._record(git, batch, changes, recorded)
        if recorded.removed:
            stdin = b"".join(path + b"\0" for path in dict.fromkeys(recorded.removed))
            await git.run("update-index", "--force-remove", "-z", "--stdin", stdin=stdin)
        if recorded.written:
            await git.run("update-index", "-q", "--refresh", accepted=(0, 1))
        if self.manifest.tree is None or recorded.written or recorded.removed:
            words = (f"--prefix={os.fsdecode(self._prefix)}",) if self._prefix else ()
            self.manifest.tree = (await self._write_tree(git, words)).decode().strip()
        return CapturedTree(self.manifest.tree, tuple(dict.fromkeys(recorded.left_out)))

    async def _write_tree(self, git: Git, words: Sequence[str]) -> bytes:
        if words and not await git.run("ls-files", "-z"):
            # There is no such prefix in an empty index.
            return await git.run("mktree")
        return await git.run("write-tree", *words)

    async def _changes(self, git: Git) -> _Changes:
        unread: list[bytes] = []
        excluded = () if self._include_ignored else ("--exclude-standard",)
        within = ("--", os.fsdecode(self._prefix)) if self._prefix else ()
        changed, others = await asyncio.gather(
            git.run("diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=all"),
            git.run("ls-files", "-z", "-o", *excluded, *within, unread=unread),
        )
        words = changed.split(b"\0")[:-1]
        facts = {path: head.rpartition(b" ")[2] for head, path in zip(words[::2], words[1::2], strict=True)}
        gone = [path for path, status in facts.items() if status == b"D"]
        present = [path for path, status in facts.items() if status != b"D"]
        present += [path for path in (*others.split(b"\0")[:-1], *self._forced) if path not in facts]
        self._forced = []
        return _Changes(present, gone, frozenset(facts), unread)

    async def _record(self, git: Git, batch: list[bytes], changes: _Changes, recorded: _Recorded) -> None:
        """Write these files as objects and into the index."""
        reasons = {path: reason for path in batch if (reason := self._reason(path)) is not None}
        found = await run_in_thread(copy_files, git.directory, batch, reasons, None, MAX_FILE_BYTES)
        if found.files:
            stream = await run_in_thread(_import_stream, found.files)
            recorded.size += len(stream)
            self.new_bytes += len(stream)
            self._check_size(recorded.size)
            self._check_room(len(stream))
            # Without deltas: each file would be tried against the one before it, for half of the time and no gain.
            ids = (await git.run("fast-import", "--quiet", "--done", "--depth=0", stdin=stream)).split()
            entries = zip(found.files, ids, strict=True)
            lines = b"".join(b"%s %s 0\t%s\0" % (file.mode, id, file.path) for file, id in entries)
            refused: list[bytes] = []
            words = ("update-index", "--add", "--replace", "-z", "--index-info")
            await git.run(*words, stdin=lines, unread=refused)
            recorded.left_out += [LeftOut(self._shown(path), "git takes no such name") for path in refused]
            recorded.written = True
            self._note_modes(found.files)
        out = [os.fsencode(left.path) for left in found.left_out]
        # What cannot be recorded now must not be taken for what it was before.
        recorded.removed += [path for path in (*found.absent, *out, *found.submodules) if path in changes.tracked]
        recorded.left_out += [LeftOut(self._shown(path), "a directory") for path in found.submodules]
        recorded.left_out += [
            LeftOut(_group(self._shown(os.fsencode(left.path))), left.reason) for left in found.left_out
        ]

    def _check_size(self, size: int) -> None:
        if self._max_bytes is not None and size > self._max_bytes:
            raise LimitError(
                f"{self.workspace} has more than {self._max_bytes:,.0f} bytes to record (retention.checkpoints): make "
                "that larger, or add to its .gitignore"
            )

    def _check_room(self, size: int) -> None:
        """Refuse before the disk is full, which would stop the task: its session could not be written down."""
        status = os.statvfs(self.folder)
        room = status.f_bavail * status.f_frsize
        if size + _RESERVE_BYTES > room:
            raise LimitError(
                f"{self.folder} has room for {room:,} bytes, of which {_RESERVE_BYTES:,} stay free, and {size:,} of "
                f"{self.workspace} are to be recorded: make room, or set checkpoints = false"
            )

    def _note_modes(self, files: Sequence[CopiedFile]) -> None:
        """Remember permissions that git does not record, for files that have to be made again."""
        for file in files:
            path = self._shown(file.path)
            if file.mode == LINK or file.permissions in _USUAL_MODES:
                self.manifest.modes.pop(path, None)
            else:
                self.manifest.modes[path] = file.permissions

    def _reason(self, path: bytes) -> str | None:
        """Why a file is not recorded although it could be."""
        own = path[len(self._prefix) :]
        if os.fsdecode(own.partition(b"/")[0]) in PROTECTED_NAMES:
            return "protected, commands cannot change it"
        return "masked" if any(is_below(own, place) for place in self._hidden) else None

    def _shown(self, path: bytes) -> str:
        """A path of git as one of the workspace."""
        return os.fsdecode(path[len(self._prefix) :])


def _remove_rest(store: Path) -> None:
    """Remove what a git that failed or was killed has left."""
    (store / "index.lock").unlink(missing_ok=True)
    for pattern in ("objects/pack/tmp_*", "fast_import_crash_*"):
        for path in store.glob(pattern):
            path.unlink(missing_ok=True)


def workspace_key(workspace: str) -> str:
    """The name of a workspace's folder."""
    return hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]


def _prefix(workspace: str, top: str) -> bytes:
    """Where a workspace lies in the repository around it."""
    return b"" if top == workspace else os.fsencode(os.path.relpath(workspace, top)) + b"/"


def _group(path: str) -> str:
    """A protected directory counts once."""
    first = path.partition("/")[0]
    return first if first in PROTECTED_NAMES else path


def _import_stream(files: Sequence[CopiedFile]) -> bytes:
    """The files as `git fast-import` takes them, each with the question for its id."""
    pieces: list[bytes] = []
    for number, file in enumerate(files, 1):
        content = file.content
        pieces += (b"blob\nmark :%d\ndata %d\n" % (number, len(content)), content, b"\nget-mark :%d\n" % number)
    pieces.append(b"done\n")
    return b"".join(pieces)


def _batches(top: Path, paths: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The paths in groups that fit into memory, by sizes that may change until they are read."""
    batch: list[bytes] = []
    size = 0
    for path in paths:
        try:
            size += min(os.lstat(os.path.join(os.fsencode(top), path)).st_size, MAX_FILE_BYTES)
        except OSError:
            size += 0
        batch.append(path)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _user_excludes(top: str) -> bytes:
    """What the user's repository ignores without saying so in a file of the tree."""
    store = git_directory(top)
    if store is None:
        return b""
    try:
        common = store / (store / "commondir").read_text().strip()
    except (OSError, ValueError):
        common = store
    try:
        with open(common / "info" / "exclude", "rb") as file:
            return file.read(_MAX_EXCLUDES)
    except OSError:
        return b""
