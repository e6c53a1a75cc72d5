"""Whether the working tree of a repository has changes, read from its index and its files; git itself is not run.

Git would run what a repository's configuration names. So files are compared with the index as git does first: by size
and time, and by content where these do not suffice. Every amount of work is bounded; beyond it nothing is said.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tertulia.tools.files.path_patterns import IgnoreRules

MAX_ENTRIES = 5_000
"""Files of the index, and names in directories; of a larger tree nothing is said."""
_MAX_INDEX_BYTES = 4 * 1024 * 1024
_MAX_HASHED = 64
_MAX_HASHED_BYTES = 1024 * 1024
_MAX_IGNORE_BYTES = 256 * 1024
_ENTRY = struct.Struct(">10I20sH")
_SUBMODULE = 0o160000


class _Entry(NamedTuple):
    path: str
    mtime_ns: int
    size: int
    mode: int
    oid: bytes
    stage: int


class _UnknownError(Exception):
    """It would take too long, or cannot be told."""


def is_clean(root: str, store: Path) -> bool | None:
    """Whether nothing is changed, added or new; None where that is not known. `store`: the git directory."""
    try:
        data, written_ns = _read_index(store / "index")
        entries, at = _entries(data)
        tree = _TreeLook(root, store, {entry.path: entry for entry in entries}, written_ns)
        if tree.has_changes():
            return False
        # After `git add` the index has no valid tree until the next commit: then it may differ from the commit.
        return True if _has_valid_tree(data, at) else None
    except (_UnknownError, OSError, ValueError, IndexError, struct.error):
        return None


def _read_index(path: Path) -> tuple[bytes, int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_INDEX_BYTES:
            raise _UnknownError
        return file.read(_MAX_INDEX_BYTES + 1), status.st_mtime_ns


def _entries(data: bytes) -> tuple[list[_Entry], int]:
    """(the entries, where they end). Versions 2 and 3, with SHA-1."""
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3) or count > MAX_ENTRIES:
        raise _UnknownError
    entries: list[_Entry] = []
    at = 12
    for _ in range(count):
        fields = _ENTRY.unpack_from(data, at)
        flags, name_at = fields[11], at + _ENTRY.size
        if flags & 0x4000:
            name_at += 2
        end = data.index(b"\0", name_at)
        path = os.fsdecode(data[name_at:end])
        mtime_ns = fields[2] * 1_000_000_000 + fields[3]
        entries.append(_Entry(path, mtime_ns, fields[9], fields[6], fields[10], flags >> 12 & 3))
        at += (end - at + 8) // 8 * 8
    return entries, at


def _has_valid_tree(data: bytes, at: int) -> bool:
    """Whether the index says which tree its files are, in the extension `TREE`."""
    while at + 8 <= len(data) - 20:
        name, size = struct.unpack_from(">4sI", data, at)
        if name == b"TREE":
            first = data[at + 8 : at + 8 + size].split(b"\n", 1)[0]
            return not first.removeprefix(b"\0").startswith(b"-1")
        at += 8 + size
    return False


class _TreeLook:
    """Compares files with the entries of an index."""

    def __init__(self, root: str, store: Path, entries: dict[str, _Entry], written_ns: int) -> None:
        self._root = root
        self._entries = entries
        self._written_ns = written_ns
        self._room = MAX_ENTRIES * 2
        self._hashes = _MAX_HASHED
        self._folders = _folders_above(entries)
        common = _common_directory(store)
        self._exclude = _rules(common / "info" / "exclude")

    def has_changes(self) -> bool:
        return any(self._is_changed(entry) for entry in self._entries.values()) or self._has_new("", ())

    def _is_changed(self, entry: _Entry) -> bool:
        if entry.stage or entry.mode == _SUBMODULE:
            return bool(entry.stage)
        path = f"{self._root}/{entry.path}"
        try:
            status = os.lstat(path)
        except OSError:
            return True
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(entry.mode) or status.st_size & 0xFFFFFFFF != entry.size:
            return True
        if (status.st_mode ^ entry.mode) & stat.S_IXUSR and stat.S_ISREG(status.st_mode):
            return True
        # A file that changed in the moment in which the index was written has the same time.
        if status.st_mtime_ns == entry.mtime_ns and entry.mtime_ns < self._written_ns:
            return False
        return self._content_differs(path, status, entry)

    def _content_differs(self, path: str, status: os.stat_result, entry: _Entry) -> bool:
        self._hashes -= 1
        if self._hashes < 0 or status.st_size > _MAX_HASHED_BYTES:
            raise _UnknownError
        content = os.fsencode(os.readlink(path)) if stat.S_ISLNK(status.st_mode) else _plain_content(path)
        blob = b"blob %d\0%b" % (len(content), content)
        return hashlib.sha1(blob, usedforsecurity=False).digest() != entry.oid

    def _has_new(self, folder: str, rules: tuple[tuple[str, IgnoreRules], ...]) -> bool:
        """Whether a directory has a file that is neither in the index nor ignored."""
        with os.scandir(os.path.join(self._root, folder)) as found:
            entries = list(found)
        self._room -= len(entries)
        if self._room < 0:
            raise _UnknownError
        own = _rules(Path(self._root, folder, ".gitignore"))
        rules = (*rules, (folder, own)) if own else rules
        for entry in entries:
            path, is_folder = folder + entry.name, entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or path in self._entries or self._ignores(rules, path, entry.name, is_folder):
                continue
            if not is_folder or self._has_new(f"{path}/", rules):
                return True
        return False

    def _ignores(self, rules: tuple[tuple[str, IgnoreRules], ...], path: str, name: str, is_folder: bool) -> bool:
        if path in self._folders:
            return False
        for inside, own in reversed((("", self._exclude), *rules)):
            verdict = own.ignores(path[len(inside) :], name, is_folder)
            if verdict is not None:
                return verdict
        return False


def _folders_above(paths: Iterable[str]) -> set[str]:
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def _common_directory(store: Path) -> Path:
    """The git directory that all worktrees share."""
    try:
        named = (store / "commondir").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return store
    return store / named


def _rules(path: Path) -> IgnoreRules:
    try:
        text = _plain_content(str(path), _MAX_IGNORE_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return IgnoreRules(())
    return IgnoreRules(text.split("\n"))


def _plain_content(path: str, most: int = _MAX_HASHED_BYTES) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
