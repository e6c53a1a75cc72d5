"""Estimates what a command added to file systems, by their free space and the files that were changed since it began.

The kernel counts what a process writes, but forgets it with a process that no other waits for, and never counts files
in memory. A file system knows how full it is, and a file when it was last changed, which no program can set. So growth
of a file system raises the question, and the files that were changed since the command began answer it. Standard
library only: the launcher needs it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

MOST_ENTRIES = 1_000_000
COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE, by which Linux dates changes of files."""
_IN_MEMORY = ("tmpfs", "ramfs")
_BLOCK = 512

Sums = dict[int, int]
"""Bytes, by the device number of a file system."""


class AddedBytes:
    """What was added below those of these directories that exist; links are not followed."""

    def __init__(self, roots: Sequence[str], since: int | None = None, used: Iterable[tuple[int, int]] = ()) -> None:
        """`since`: when the command began, by the clock that dates changes; `used`: what was `used_bytes` then.

        Without `since` it begins now.
        """
        self._since = time.clock_gettime_ns(COARSE_CLOCK) if since is None else since
        self._all_roots = [root for root in roots if os.path.isdir(root)]
        self._roots = _by_device(roots)
        self._before: Sums = self._used() if since is None else dict(used)
        self._looked_at: Sums = dict.fromkeys(self._roots, 0)
        self._found: Sums = dict.fromkeys(self._roots, 0)

    @cached_property
    def in_memory(self) -> frozenset[int]:
        """The file systems that are in memory."""
        return frozenset(_devices_in_memory()) & self._before.keys()

    def grown(self, devices: Iterable[int] | None = None) -> int:
        """How many bytes these file systems have gained, from any process."""
        return sum(self._growth(devices).values())

    def found(self, enough: int, devices: Iterable[int] | None = None, held: Iterable[os.stat_result] = ()) -> int:
        """How much of that the command may have done; exact where it may be more than `enough`.

        `held` are files without a name that it has open. What cannot be looked at is taken for its own.
        """
        growth = self._growth(devices)
        most = sum(self._found[device] + max(0, now - self._looked_at[device]) for device, now in growth.items())
        if most > enough:
            changed = self._changed(held)
            for device, now in self._growth(None).items():
                self._looked_at[device] = now
                self._found[device] = now if changed is None else min(now, changed.get(device, 0))
        return sum(self._found[device] for device in growth)

    def _growth(self, devices: Iterable[int] | None) -> Sums:
        now = self._used()
        chosen = now.keys() if devices is None else now.keys() & {*devices}
        return {device: max(0, now[device] - self._before.get(device, now[device])) for device in chosen}

    def _used(self) -> Sums:
        return _used(self._roots)

    def _changed(self, held: Iterable[os.stat_result]) -> Sums | None:
        """The sizes of files that were changed since then; None where not everything could be looked at."""
        sums: Sums = {}
        counted: set[tuple[int, int]] = set()
        for number, status in enumerate(_walk(self._all_roots, self._since, held)):
            if status is None or number > MOST_ENTRIES:
                return None
            if status.st_ctime_ns >= self._since and (status.st_dev, status.st_ino) not in counted:
                counted.add((status.st_dev, status.st_ino))
                sums[status.st_dev] = sums.get(status.st_dev, 0) + status.st_blocks * _BLOCK
        return sums


def used_bytes(roots: Sequence[str]) -> Sums:
    """How full each file system is that has one of these directories in it."""
    return _used(_by_device(roots))


def _by_device(roots: Sequence[str]) -> dict[int, str]:
    """For each file system one of these directories, if it exists."""
    return {os.stat(root).st_dev: root for root in roots if os.path.isdir(root)}


def _used(roots: Mapping[int, str]) -> Sums:
    used: Sums = {}
    for device, root in roots.items():
        try:
            status = os.statvfs(root)
        except OSError:
            continue
        used[device] = (status.f_blocks - status.f_bfree) * status.f_frsize
    return used


def _walk(roots: Sequence[str], since: int, held: Iterable[os.stat_result]) -> Iterator[os.stat_result | None]:
    """Everything below; None for a directory that was changed and cannot be read: things may be hidden there."""
    yield from held
    waiting: list[tuple[str, int]] = [(root, since) for root in roots]
    while waiting:
        folder, changed_at = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    yield status
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, status.st_ctime_ns))
        except FileNotFoundError:
            continue
        except OSError:
            if changed_at >= since:
                yield None


def _devices_in_memory() -> Iterator[int]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields, _, kind = line.partition(" - ")
                if kind.split(" ", 1)[0] in _IN_MEMORY:
                    major, _, minor = fields.split(" ")[2].partition(":")
                    yield os.makedev(int(major), int(minor))
    except OSError:
        return
