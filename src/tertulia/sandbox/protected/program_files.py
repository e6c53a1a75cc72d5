"""The files below protected names that programs obey or start: hooks, configuration, settings of editors and agents.

Read by descriptors that follow no link, because another command may replace any part of a path meanwhile. Of a
repository only these are read; its objects are never looked at, and of its references and index only the state.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple

from tertulia.sandbox.mounts.root_scan import LONGEST_PATH, kernel_time
from tertulia.sandbox.mounts.stubs import marks_stub

MAX_FILE_BYTES = 1024 * 1024
MAX_BYTES = 16 * 1024 * 1024
MAX_FILES = 5_000
"""Of one place. What has more is not kept, and must be read-only instead."""

Role = Literal["store", "tree"]
"""`store`: a repository's own directory. `tree`: any other, of which every file counts."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_RECENT_NS = 20_000_000
"""Two changes can have one time where the clock of a file system is coarse."""
_OF_STORE = ("config", "config.worktree", "commondir", "info/attributes")
_STATE_OF_STORE = ("HEAD", "index", "packed-refs")


class SavedFile(NamedTuple):
    """A file as it was."""

    state: tuple[int, ...] | None
    """Changes with the file; None where it may have been too recent for that."""
    mode: int
    content: bytes | None
    """Of a link where it leads; None where that is not kept."""
    starts: bool
    """Whether it can have a program started."""

    def same_as(self, other: SavedFile | None) -> bool:
        """Whether mode and content are the same."""
        if other is None or self.mode != other.mode:
            return False
        if self.state is not None and self.state == other.state:
            return True
        return self.content is not None and self.content == other.content


class PlaceSnapshot:
    """One protected place in a root, looked at once."""

    def __init__(
        self, root: int, place: str, role: Role, known: Mapping[str, SavedFile], *, bounded: bool = True
    ) -> None:
        """`root`: open on the root that `place` is a path from. `known`: what need not be read again.

        Not bounded: every file is found, however many a command has made, and whatever rights to look it has taken
        from us; their contents are bounded all the same.
        """
        self.files: dict[str, SavedFile] = {}
        """By their paths from the root. The place itself is among them, if it is there."""
        self.complete = True
        """Whether all of it could be read, and kept."""
        self._root, self._known, self._room = root, known, MAX_BYTES
        self._most = MAX_FILES if bounded else None
        self._force = not bounded
        if _is_missing(root, place or "."):
            # Most of them are missing, and that is known by one call.
            return
        self._settled = kernel_time() - _RECENT_NS
        above, _, name = place.rpartition("/")
        with open_folder(root, above, force=self._force) as folder:
            self.complete = folder is not None
            status = None if folder is None else _status(folder, name or ".")
            if folder is None or status is None or marks_stub(status):
                return
            if not stat.S_ISDIR(status.st_mode):
                self._file(folder, name, place)
                return
        self.files[place] = SavedFile((status.st_dev, status.st_ino), stat.S_IFMT(status.st_mode), None, starts=False)
        if role == "store":
            self._store(place)
        else:
            self._tree(place)

    def _store(self, place: str) -> None:
        stores = [place]
        for store in stores:
            for path in _OF_STORE:
                self._named(_join(store, path), starts=True)
            self._tree(_join(store, "hooks"), leave=".sample")
            stores += self._inner_stores(_join(store, "modules"))
            stores += self._children(_join(store, "worktrees"))
        for path in _STATE_OF_STORE:
            self._named(_join(place, path), starts=False)
        folders = [_join(place, "refs")]
        for folder in folders:
            self._named(folder, starts=False)
            folders += self._children(folder)

    def _inner_stores(self, path: str) -> Iterator[str]:
        """Submodules, whose names may have slashes in them."""
        waiting = [path]
        for place in waiting:
            for child in self._children(place):
                with open_folder(self._root, child, force=self._force) as folder:
                    is_store = folder is not None and _status(folder, "HEAD") is not None
                if is_store:
                    yield child
                else:
                    waiting.append(child)

    def _children(self, path: str) -> list[str]:
        if _is_missing(self._root, path):
            return []
        with open_folder(self._root, path, force=self._force) as folder:
            if folder is None:
                return []
            with os.scandir(folder) as entries:
                return [_join(path, entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]

    def _tree(self, path: str, leave: str = "\0") -> None:
        waiting = [path]
        for place in waiting:
            with open_folder(self._root, place, force=self._force) as folder:
                if folder is None:
                    self._cannot(place)
                    continue
                with os.scandir(folder) as entries:
                    names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
                for name, is_folder in names:
                    if is_folder:
                        waiting.append(_join(place, name))
                    elif not name.endswith(leave):
                        self._file(folder, name, _join(place, name))

    def _cannot(self, path: str) -> None:
        """A directory that is there and cannot be read; or, in the place of one, a link."""
        above, _, name = path.rpartition("/")
        with open_folder(self._root, above, force=self._force) as folder:
            status = None if folder is None else _status(folder, name)
            if folder is None or status is None:
                return
            if stat.S_ISDIR(status.st_mode):
                self.complete = False
            else:
                self._file(folder, name, path)

    def _named(self, path: str, *, starts: bool) -> None:
        if _is_missing(self._root, path):
            return
        above, _, name = path.rpartition("/")
        with open_folder(self._root, above, force=self._force) as folder:
            if folder is not None:
                self._file(folder, name, path, starts=starts)

    def _file(self, folder: int, name: str, path: str, *, starts: bool = True) -> None:
        status = _status(folder, name)
        if status is None or (starts and stat.S_ISDIR(status.st_mode)):
            return
        if len(self.files) == self._most:
            self.complete = False
            return
        state = _state(status) if status.st_ctime_ns < self._settled or not starts else None
        known = self._known.get(path)
        if known is not None and state is not None and known.state == state:
            self.files[path] = known
            self._room -= len(known.content or b"")
            return
        content = self._content(folder, name, status) if starts else None
        self.files[path] = SavedFile(state, status.st_mode, content, starts)

    def _content(self, folder: int, name: str, status: os.stat_result) -> bytes | None:
        content: bytes | None = None
        try:
            if stat.S_ISLNK(status.st_mode):
                content = os.fsencode(os.readlink(name, dir_fd=folder))
            elif stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES:
                content = _read(folder, name)
        except OSError:
            content = None
        if content is None or len(content) > self._room:
            self.complete = False
            return None
        self._room -= len(content)
        return content


@contextmanager
def open_folder(root: int, path: str, *, force: bool = False) -> Generator[int | None]:
    """For a while, a directory below another one that is open; None where no real directories lead there.

    By force: our own directories that we may not look into get that right. A command can take it away.
    """
    try:
        folder: int | None = os.open(".", _DIRECTORY, dir_fd=root)
    except PermissionError:
        if not force:
            raise
        _give_right(root)
        folder = os.open(".", _DIRECTORY, dir_fd=root)
    for part in path.split("/") if len(path) < LONGEST_PATH else ["\0"]:
        if part and folder is not None:
            folder = _entered(folder, part, force=force)
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


def _entered(folder: int, name: str, *, force: bool) -> int | None:
    try:
        try:
            return os.open(name, _DIRECTORY, dir_fd=folder)
        except PermissionError:
            if not force:
                return None
        named = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            _give_right(named)
        finally:
            os.close(named)
        return os.open(name, _DIRECTORY, dir_fd=folder)
    except (OSError, ValueError):
        return None
    finally:
        os.close(folder)


def _give_right(folder: int) -> None:
    # By way of /proc, because a descriptor that only names a directory cannot be used for it.
    os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU)


def _is_missing(root: int, path: str) -> bool:
    """Certainly: where we may not look there may be something."""
    try:
        os.stat(path, dir_fd=root, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _read(folder: int, name: str) -> bytes | None:
    with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        content = file.read(MAX_FILE_BYTES + 1)
    return content if len(content) <= MAX_FILE_BYTES else None


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
