"""Reads one file or directory below its working directory, for `view`.

Run inside the sandbox, by `confined_program`. It imports nothing of ours and follows no symbolic link.

    {"path": PATH, "first": LINE, "limit": LINES, "whole_bytes": BYTES}
        → {"ok": true, "content": BASE64}                       a file of at most that many bytes
        → {"ok": true, "part": BASE64, "bytes": SIZE}           those lines of a larger one
        → {"ok": true, "entries": [[NAME, DEPTH, IS_DIRECTORY]…], "more": BOOL}    a directory, two levels deep; its
                                                                names are bytes in hexadecimal digits
        → {"ok": false, "reason": TEXT}
"""

from __future__ import annotations

import binascii
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_ENTRIES = 1_000
MAX_PART_BYTES = 4 * 1024 * 1024
_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LEFT_OUT = ("node_modules", "__pycache__")


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request, whatever is there."""
    try:
        return view(request)
    except OSError as error:
        return {"ok": False, "reason": reason(error, request["path"])}


def reason(error: OSError, path: str) -> str:
    """Why it could not be read."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            above = "/".join(parts[:count])
            if os.path.islink(above):
                target = os.readlink(os.fsencode(above)).decode("utf-8", "replace")
                return f"{above} is a symbolic link to {target}; name the file itself"
    return os.strerror(error.errno or 0)


def view(request: dict[str, Any]) -> dict[str, Any]:
    """What is at the path."""
    descriptor = opened(request["path"])
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return listing(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return {"ok": False, "reason": "it is neither a file nor a directory"}
        if status.st_size <= request["whole_bytes"]:
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(request["whole_bytes"] + 1)
            if len(content) <= request["whole_bytes"]:
                return {"ok": True, "content": binascii.b2a_base64(content, newline=False).decode()}
        part = lines_of(descriptor, request["first"], request["limit"])
        return {"ok": True, "part": binascii.b2a_base64(part, newline=False).decode(), "bytes": status.st_size}
    finally:
        os.close(descriptor)


def opened(path: str) -> int:
    """A descriptor of the path, opened one directory at a time, so that no link is followed."""
    *folders, name = path.split("/")
    here = os.open(".", _DIRECTORY)
    try:
        for folder in folders:
            there = os.open(folder, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = there
        return os.open(name, _ANY, dir_fd=here)
    finally:
        os.close(here)


def lines_of(descriptor: int, first: int, limit: int) -> bytes:
    """Some lines of a large file, of which no more than a piece is held at a time."""
    skip, found, wanted_lines = first - 1, b"", limit
    with open(descriptor, "rb", closefd=False) as file:
        while wanted_lines > 0 and len(found) < MAX_PART_BYTES and (chunk := file.read(_CHUNK)):
            if b"\0" in chunk:
                # A binary file, or one with a hole that may be endless.
                return chunk
            ends = chunk.count(b"\n") if skip else 0
            if ends < skip:
                skip -= ends
                continue
            at = 0
            for _ in range(skip):
                at = chunk.index(b"\n", at) + 1
            chunk, skip = chunk[at:], 0
            wanted = chunk.split(b"\n", wanted_lines)
            whole = len(wanted) > wanted_lines
            found += b"\n".join(wanted[:wanted_lines]) + b"\n" * whole
            wanted_lines -= wanted_lines if whole else len(wanted) - 1
    return found[:MAX_PART_BYTES]


def listing(descriptor: int) -> dict[str, Any]:
    """The names in a directory and in its directories, hidden ones left out."""
    entries: list[tuple[str, int, bool]] = []
    for name, is_directory in names_in(descriptor):
        entries.append((name, 0, is_directory))
        if is_directory and name not in _LEFT_OUT and len(entries) <= MAX_ENTRIES:
            try:
                below = os.open(name, _DIRECTORY, dir_fd=descriptor)
            except OSError:
                continue
            entries += [(inner, 1, is_inner) for inner, is_inner in names_in(below)]
            os.close(below)
        if len(entries) > MAX_ENTRIES:
            break
    named = [(os.fsencode(name).hex(), *more) for name, *more in entries[:MAX_ENTRIES]]
    return {"ok": True, "entries": named, "more": len(entries) > MAX_ENTRIES}


def names_in(descriptor: int) -> list[tuple[str, bool]]:
    """(name, whether it is a directory) of each entry, sorted."""
    with os.scandir(descriptor) as found:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found if entry.name[0] != "."]
    return sorted(names)
