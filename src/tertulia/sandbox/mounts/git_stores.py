"""Where the rest of a repository lies, if not in its `.git`: what a file or a link of that name leads to.

A worktree and a submodule have a file that names a directory, and that directory may name another, which they share:
its config and its hooks are obeyed all the same.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

_GITDIR = re.compile(rb"gitdir: *([^\r\n\0]+)")
_MOST = 4096


def named_stores(place: str) -> Iterator[str]:
    """The directories, as absolute paths with links in them, that the `.git` at this path leads to."""
    folder = place
    text = _text(place)
    if text is not None:
        named = _GITDIR.match(text)
        if named is None or not named[1].strip():
            return
        folder = os.path.join(os.path.dirname(place), os.fsdecode(named[1].strip()))
        yield folder
    common = _text(os.path.join(folder, "commondir"))
    if common is not None and common.strip():
        yield os.path.join(folder, os.fsdecode(common.strip()))


def _text(path: str) -> bytes | None:
    """The beginning of a file; None where it is none."""
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
