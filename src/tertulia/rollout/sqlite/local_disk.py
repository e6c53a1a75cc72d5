"""Whether a file lies on a disk of this machine, where writing to it takes microseconds."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_MOUNTS = "/proc/self/mountinfo"
_LOCAL = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})
"""File systems that are on a disk or in memory. Any other may wait for a network, or for another program."""


def is_local(file: Path) -> bool:
    """Whether its file system is known to be local. False where the system does not tell."""
    try:
        return _is_local_device(os.stat(file).st_dev)
    except OSError:
        return False


@lru_cache(maxsize=64)
def _is_local_device(device: int) -> bool:
    number = f"{os.major(device)}:{os.minor(device)}"
    with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
        # "36 35 98:0 /root /mounted/at options - ext4 /dev/root options"
        found = [line.partition(" - ")[2].split(" ", 1)[0] for line in mounts if line.split(" ", 3)[2] == number]
    return bool(found) and set(found) <= _LOCAL
