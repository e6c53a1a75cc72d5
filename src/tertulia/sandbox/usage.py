"""What the processes of a command use together, looked at from outside. Standard library only: the launcher does it.

The kernel counts for a group of processes only where there is a control group. Elsewhere this looks from time to time,
the more often the nearer a limit is, and says what it can see.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from tertulia.sandbox.process_tree import descendants

SOONEST_S, LATEST_S = 0.05, 1.0
_MEMORY_A_SECOND, _WRITTEN_A_SECOND, _TASKS_A_SECOND = 8 << 30, 4 << 30, 20_000
"""As fast as anybody gets near a limit; so long nothing needs to be looked at."""

_ANYTHING = 1 << 62
_RESIDENT = re.compile(rb"^(RssAnon|RssShmem|VmSwap):\s+(\d+)", re.MULTILINE)
_PROPORTIONAL = re.compile(rb"^(Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+)", re.MULTILINE)
_SHMEM = re.compile(rb"^Shmem:\s+(\d+)", re.MULTILINE)
_SHARED_MAPPING = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) ..\Ss \S+ (\S+ \d+) +(?:/dev/zero|/memfd:|/SYSV|/dev/shm/)", re.MULTILINE
)
_WRITTEN = re.compile(rb"^write_bytes: (\d+)\ncancelled_write_bytes: (\d+)", re.MULTILINE)


class Meter:
    """One command's use, against its limits; None limits nothing. `root` is the process above all of it."""

    def __init__(
        self, root: int, *, processes: int | None, memory: int | None, written: int | None, places: Sequence[str] = ()
    ) -> None:
        """`places` are file systems in memory that are the command's alone."""
        self._root = root
        self._limits = {"processes": processes, "memory_bytes": memory, "written_bytes": written}
        self._places = places
        self._shmem_before = _machine_shmem()
        self._written_before = written_by([root])
        self.written = 0
        """Bytes that went, or will go, to a disk; what was deleted before it got there is not counted."""
        self.pause_s = self._pause(0, 0)

    def look(self) -> str | None:
        """The limit that is exceeded by now."""
        tree = list(descendants(self._root))
        pids = [pid for pid, threads in tree if threads]
        tasks, memory = sum(threads for _, threads in tree), 0
        if self._limits["memory_bytes"] is not None:
            memory = self._memory(pids, self._limits["memory_bytes"])
        self.count_written(pids)
        self.pause_s = self._pause(tasks, memory)
        used = {"processes": tasks, "memory_bytes": memory, "written_bytes": self.written}
        return next((name for name, limit in self._limits.items() if limit is not None and used[name] > limit), None)

    def count_written(self, pids: Iterable[int] = ()) -> None:
        """Bring `written` up to date; who has ended and been buried counts with the process that buried it."""
        self.written = max(self.written, written_by([self._root, *pids]) - self._written_before)

    def _pause(self, tasks: int, memory: int) -> float:
        rates = {"processes": _TASKS_A_SECOND, "memory_bytes": _MEMORY_A_SECOND, "written_bytes": _WRITTEN_A_SECOND}
        used = {"processes": tasks, "memory_bytes": memory, "written_bytes": self.written}
        room = [(limit - used[name]) / rates[name] for name, limit in self._limits.items() if limit is not None]
        return min(max(min(room, default=LATEST_S), SOONEST_S), LATEST_S)

    def _memory(self, pids: list[int], limit: int) -> int:
        """What all use together: of what is shared, each page once; files on a disk, which the kernel can drop, never.

        The cheap sum counts shared pages for everybody who has them, so it is never too small for what is mapped.
        """
        private, shared = _sum(pids, "status", _RESIDENT)
        elsewhere = self._in_places()
        grown = _machine_shmem() - self._shmem_before
        if private + max(shared + elsewhere, grown) <= limit:
            return private + shared + elsewhere
        private, shared = _sum(pids, "smaps_rollup", _PROPORTIONAL)
        return private + max(shared, elsewhere + _held_in_descriptors(pids), min(grown, _shared_mappings(pids)))

    def _in_places(self) -> int:
        used = 0
        for place in self._places:
            try:
                status = os.statvfs(place)
            except OSError:
                continue
            used += (status.f_blocks - status.f_bfree) * status.f_frsize
        return used


def written_by(pids: Iterable[int]) -> int:
    """Bytes that these, and all whom they buried, have written to disks."""
    total = 0
    for pid in pids:
        found = _WRITTEN.search(_read(pid, "io"))
        if found is not None:
            total += int(found[1]) - int(found[2])
    return total


def _sum(pids: Iterable[int], file: str, pattern: re.Pattern[bytes]) -> tuple[int, int]:
    """(private, shared) bytes. One that lets nobody look at its mappings counts with all that it has."""
    private = shared = 0
    for pid in pids:
        for name, kilobytes in pattern.findall(_read(pid, file)) or _RESIDENT.findall(_read(pid, "status")):
            if name in (b"RssShmem", b"Pss_Shmem"):
                shared += int(kilobytes) << 10
            else:
                private += int(kilobytes) << 10
    return private, shared


def _held_in_descriptors(pids: Iterable[int]) -> int:
    """Files in memory that have no name and may be mapped by nobody."""
    found: dict[int, int] = {}
    for pid in pids:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{fd}"
                if os.readlink(path).startswith(("/memfd:", "/dev/zero")):
                    status = os.stat(path)
                    found[status.st_ino] = status.st_blocks * 512
        except OSError:
            continue
    return sum(found.values())


def _shared_mappings(pids: Iterable[int]) -> int:
    """How large they are, filled or not: who filled one may have ended, and then no process shows it."""
    found: dict[bytes, int] = {}
    for pid in pids:
        mappings, here = _read(pid, "maps"), dict[bytes, int]()
        if not mappings and _RESIDENT.search(_read(pid, "status")):
            # It lets nobody look: then all that the machine has more of may be its.
            return _ANYTHING
        for begin, end, inode in _SHARED_MAPPING.findall(mappings):
            here[inode] = here.get(inode, 0) + int(end, 16) - int(begin, 16)
        found |= {inode: max(size, found.get(inode, 0)) for inode, size in here.items()}
    return sum(found.values())


def _machine_shmem() -> int:
    found = _SHMEM.search(_read("meminfo"))
    return 0 if found is None else int(found[1]) << 10


def _read(*parts: object) -> bytes:
    """Nothing where the process is gone, or not ours to look at."""
    try:
        with open("/".join(["/proc", *map(str, parts)]), "rb") as file:
            return file.read()
    except OSError:
        return b""
