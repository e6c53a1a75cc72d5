"""What `disk_program` leaves when it is killed: found, cleared away, and put back as it was before.

Runs in our own process, outside the sandbox, and like that program follows no link. It changes only files that are
still what the plan has made of them. Again is the same: a process that is killed over it can be followed by another.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tertulia.tools.patch.disk_program import RefusedError, apply_all, digest, parent, remove, remove_folder

_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileShape(msgspec.Struct, frozen=True):
    """A file, known without its content."""

    kind: Literal["file", "executable", "link"]
    digest: str
    """SHA-256 of its content, or of where it points."""
    mode: int | None = None
    """Its permissions, where they are known."""

    def is_like(self, other: FileShape) -> bool:
        """Whether it has the same content. Not every disk knows who may run a file."""
        return self.digest == other.digest and (self.kind == "link") == (other.kind == "link")


_NO_FILE = FileShape("file", "")
"""A directory, say: like no file that was planned."""


class PlannedFile(msgspec.Struct, frozen=True):
    """A path of a plan: what stood there, and what will."""

    path: str
    old: FileShape | None
    new: FileShape | None

    def stage(self, found: FileShape | None) -> Literal["old", "new", "other"]:
        """Which of the two is there now."""
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
    """The directory that the paths of a plan count from."""
    root = os.open(top, _ROOT)
    try:
        yield root
    finally:
        os.close(root)


def clear_away(root: int, files: Sequence[PlannedFile], suffix: str, *, undoing: bool) -> None:
    """Remove the names that stood beside the files meanwhile; when `undoing`, an old file gets its own name again."""
    ours = re.compile(rf"\.tertulia-(new|old)-{re.escape(suffix)}u?-[0-9]+")
    for folder, members in _by_folder(files).items():
        try:
            with parent(root, f"{folder}x") as (here, _):
                names = [name for name in os.listdir(here) if ours.fullmatch(name)]
        except (OSError, RefusedError):
            # It is not there, or another thing stands in its place.
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
    """Of a file that was to go, or on a disk without second names, this may be the only name."""
    gone = [file for file in members if file.old is not None and _found(root, file.path) is None]
    there = _found(root, path) if gone else None
    for file in gone:
        if there is not None and file.stage(there) == "old":
            with parent(root, file.path) as (here, name):
                os.rename(path.rpartition("/")[2], name, src_dir_fd=here, dst_dir_fd=here)
            return


def _found(root: int, path: str) -> FileShape | None:
    try:
        found = digest(root, path)
    except RefusedError:
        return _NO_FILE
    return None if found is None else FileShape(**found)


def stages(root: int, files: Iterable[PlannedFile]) -> dict[str, Literal["old", "new", "other"]]:
    """How far each path is: what stood there, what the plan made of it, or something else."""
    return {file.path: file.stage(_found(root, file.path)) for file in files}


def put_back(root: int, files: Iterable[PlannedFile], contents: Mapping[str, bytes], suffix: str) -> None:
    """Give these files, which are what the plan made of them, what stood there before: all of them, or none.

    RefusedError where one is not; OSError where undoing that failed as well.
    """
    apply_all(root, [_reverse(file, contents) for file in files], f"{suffix}u")


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
    """Remove those of the directories that are empty, from the inside out."""
    for path in sorted(paths, key=lambda path: -path.count("/")):
        with contextlib.suppress(OSError, RefusedError):
            remove_folder(root, path)


def folders_above(path: str) -> list[str]:
    """The directories on the way to a path, from the top."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
