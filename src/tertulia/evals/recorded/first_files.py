"""The files that a stored session began with, from its first checkpoint, and what became of them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Literal

import msgspec

from tertulia.errors import InvalidParamsError, NotFoundError, StoragePolicyViolationError
from tertulia.evals.recorded.stored_session import RepeatableSession
from tertulia.evals.task_files import copy_folder
from tertulia.events.clock import SystemClock
from tertulia.protocol.storage import Full, Ttl, storage_to_wire
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.session.checkpoints.places import stored_folder
from tertulia.session.checkpoints.shadow import ShadowRepository
from tertulia.session.checkpoints.windows import Manifest, Window
from tertulia.session.worktrees.git_runner import Git
from tertulia.tools.threads import run_in_thread

OWN_FILES = "; --files DIR gives the files instead"
_LINK = "120000"
_NO_CONVERSION = "* -text -crlf -eol -ident -filter -working-tree-encoding\n"

TreeFiles = dict[str, tuple[str, str]]
"""The mode and the object of each file of a tree, by its path."""


class FileChange(msgspec.Struct, frozen=True):
    """A file that is not what it was."""

    path: str
    """Bytes of it that are not UTF-8 are spelled with a backslash and `xNN`."""
    act: Literal["added", "changed", "removed"]


class FirstFiles(msgspec.Struct, frozen=True):
    """Where the files of a session's beginning are."""

    store: Path
    """The folder of the shadow repository."""
    workspace: str
    """The directory that was recorded."""
    tree: str
    last_tree: str
    """At the end of its last task that wrote; the first one where that is not known."""
    not_captured: tuple[str, ...]


def find_first_files(home: Path, session: RepeatableSession) -> FirstFiles:
    """The checkpoint before the first task that may have written. Blocks.

    Raises:
        StoragePolicyViolationError: The policy of the session keeps none.
        NotFoundError: There is none, or not any more.
    """
    if session.is_fork:
        raise NotFoundError(
            f"session {session.id} is a fork: its first messages belong to another session, and no checkpoint has the "
            f"files of that time{OWN_FILES}"
        )
    if not isinstance(session.storage, Full | Ttl):
        raise StoragePolicyViolationError(
            f"session {session.id} has no checkpoint: storage_policy {storage_to_wire(session.storage)!r} keeps "
            f"none{OWN_FILES}"
        )
    manifests = _manifests(home)
    for checkpoint in session.checkpoints:
        found = _find(manifests, checkpoint.id)
        if found is None:
            raise NotFoundError(
                f"the first checkpoint of session {session.id}, of {checkpoint.ts[:16].replace('T', ' ')}, is not "
                f"there any more: retention.checkpoints says how long{OWN_FILES}"
            )
        manifest, window = found
        is_own = window.conversation_id == session.root_id
        if not is_own and session.cwd and not is_inside(os.path.realpath(session.cwd), manifest.workspace):
            # That of a conversation which works in a directory of its own.
            continue
        return FirstFiles(
            manifest.path.parent,
            manifest.workspace,
            window.before,
            _last_tree(manifest, session.id) or window.before,
            checkpoint.not_captured,
        )
    raise NotFoundError(
        f"session {session.id} has no checkpoint of its files: none of its calls could write, or checkpoints were "
        f"switched off{OWN_FILES}"
    )


async def copy_first_files(files: FirstFiles, target: Path, variables: Mapping[str, str]) -> list[str]:
    """Write the files to a new folder; returns the links that lead out of it, which are left out.

    Raises:
        NotFoundError: They were removed meanwhile.
        GitError: Git is not there, or failed.
    """
    await run_in_thread(os.makedirs, target)
    async with _held(files, variables) as git:
        with TemporaryDirectory(dir=target.parent, prefix="index-") as folder:
            at, index = git.at(target, files.store / "git"), Path(folder, "index")
            await at.run("read-tree", files.tree, index=index)
            await at.run("checkout-index", "--all", "--force", index=index)
    return await run_in_thread(remove_leading_out, target)


async def changes_of(files: FirstFiles, variables: Mapping[str, str]) -> list[FileChange]:
    """What the session has made of its files, by the end of its last task that wrote. Raises as `copy_first_files`."""
    async with _held(files, variables) as git:
        before, after = await _states(files, git)
    return compare(before, after)


async def copy_changed(files: FirstFiles, target: Path, variables: Mapping[str, str]) -> None:
    """Write the files that the session has added or changed, without links, to a new folder, if there are any.

    Raises as `copy_first_files`.
    """
    async with _held(files, variables) as git:
        before, after = await _states(files, git)
        paths = [path for path, (mode, blob) in after.items() if mode != _LINK and before.get(path) != (mode, blob)]
        if not paths:
            return
        await run_in_thread(os.makedirs, target)
        with TemporaryDirectory(dir=target.parent, prefix="index-") as folder:
            at, index = git.at(target, files.store / "git"), Path(folder, "index")
            await at.run("read-tree", files.last_tree, index=index)
            words = b"".join(os.fsencode(path) + b"\0" for path in paths)
            await at.run("checkout-index", "--force", "-z", "--stdin", index=index, stdin=words)


@asynccontextmanager
async def _held(files: FirstFiles, variables: Mapping[str, str]) -> AsyncGenerator[Git]:
    """Git, while no other process removes the objects."""
    shadow = ShadowRepository(files.store.parent, files.workspace, variables, place=files.store)
    async with shadow.held():
        if not (shadow.store / "HEAD").is_file() or not any(
            window.before == files.tree for window in shadow.manifest.windows
        ):
            raise NotFoundError(f"the checkpoints of {files.workspace} were removed meanwhile{OWN_FILES}")
        yield await Git.find(files.store, variables, untrusted=(files.workspace,))


async def _states(files: FirstFiles, git: Git) -> tuple[TreeFiles, TreeFiles]:
    at = git.at(files.store, files.store / "git")
    return await list_tree(at, files.tree), await list_tree(at, files.last_tree)


class WatchedFolder:
    """Says what has changed in a folder, without writing to it. What it ignores (.gitignore) does not count."""

    def __init__(self, folder: Path, store: Path, variables: Mapping[str, str]) -> None:
        """`store`: where the state at its beginning is written; it does not exist yet."""
        self._folder, self._store, self._variables = folder, store, variables
        self._git: Git | None = None
        self._before: TreeFiles = {}

    async def begin(self) -> None:
        """The state from which changes are counted."""
        self._store.mkdir()
        found = await Git.find(self._store, self._variables, untrusted=(str(self._folder),))
        await found.run("init", "--quiet", "--bare", "--template=", str(self._store))
        (self._store / "info").mkdir(exist_ok=True)
        (self._store / "info" / "attributes").write_text(_NO_CONVERSION)
        self._git = found.at(self._folder, self._store)
        self._before = await self._state(self._git)

    async def changes(self) -> list[FileChange]:
        """What is different from the state at the beginning."""
        assert self._git is not None, "begin() comes first"
        return compare(self._before, await self._state(self._git))

    async def _state(self, git: Git) -> TreeFiles:
        await git.run("add", "--all", "--", ".")
        return await list_tree(git, (await git.run("write-tree")).decode().strip())


def compare(before: TreeFiles, after: TreeFiles) -> list[FileChange]:
    """The files that differ, by their paths."""
    changes: list[FileChange] = []
    for path in sorted(before.keys() | after.keys()):
        if path not in after:
            changes.append(FileChange(_spelled(path), "removed"))
        elif before.get(path) != after[path]:
            changes.append(FileChange(_spelled(path), "changed" if path in before else "added"))
    return changes


def _spelled(path: str) -> str:
    """As JSON, TOML and a page can have it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


async def list_tree(git: Git, tree: str) -> TreeFiles:
    """The files of a tree."""
    files: TreeFiles = {}
    for entry in (await git.run("ls-tree", "-r", "-z", "--full-tree", tree)).split(b"\0")[:-1]:
        head, _, path = entry.partition(b"\t")
        mode, _, blob = head.decode().split(" ")
        files[os.fsdecode(path)] = mode, blob
    return files


def copy_given_files(folder: Path, target: Path) -> list[str]:
    """Copy the files that a user gives instead, without `.git`; returns what was left out. Blocks.

    InvalidParamsError where one cannot be copied, or the copy would lie in the folder itself.
    """
    if is_inside(os.path.realpath(target), os.path.realpath(folder)):
        raise InvalidParamsError(
            f"--files {folder}: the copy is made in {gettempdir()}, which lies in it; name a folder below it"
        )
    try:
        copy_folder(folder, target, without=frozenset({".git"}))
    except OSError as error:
        raise InvalidParamsError(f"--files {folder}: {error}") from None
    return remove_leading_out(target)


def remove_leading_out(top: Path) -> list[str]:
    """Remove links that lead out of a folder, and what is neither file nor folder; returns their paths. Blocks."""
    removed: list[str] = []
    real_top = os.path.realpath(top)
    for above, folders, names in os.walk(top):
        for name in [*names, *folders]:
            path = Path(above, name)
            if path.is_symlink():
                bad = os.path.isabs(os.readlink(path)) or not is_inside(os.path.realpath(path), real_top)
            else:
                bad = not path.is_file() and not path.is_dir()
            if bad:
                path.unlink()
                removed.append(_spelled(path.relative_to(top).as_posix()))
    return sorted(removed)


class _Manifest(Manifest):
    """A manifest that knows where it lies."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


def _manifests(home: Path) -> list[_Manifest]:
    found = [_Manifest(path) for path in sorted(stored_folder(home).glob("*/windows.json"))]
    for manifest in found:
        manifest.load()
    return found


def _find(manifests: Sequence[_Manifest], id: str) -> tuple[_Manifest, Window] | None:
    now = SystemClock().now()
    for manifest in manifests:
        for window in manifest.windows:
            if window.id == id:
                return (manifest, window) if window.expires is None or window.expires > now else None
    return None


def _last_tree(manifest: Manifest, session_id: str) -> str | None:
    ends = [window for window in manifest.windows if window.session_id == session_id and window.after is not None]
    return max(ends, key=lambda window: window.ended or 0.0).after if ends else None
