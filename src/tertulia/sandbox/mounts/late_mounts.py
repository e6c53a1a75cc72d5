"""Keeps mounts that are made on the machine later out of a sandbox, or makes them read-only there.

Standard library only, as the mount helper is.
"""

from __future__ import annotations

import errno
import os
import re

from tertulia.sandbox.mounts.entries import HIDDEN
from tertulia.sandbox.mounts.kernel_calls import make_private, make_read_only, open_beneath

GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE}
"""The errors of a place that is not there, or not any more."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""A character of a path in the kernel's list of mounts."""
_PART_BYTES = 65_536


def keep_mounts_out(processes: int) -> None:
    """What is mounted on the machine from now on does not come in; and what came since bubblewrap began is read-only.

    The machine passes its mounts on to other namespaces as they are, writable. A command could wait for one, or have an
    automounter make one while the next sandbox is set up.
    """
    top = os.open("/", os.O_PATH | os.O_DIRECTORY)
    make_private(top)
    made = tuple(f"{place}/" for place in (*HIDDEN, "/dev"))
    for path in writable_mounts(processes):
        if not f"{path}/".startswith(made):
            _make_late_read_only(top, path)
    os.close(top)


def writable_mounts(processes: int) -> list[str]:
    """Where something is mounted that can be written, as this process sees it."""
    mounts = os.open("self/mountinfo", os.O_RDONLY, dir_fd=processes)
    text = b""
    while part := os.read(mounts, _PART_BYTES):
        text += part
    os.close(mounts)
    places = [line.split(b" ", 6)[4:6] for line in text.splitlines()]
    return [
        os.fsdecode(_ESCAPED.sub(_unescaped, place) if b"\\" in place else place)
        for place, options in places
        if options.startswith(b"rw")
    ]


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def _make_late_read_only(top: int, path: str) -> None:
    try:
        fd = open_beneath(top, path.lstrip("/") or ".")
        make_read_only(fd, recursive=False)
        os.close(fd)
    except OSError as error:
        # Covered by another mount; or beyond the user's reach, which bubblewrap leaves as it is, too.
        if error.errno not in {*GONE, errno.EACCES, errno.EINVAL}:
            raise OSError(error.errno, f"{path} cannot be made read-only: {error.strerror}") from None
