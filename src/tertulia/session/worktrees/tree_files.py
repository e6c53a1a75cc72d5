"""Copies the changed files of a tree to a folder of ours before git reads their content.

A command may still run in the tree, and replace a file or a directory by a link while it is read. Git, which runs
outside the sandbox, would follow the link, and a file that commands must not see would become part of a commit that all
can read. So files are opened here, directory by directory from the top, without following links; git hashes the copies.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO

import msgspec

from tertulia.policy.display_text import printable
from tertulia.sandbox.mounts.stubs import marks_stub

MAX_FILE_BYTES = 100 * 1024 * 1024
"""The largest file that is committed. A file that is left out can be committed later; one that is in a commit stays for
ever.
"""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1024 * 1024
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
LINK = b"120000"
_PLAIN, _EXECUTABLE = b"100644", b"100755"


class LeftOut(msgspec.Struct, frozen=True):
    """A file whose changes were not committed, and why."""

    path: str
    """Relative to the top of the tree."""
    reason: str

    def __str__(self) -> str:
        return f"{printable(self.path).replace(chr(10), '⟨U+000A⟩')} ({self.reason})"


class CopiedFile(msgspec.Struct, frozen=True):
    """A file or a link that was copied to the folder."""

    path: bytes
    """Relative to the top of the tree."""
    mode: bytes
    """The mode as git writes it, in six digits."""
    name: str
    """The name of the copy in the folder."""
    permissions: int = 0o644
    content: bytes = b""
    """Where no folder was named for the copies."""


class CopiedFiles(msgspec.Struct, frozen=True):
    """What was found at the requested paths."""

    files: list[CopiedFile] = msgspec.field(default_factory=list[CopiedFile])
    submodules: list[bytes] = msgspec.field(default_factory=list[bytes])
    absent: list[bytes] = msgspec.field(default_factory=list[bytes])
    """Paths at which there is nothing, or not a directory where one is needed."""
    left_out: list[LeftOut] = msgspec.field(default_factory=list[LeftOut])


def copy_files(
    top: Path, paths: Sequence[bytes], reasons: Mapping[bytes, str], folder: Path | None, most: int | None = None
) -> CopiedFiles:
    """Copy the files at these paths of a tree, except those with an entry in `reasons` or with more bytes.
    Blocks. Without a folder the copies are kept in memory.

    Raises OSError where there is no room for the copies.
    """
    found, most = CopiedFiles(), MAX_FILE_BYTES if most is None else most
    top_fd = os.open(top, _FOLDER)
    try:
        for path in dict.fromkeys(paths):
            try:
                _copy(top_fd, path, reasons.get(path), folder, found, most)
            except (FileNotFoundError, NotADirectoryError):
                found.absent.append(path)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    raise
                # ELOOP: there is a link where git saw a directory.
                reason = "a link was put in its way" if error.errno == errno.ELOOP else "not readable"
                found.left_out.append(LeftOut(os.fsdecode(path), reason))
    finally:
        os.close(top_fd)
    return found


def _copy(top_fd: int, path: bytes, reason: str | None, folder: Path | None, found: CopiedFiles, most: int) -> None:
    *above, name = path.rstrip(b"/").split(b"/")
    here = os.dup(top_fd)
    try:
        for part in above:
            below = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        status = os.stat(name, dir_fd=here, follow_symlinks=False)
        if marks_stub(status):
            # A placeholder that the sandbox made for a running command; it is removed with that.
            return
        reason = reason or _obstacle(path, status, most)
        if reason is not None:
            found.left_out.append(LeftOut(os.fsdecode(path), reason))
        elif stat.S_ISDIR(status.st_mode):
            found.submodules.append(path)
        else:
            copy, target = f"{len(found.files)}", io.BytesIO()
            mode = _write(here, name, status, target if folder is None else folder / copy)
            found.files.append(CopiedFile(path, mode, copy, stat.S_IMODE(status.st_mode), target.getvalue()))
    finally:
        os.close(here)


def _write(here: int, name: bytes, status: os.stat_result, copy: Path | io.BytesIO) -> bytes:
    """Copy a file or a link; returns its mode."""
    opened = nullcontext(copy) if isinstance(copy, io.BytesIO) else copy.open("wb")
    with opened as target:
        if stat.S_ISLNK(status.st_mode):
            target.write(os.readlink(name, dir_fd=here))
            return LINK
        _copy_content(here, name, status.st_size, target)
    return _EXECUTABLE if status.st_mode & stat.S_IXUSR else _PLAIN


def _copy_content(here: int, name: bytes, left: int, target: IO[bytes]) -> None:
    with open(os.open(name, _FILE, dir_fd=here), "rb") as source:
        # No more than the size seen before: a file may grow as fast as it is read.
        while left > 0 and (piece := source.read(min(left, _CHUNK))):
            target.write(piece)
            left -= len(piece)


def _obstacle(path: bytes, status: os.stat_result, most: int) -> str | None:
    """Why git cannot or should not commit this file; None where it can."""
    if path.endswith(b"/"):
        return "a repository of its own"
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return "not a plain file"
    return f"larger than {most // 1024**2} MB" if status.st_size > most else None
