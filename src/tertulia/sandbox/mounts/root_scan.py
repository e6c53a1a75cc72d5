"""All directories of a writable root, looked at for protected names: completely, and cheaply the second time.

There is no number of decoys behind which something could be hidden. A directory is read again only when it has changed,
which its own state says. What cannot be looked into counts as found, and so becomes read-only as a whole.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Container, Iterator

import msgspec

from tertulia.errors import SandboxError
from tertulia.sandbox.masks.startup_files import STARTUP_NAMES
from tertulia.sandbox.runner import PROTECTED_NAMES

MAX_FOLDERS = 1_000_000
"""More in one root are refused: that would take too long."""
LONGEST_PATH = 3_500
"""In bytes. Deeper directories, to which no path leads, are read-only as a whole."""
_RECENT_NS = 20_000_000
"""Two changes can have one time where the clock of a file system is coarse; after so long they cannot."""
_STORE = frozenset({"HEAD", "objects", "refs"})
"""By these names git knows a repository, whatever it is called."""
_PACKAGES = frozenset({"node_modules", ".venv", "venv", "site-packages", "__pycache__", ".tox"})
"""Full of directories, and hardly a place where a person begins a repository."""
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def is_protected_name(name: str) -> bool:
    """Compared in any spelling that a file system takes for the same."""
    # Most names are none by their first letter, and there are many.
    return (name[0] in _FIRST or not name.isascii()) and _folded(name) in _PROTECTED


def _is_kept(name: str) -> bool:
    """Whether it stays as it is where it exists: a protected name, or one that programs run by itself."""
    return (name[0] in _FIRST or not name.isascii()) and _folded(name) in _KEPT


def _folded(name: str) -> str:
    """Upper and lower case, accents in two ways, invisible characters and dots at the end are nothing to some disks.

    Windows gives `.git` the short name `git~1`, and what follows a colon is a part of the file before it.
    """
    name = name.partition(":")[0] if ":" in name else name
    if name.isascii():
        return name.lower().rstrip(" .")
    seen = "".join(char for char in unicodedata.normalize("NFKD", name) if unicodedata.category(char) != "Cf")
    return seen.casefold().rstrip(" .")


_PROTECTED = frozenset(map(_folded, PROTECTED_NAMES)) | {"git~1"}
_KEPT = _PROTECTED.union(map(_folded, STARTUP_NAMES))
_FIRST = frozenset(letter for name in _KEPT for letter in (name[0], name[0].upper()))


_NEVER = (0, 0)
"""The state of no directory: it is read again the next time."""


class ScannedFolder(msgspec.Struct, frozen=True, gc=False):
    """What was in a directory."""

    state: tuple[int, int]
    """Changes with whatever is put into the directory or taken from it."""
    below: tuple[str, ...] = ()
    """Directories to look into, by their path from the root with a slash at the end."""
    found: tuple[str, ...] = ()
    """Paths from the root; the directory itself where it is a repository, or where it cannot be read."""
    closed: bool = False
    """Nothing else is known of it."""
    packages: bool = False
    """It belongs to a package manager."""


class RootScan:
    """One root. `look` may be asked again and again."""

    __slots__ = ("_folders", "_left_out", "_prefix", "changed", "closed", "root")

    def __init__(self, root: str, left_out: Container[str] = ()) -> None:
        """`left_out`: directories that no command can write to, by their path from the root."""
        self.root = root
        self.changed: list[str] = []
        """The directories that were read in the last look, because they are new or different; at most a few."""
        self.closed: set[str] = set()
        """Those among the found of the last look that could not be looked into."""
        self._prefix = f"{root.rstrip('/')}/"
        self._left_out = left_out
        self._folders: dict[str, ScannedFolder] = {}

    def look(self, *, everywhere: bool = True) -> Iterator[str]:
        """What was found, by its path from the root; the empty path is the root itself.

        Not everywhere: what lies in the directories of package managers is taken to be as it was.
        """
        before, self._folders, self.changed, self.closed = self._folders, {}, [], set()
        settled = kernel_time() - _RECENT_NS
        waiting = [""]
        trusted: list[str] = []
        for path in waiting:
            folder = self._look_at(path, before.get(path), settled)
            yield from self._note(path, folder)
            if folder.packages and not everywhere:
                trusted += folder.below
            else:
                waiting += folder.below
            if len(waiting) > MAX_FOLDERS:
                raise SandboxError(
                    f"{self.root} has more than {MAX_FOLDERS:,} directories, too many to look for repositories in; "
                    "nothing was run: name a smaller writable root"
                )
        for path in trusted:
            folder = before.get(path) or self._look_at(path, None, settled)
            yield from self._note(path, folder)
            trusted += folder.below

    def _note(self, path: str, folder: ScannedFolder) -> tuple[str, ...]:
        self._folders[path] = folder
        if folder.closed:
            self.closed.update(folder.found)
        return folder.found

    def _look_at(self, path: str, known: ScannedFolder | None, settled: int) -> ScannedFolder:
        try:
            status = os.lstat(self._prefix + path)
        except OSError as error:
            if error.errno in _GONE:
                self.changed.append(path)
                return ScannedFolder(_NEVER)
            # It is there, and what it lies in cannot be read.
            return _closed(_NEVER, os.path.dirname(path.rstrip("/")))
        if known is not None and known.state == (status.st_ino, status.st_ctime_ns):
            return known
        self.changed.append(path)
        state = (status.st_ino, status.st_ctime_ns) if status.st_ctime_ns < settled else _NEVER
        return self._read(path, state) if len(path) < LONGEST_PATH - len(self._prefix) else _closed(state, path)

    def _read(self, path: str, state: tuple[int, int]) -> ScannedFolder:
        below: list[str] = []
        found: list[str] = []
        store: set[str] = set()
        try:
            with os.scandir(self._prefix + path) as entries:
                for entry in entries:
                    name = entry.name
                    if name in _STORE:
                        store.add(name)
                    if _is_kept(name):
                        # At the top they are protected in any case, under exactly these names.
                        found += [path + name] if path or name not in PROTECTED_NAMES else []
                    elif entry.is_dir(follow_symlinks=False) and path + name not in self._left_out:
                        below.append(f"{path}{name}/")
        except OSError as error:
            return ScannedFolder(_NEVER) if error.errno in _GONE else _closed(state, path)
        if store >= _STORE:
            return ScannedFolder(state, (), (path.rstrip("/"),))
        packages = path.rstrip("/").rpartition("/")[2] in _PACKAGES
        return ScannedFolder(state, tuple(below), tuple(found), packages=packages)


def _closed(state: tuple[int, int], path: str) -> ScannedFolder:
    """One that is found as a whole, because it cannot be looked into."""
    return ScannedFolder(state, (), (path.rstrip("/"),), closed=True)


def kernel_time() -> int:
    """Now, by the clock with which the kernel dates files."""
    fd = os.memfd_create("tertulia")
    try:
        return os.fstat(fd).st_ctime_ns
    finally:
        os.close(fd)


_GITDIR = re.compile(rb"gitdir: *([^\r\n\0]+)")
_MOST = 4096


def named_stores(place: str) -> Iterator[str]:
    """The directories, as absolute paths with links in them, that the `.git` at this path leads to."""
    folder = place
    text = read_start(place)
    if text is not None:
        named = _GITDIR.match(text)
        if named is None or not named[1].strip():
            return
        folder = os.path.join(os.path.dirname(place), os.fsdecode(named[1].strip()))
        yield folder
    common = read_start(os.path.join(folder, "commondir"))
    if common is not None and common.strip():
        yield os.path.join(folder, os.fsdecode(common.strip()))


def read_start(path: str) -> bytes | None:
    """The first bytes of a file; None where it is no ordinary file. A link is not followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(fd, _MOST) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)
