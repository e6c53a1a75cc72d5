"""All directories of a writable root, looked at for protected names: completely, and cheaply the second time.

There is no number of decoys behind which something could be hidden. A directory is read again only when it has changed,
which its own state says. What cannot be looked into counts as found, and so becomes read-only as a whole.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Container, Iterator

import msgspec

from tertulia.errors import SandboxError
from tertulia.sandbox.runner import PROTECTED_NAMES
from tertulia.sandbox.startup_files import STARTUP_NAMES

MAX_FOLDERS = 1_000_000
"""More in one root are refused: nobody waits for that."""
LONGEST_PATH = 3_500
"""In bytes. Deeper directories, to which no path leads, are read-only as a whole."""
_RECENT_NS = 20_000_000
"""Two changes can have one time where the clock of a file system is coarse; after so long they cannot."""
_STORE = frozenset({"HEAD", "objects", "refs"})
"""By these names git knows a repository, whatever it is called."""
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def is_protected_name(name: str) -> bool:
    """In any spelling."""
    # Most names are none by their first letter, and there are many.
    return (name[0] in _FIRST or not name.isascii()) and _folded(name) in _PROTECTED


def _is_kept(name: str) -> bool:
    """Whether it stays as it is where it exists: a protected name, or one that programs run by itself."""
    return (name[0] in _FIRST or not name.isascii()) and _folded(name) in _KEPT


def _folded(name: str) -> str:
    """Upper and lower case, accents in two ways, invisible characters and dots at the end are nothing to some disks."""
    if name.isascii():
        return name.lower().rstrip(" .")
    seen = "".join(each for each in unicodedata.normalize("NFKD", name) if unicodedata.category(each) != "Cf")
    return seen.casefold().rstrip(" .")


_PROTECTED = frozenset(map(_folded, PROTECTED_NAMES))
_KEPT = _PROTECTED.union(map(_folded, STARTUP_NAMES))
_FIRST = frozenset(letter for name in _KEPT for letter in (name[0], name[0].upper()))


class Folder(msgspec.Struct, frozen=True, gc=False):
    """What was in a directory."""

    state: tuple[int, int]
    """Changes with whatever is put into the directory or taken from it; of no use where it is (0, 0)."""
    below: tuple[str, ...] = ()
    """Directories to look into, by their path from the root with a slash at the end."""
    found: tuple[str, ...] = ()
    """Paths from the root; the directory itself where it is a repository, or where it cannot be read."""
    closed: bool = False


class RootLook:
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
        self._folders: dict[str, Folder] = {}

    def look(self) -> Iterator[str]:
        """What was found, by its path from the root; the empty path is the root itself."""
        folders, self._folders, self.changed, self.closed = self._folders, {}, [], set()
        settled = kernel_time() - _RECENT_NS
        lstat, prefix, longest = os.lstat, self._prefix, LONGEST_PATH
        waiting = [""]
        for path in waiting:
            try:
                status = lstat(prefix + path)
            except OSError as error:
                if error.errno in _GONE:
                    self.changed.append(path)
                    continue
                raise SandboxError(f"{prefix}{path} cannot be looked at: {error.strerror}; nothing was run") from None
            folder = folders.get(path)
            if folder is None or folder.state != (status.st_ino, status.st_ctime_ns):
                state = (status.st_ino, status.st_ctime_ns) if status.st_ctime_ns < settled else (0, 0)
                folder = (
                    self._read(path, state)
                    if len(prefix) + len(path) < longest
                    else Folder(state, (), (path.rstrip("/"),), True)
                )
                self.changed.append(path)
            self._folders[path] = folder
            waiting += folder.below
            if len(waiting) > MAX_FOLDERS:
                raise SandboxError(
                    f"{self.root} has more than {MAX_FOLDERS:,} directories, too many to look for repositories in; "
                    "nothing was run: name a smaller writable root"
                )
            if folder.closed:
                self.closed.update(folder.found)
            yield from folder.found

    def _read(self, path: str, state: tuple[int, int]) -> Folder:
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
            return Folder((0, 0)) if error.errno in _GONE else Folder((0, 0), (), (path.rstrip("/"),), True)
        if store >= _STORE:
            return Folder(state, (), (path.rstrip("/"),))
        return Folder(state, tuple(below), tuple(found))


def kernel_time() -> int:
    """Now, by the clock with which the kernel dates files."""
    fd = os.memfd_create("tertulia")
    try:
        return os.fstat(fd).st_ctime_ns
    finally:
        os.close(fd)
