"""Reading a file of the workspace: bounded, inside it whatever links say, and without holding up the loop.

It does not read through the sandbox, so it refuses the places that are masked for commands (`hidden`) itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tertulia.errors import InvalidParamsError
from tertulia.policy.plain_file import decode_text
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.tools.threads import run_in_thread


async def read_text_inside(workspace: str, path: str, max_bytes: int, field: str, hidden: Sequence[str] = ()) -> str:
    """The text of a file, relative to the workspace; InvalidParams says what is wrong with it, and names the field."""
    named = f"{field} {path!r:.200}"
    data = await read_inside(workspace, path, max_bytes, field, hidden)
    text = decode_text(data, named)
    if not text.strip():
        raise InvalidParamsError(f"{named} is empty")
    return text


async def read_inside(workspace: str, path: str, max_bytes: int, field: str, hidden: Sequence[str] = ()) -> bytes:
    """Read any file of the workspace, within the same bounds."""
    # The disk may be slow, or on another machine.
    return await run_in_thread(_read, workspace, path, max_bytes, f"{field} {path!r:.200}", hidden)


def hidden_from(cwd: str | None, hidden: Sequence[str], worktrees: str | None) -> Sequence[str]:
    """The hidden places that hold for an agent in this directory.

    `worktrees`: our own folder of them, in a hidden place, which does not hide from an agent what it works in.
    """
    if cwd is None or worktrees is None or not is_inside(os.path.realpath(cwd), real := os.path.realpath(worktrees)):
        return hidden
    return [place for place in hidden if not is_inside(real, os.path.realpath(place))]


def read_start(workspace: str, path: str, max_bytes: int, field: str, hidden: Sequence[str] = ()) -> tuple[bytes, bool]:
    """(the first bytes of a file, whether there are more); for those who are off the loop already."""
    data = _bytes_read(workspace, path, max_bytes, f"{field} {path!r:.200}", hidden)
    return data[:max_bytes], len(data) > max_bytes


def _read(workspace: str, path: str, max_bytes: int, named: str, hidden: Sequence[str]) -> bytes:
    data = _bytes_read(workspace, path, max_bytes, named, hidden)
    if len(data) > max_bytes:
        raise InvalidParamsError(f"{named} is larger than {max_bytes:,} bytes")
    return data


def _bytes_read(workspace: str, path: str, max_bytes: int, named: str, hidden: Sequence[str]) -> bytes:
    try:
        return _bytes_inside(workspace, path, max_bytes + 1, named, hidden)
    except OSError as error:
        raise InvalidParamsError(f"{named} cannot be read: {error.strerror}") from None
    except ValueError:
        raise InvalidParamsError(f"{named} is not a path") from None


def _bytes_inside(workspace: str, path: str, size: int, named: str, hidden: Sequence[str]) -> bytes:
    root = Path(os.path.realpath(workspace))
    inside = Path(os.path.realpath(root / path))
    if not inside.is_relative_to(root) or inside == root:
        raise InvalidParamsError(f"{named} is not inside the workspace")
    if any(inside.is_relative_to(os.path.realpath(place)) for place in hidden):
        raise InvalidParamsError(f"{named} lies where secrets are kept, and is not read")
    # Opened directory by directory without following links: a path that was resolved before may lead elsewhere by now.
    *folders, name = inside.relative_to(root).parts
    place = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            os.close(place)
            place = below
        # Without blocking: a pipe without a writer must not hold the thread.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise InvalidParamsError(f"{named} is not a file")
        with open(file, "rb", closefd=False) as opened:
            return opened.read(size)
    finally:
        os.close(file)
