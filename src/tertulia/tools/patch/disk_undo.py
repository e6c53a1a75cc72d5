"""Cleans up after a `disk_program` that was killed: removes its temporary files and restores the old contents.

Runs in our own process, outside the sandbox, and like that program follows no link. It changes only files that still
have the content that the plan gave them. Idempotent: if this process is killed as well, another one can start over.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tertulia.tools.patch.disk_program import Parent, RefusedError, apply_all, digest, remove, remove_folder

_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileShape(msgspec.Struct, frozen=True):
    """The kind, digest and permissions of a file, without its content."""

    kind: Literal["file", "executable", "link"]
    digest: str
    """SHA-256 of the file's content, or of the target of a link."""
    mode: int | None = None
    """The permissions of the file, where they are known."""

    def is_like(self, other: FileShape) -> bool:
        """Whether the content is the same. The executable bit is ignored: not every file system stores it."""
        return self.digest == other.digest and (self.kind == "link") == (other.kind == "link")


_NO_FILE = FileShape("file", "")
"""Stands for something that is no regular file, such as a directory; it matches no planned file."""


class PlannedFile(msgspec.Struct, frozen=True):
    """A path of a plan: the file before the change and after it; None where there is no file."""

    path: str
    old: FileShape | None
    new: FileShape | None

    def stage(self, found: FileShape | None) -> Literal["old", "new", "other"]:
        """Whether the file found now is the old one, the new one, or another. A match of the kind comes first."""
        shapes: tuple[tuple[Literal["old", "new"], FileShape | None], ...] = (("old", self.old), ("new", self.new))
        for name, shape in shapes:
            if (found is None or shape is None) and found is shape:
                return name
            if found is not None and shape is not None and found.is_like(shape) and found.kind == shape.kind:
                return name
        for name, shape in shapes:
            if found is not None and shape is not None and found.is_like(shape):
                return name
        return "other"


@contextlib.contextmanager
def open_root(top: str) -> Generator[int]:
    """Opens the directory that the paths of a plan are relative to."""
    root = os.open(top, _ROOT)
    try:
        yield root
    finally:
        os.close(root)


def clear_away(root: int, files: Sequence[PlannedFile], suffix: str, *, undoing: bool) -> None:
    """Remove the temporary files of an interrupted plan; when `undoing`, first give old files their names back."""
    ours = re.compile(rf"\.tertulia-(new|old)-{re.escape(suffix)}u?-[0-9]+")
    for folder, members in _by_folder(files).items():
        try:
            with Parent(root, f"{folder}x") as (here, _):
                names = [name for name in os.listdir(here) if ours.fullmatch(name)]
        except (OSError, RefusedError):
            # The directory does not exist, or something else has its name.
            continue
        for name in sorted(names):
            if undoing and name.startswith(".tertulia-old-"):
                _put_back(root, f"{folder}{name}", members)
            remove(root, f"{folder}{name}", name)


def _by_folder(files: Iterable[PlannedFile]) -> dict[str, list[PlannedFile]]:
    """The files by the path of their directory, which is empty or ends with a slash."""
    found: dict[str, list[PlannedFile]] = {}
    for file in files:
        found.setdefault(file.path[: file.path.rfind("/") + 1], []).append(file)
    return found


def _put_back(root: int, path: str, members: Iterable[PlannedFile]) -> None:
    """Rename a backup to its original path, if no file is there and the backup has the planned old content.

    The backup is the only name of a file that was to be deleted, and on file systems without hard links of any file.
    """
    gone = [file for file in members if file.old is not None and _found(root, file.path) is None]
    there = _found(root, path) if gone else None
    for file in gone:
        if there is not None and file.stage(there) == "old":
            with Parent(root, file.path) as (here, name):
                os.rename(path.rpartition("/")[2], name, src_dir_fd=here, dst_dir_fd=here)
            return


def _found(root: int, path: str, exchanged: Collection[str] = ()) -> FileShape | None:
    try:
        found = digest(root, path)
    except RefusedError:
        # A directory has taken the place of the file, or a file that of its directory, as the plan wants it.
        return None if path in exchanged else _NO_FILE
    return None if found is None else FileShape(**found)


def stages(root: int, files: Iterable[PlannedFile]) -> dict[str, Literal["old", "new", "other"]]:
    """For each path whether the old file is there, the new one, or another."""
    files = list(files)
    swapped = exchanged_paths([file.path for file in files])
    return {file.path: file.stage(_found(root, file.path, swapped)) for file in files}


def exchanged_paths(paths: Collection[str]) -> set[str]:
    """The paths of which one is a file where the other needs a directory, or that differ only in case: of these the
    files that go have to be gone before the others come.
    """
    known, folded = set(paths), dict[str, str]()
    found: set[str] = set()
    for path in paths:
        if above := known.intersection(folders_above(path)):
            found |= {path, *above}
        if (other := folded.setdefault(path.casefold(), path)) != path:
            found |= {path, other}
    return found


def apply_exchanges(root: int, changes: Sequence[dict[str, Any]], suffix: str) -> None:
    """Make all changes; where a file and a directory are exchanged, in two steps: what goes, then what comes.

    Each step is made as a whole or not at all. Where the second one raises, the first has to be undone by a journal.
    """
    swapped = exchanged_paths([change["path"] for change in changes])
    first = [change for change in changes if change["new"] is None and change["path"] in swapped]
    if first:
        apply_all(root, first, suffix)
        remove_folders(root, {above for change in first for above in folders_above(change["path"])})
    apply_all(root, [change for change in changes if change not in first] if first else list(changes), suffix)


def put_back(root: int, files: Iterable[PlannedFile], contents: Mapping[str, bytes], suffix: str) -> None:
    """Restore the old contents of these files, which must have the content that the plan gave them: all, or none.

    RefusedError where a file has another content; OSError where undoing the restoration failed as well.
    """
    apply_exchanges(root, [_reverse(file, contents) for file in files], f"{suffix}u")


def _reverse(file: PlannedFile, contents: Mapping[str, bytes]) -> dict[str, Any]:
    old, new = file.old, file.new
    shape = {} if old is None else {"kind": old.kind, **({} if old.mode is None else {"mode": old.mode})}
    return {
        "path": file.path,
        "old": None if new is None else new.digest,
        "old_kind": None if new is None else new.kind,
        "new": None if old is None else base64.b64encode(contents[file.path]).decode(),
        "like": None,
        **shape,
    }


def remove_folders(root: int, paths: Iterable[str]) -> None:
    """Remove those of the directories that are empty, the deepest first."""
    for path in sorted(paths, key=lambda path: -path.count("/")):
        with contextlib.suppress(OSError, RefusedError):
            remove_folder(root, path)


def folders_above(path: str) -> list[str]:
    """The parent directories of a relative path, the topmost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
