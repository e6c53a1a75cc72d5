"""Protected names deeper in a writable root: the repositories, settings and hooks of whatever else lies in it.

Only what exists can be protected there, and only what can be found in little time: directories are looked into from the
top down, up to a number, and again only when they have changed. What was found is held by a descriptor, so that no
command can hide it from the next one by moving it. What a command has made itself stays its own, or nobody could begin
a repository with one command and commit to it with the next.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from tertulia.sandbox.runner import PROTECTED_NAMES

MAX_FOLDERS = 256
FIRST_LOOK = 4
"""So many times more in the first look, which no command of ours has prepared anything for."""
MAX_ENTRIES = 10_000
"""Names read in one look."""
MAX_FOUND = 32
"""Each costs a mount, and the more there are the dearer is the next."""
_NOT_LOOKED_INTO = frozenset({"node_modules", "__pycache__", ".venv"})
"""Full of directories, and no place for anybody's repository."""

_Identity = tuple[int, int]


def protected_part(path: str) -> str | None:
    """The first part of a relative path that some disk could take for a protected name."""
    return next((part for part in path.split("/") if _folded(part) in _PROTECTED), None)


def _folded(name: str) -> str:
    """Upper and lower case, accents in two ways, invisible characters and dots at the end are nothing to some disks."""
    if name.isascii():
        return name.lower().rstrip(" .")
    seen = "".join(each for each in unicodedata.normalize("NFKD", name) if unicodedata.category(each) != "Cf")
    return seen.casefold().rstrip(" .")


_PROTECTED = frozenset(map(_folded, PROTECTED_NAMES))


class _Folder(msgspec.Struct, frozen=True):
    state: tuple[int, ...]
    """Changes with whatever is put into the directory or taken from it."""
    below: tuple[str, ...]
    found: tuple[str, ...]


class _Root(msgspec.Struct):
    folders: dict[str, _Folder] = {}
    """By their path from the root; the root itself is the empty text."""
    own: set[_Identity] = set()
    """What commands have made."""
    others: dict[_Identity, int] = {}
    """What was there before, each with the descriptor that holds it."""


class Nested:
    """What was found so far, for each root. A command may end on another thread than the next one begins."""

    def __init__(self) -> None:
        self._roots: dict[str, _Root] = {}
        self._lock = threading.Lock()

    def before(self, root: str) -> list[tuple[str, int]]:
        """A command is about to begin: what it must not change below the root, each with a descriptor of ours."""
        with self._lock:
            factor = 1 if root in self._roots else FIRST_LOOK
            known = self._roots.setdefault(root, _Root())
            found = dict(_look(root, known, factor))
            known.own &= {*found.values()}
            for path, identity in found.items():
                if identity not in known.own:
                    _hold(f"{root}/{path}", identity, known)
            return [(path, fd) for identity, fd in [*known.others.items()] if (path := _place(root, identity, known))]

    def after(self, root: str) -> None:
        """A command has ended: what nobody has seen before is its own."""
        with self._lock:
            known = self._roots.setdefault(root, _Root())
            known.own |= {identity for _, identity in _look(root, known, 1)} - known.others.keys()

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            for known in self._roots.values():
                for fd in known.others.values():
                    os.close(fd)
            self._roots.clear()


def _look(root: str, known: _Root, factor: int) -> Iterator[tuple[str, _Identity]]:
    folders, known.folders = known.folders, {}
    waiting, room = [""], MAX_ENTRIES * factor
    for path in waiting:
        folder = folders.get(path)
        try:
            status = os.lstat(f"{root}/{path}")
            state = (status.st_ino, status.st_ctime_ns)
            if folder is None or folder.state != state:
                folder, read = _read(root, path, state, room)
                room -= read
        except OSError:
            # Gone, or not ours to look into; then it is not a command's either.
            continue
        known.folders[path] = folder
        waiting += folder.below[: max(0, MAX_FOLDERS * factor - len(waiting))]
        for name in folder.found:
            with suppress(FileNotFoundError):
                yield path + name, _identity(os.lstat(f"{root}/{path}{name}"))


def _hold(path: str, identity: _Identity, known: _Root) -> None:
    if identity in known.others or len(known.others) >= MAX_FOUND:
        return
    with suppress(OSError):
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        # Somebody may have put another one there; that one is found the next time.
        if _identity(os.fstat(fd)) == identity:
            known.others[identity] = fd
        else:
            os.close(fd)


def _place(root: str, identity: _Identity, known: _Root) -> str | None:
    """Where it is now, from the root; None where it is gone, and then it is held no longer."""
    fd = known.others[identity]
    path = os.readlink(f"/proc/self/fd/{fd}")
    if os.fstat(fd).st_nlink and path.startswith(f"{root}/"):
        return path.removeprefix(f"{root}/")
    os.close(known.others.pop(identity))
    return None


def _read(root: str, path: str, state: tuple[int, ...], room: int) -> tuple[_Folder, int]:
    below: list[str] = []
    found: list[str] = []
    read = 0
    with os.scandir(f"{root}/{path}") as entries:
        for entry in entries:
            if read >= room:
                break
            read += 1
            if not path and entry.name in PROTECTED_NAMES:
                # At the top they are protected in any case.
                continue
            if _folded(entry.name) in _PROTECTED:
                found += [] if entry.is_symlink() else [entry.name]
            elif entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_LOOKED_INTO:
                below.append(f"{path}{entry.name}/")
    # What was not read to its end is read again.
    return _Folder(state if read < room else (), tuple(sorted(below)), tuple(sorted(found))), read


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
