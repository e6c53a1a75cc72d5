"""What the processes of a command use together, looked at from outside. Standard library only: the launcher does it.

The kernel counts for a group of processes only where there is a control group. Elsewhere this looks from time to time,
the more often the nearer a limit is. What processes wrote is counted with them, and by what is there (`added_bytes`).
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tertulia.sandbox.libc import libc
from tertulia.sandbox.limits.added_bytes import COARSE_CLOCK, AddedBytes, used_bytes
from tertulia.sandbox.process_tree import descendants

SOONEST_S, LATEST_S = 0.05, 1.0
_MEMORY_A_SECOND, _WRITTEN_A_SECOND, _TASKS_A_SECOND = 8 << 30, 4 << 30, 20_000
"""How fast a command can come near a limit: before that nothing needs to be looked at."""

_ANYTHING = 1 << 62
_MOST_DESCRIPTORS = 200_000
_UNSEEN = 64
"""Of what a command wrote, a part of its limit that is not asked for at its end."""
_MOST_UNSEEN = 16 << 20
"""The same in bytes where its own count cannot be read any more: of many short commands each could write so much."""
_RESIDENT = re.compile(rb"^(RssAnon|RssShmem|VmSwap):\s+(\d+)", re.MULTILINE)
_PROPORTIONAL = re.compile(rb"^(Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+)", re.MULTILINE)
_SYSINFO_BYTES, _SHARED_AT, _UNIT_AT = 256, 48, 104
"""Of what `sysinfo` says on machines of 64 bits: memory that is shared, and the unit of that."""
_SHARED_MAPPING = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) ..\Ss \S+ (\S+ \d+) +(?:/dev/zero|/memfd:|/SYSV|/dev/shm/)", re.MULTILINE
)
_PENDING = re.compile(rb"^scm_fds:\s+[1-9]", re.MULTILINE)
_DELETED_MAPPING = re.compile(rb"^\S+ \S+ \S+ \S+ [1-9]\d* +/(?!dev/zero|memfd:|SYSV).* \(deleted\)$", re.MULTILINE)
_WRITTEN = re.compile(rb"^write_bytes: (\d+)\ncancelled_write_bytes: (\d+)", re.MULTILINE)


class UsageBefore(NamedTuple):
    """What the machine had in use before a command began."""

    since: int
    """When that was, by the clock that dates changes of files."""
    shmem: int
    """Bytes of memory that is shared or files."""
    used: Sequence[tuple[int, int]]
    """Of each file system that has a root in it: its device number, and bytes."""
    written: int
    """Bytes that the process above all of the command has written to disks, with all that it has reaped."""


def usage_before(roots: Sequence[str], root: int | None = None) -> UsageBefore:
    """Looked at now. Without `root`, the process above, `written` is 0 and to be filled in."""
    since, written = time.clock_gettime_ns(COARSE_CLOCK), 0 if root is None else written_by([root])
    return UsageBefore(since, _machine_shmem(), [*used_bytes(roots).items()], written)


class UsageMeter:
    """What one command uses, against its limits; None is no limit. `root` is the process above all of it."""

    def __init__(
        self,
        root: int,
        *,
        processes: int | None,
        memory: int | None,
        written: int | None,
        places: Sequence[str] = (),
        roots: Sequence[str] = (),
        ours: int = 0,
        before: UsageBefore | None = None,
    ) -> None:
        """`places` are file systems in memory that are the command's alone, `roots` directories that it writes to.

        `ours`: a process below the root that only reaps some of the command's, and uses nothing itself. `before`: what
        there was when the command began, where that was not now.
        """
        self._root, self._ours = root, ours
        before = before or usage_before(roots, root)
        self._added = AddedBytes(roots, before.since, before.used)
        self._limits = {"processes": processes, "memory_bytes": memory, "written_bytes": written}
        self._places = places
        self._machine = _MachineShmem(before.shmem)
        self._written_before = before.written
        self.written = 0
        """Bytes that went, or will go, to a disk; what was deleted before it got there is not counted."""
        self.pause_s = self._pause(0, 0)

    def look(self) -> str | None:
        """The limit that is exceeded, if one is."""
        tree = [(pid, threads) for pid, threads in descendants(self._root) if pid != self._ours]
        pids = [pid for pid, threads in tree if threads]
        tasks, memory = sum(threads for _, threads in tree), 0
        if self._limits["memory_bytes"] is not None:
            memory = self._memory(pids, self._limits["memory_bytes"])
        self.count_written([*pids, self._ours] if self._ours else pids)
        self._count_added(pids)
        self.pause_s = self._pause(tasks, memory)
        used = {"processes": tasks, "memory_bytes": memory, "written_bytes": self.written}
        return next((name for name, limit in self._limits.items() if limit is not None and used[name] > limit), None)

    def count_written(self, pids: Iterable[int] = ()) -> None:
        """Update `written`; what an ended process wrote counts with its parent, which has waited for it."""
        self.written = max(self.written, written_by([self._root, *pids]) - self._written_before)

    def conclude(self) -> None:
        """Update `written` for the last time, when all processes have ended, from what is on disk. May take long."""
        limit = self._limits["written_bytes"]
        self.count_written([self._ours] if self._ours else ())
        if limit is None:
            return
        unseen = limit // _UNSEEN
        if _WRITTEN.search(_read(self._root, "io")) is None:
            # It is gone, or an ordinary user may not read it of one that has ended.
            unseen = min(unseen, _MOST_UNSEEN)
        if self._added.grown() - self.written > unseen:
            self.written = max(self.written, self._added.found(self.written))

    def _count_added(self, pids: list[int]) -> None:
        limit = self._limits["written_bytes"]
        if limit is not None and self._added.grown() > limit:
            held = _Held(pids)
            hides = held.hides or held.only_mapped
            found = self._added.grown() if hides else self._added.found(limit, held=held.files)
            self.written = max(self.written, found)

    def _pause(self, tasks: int, memory: int) -> float:
        rates = {"processes": _TASKS_A_SECOND, "memory_bytes": _MEMORY_A_SECOND, "written_bytes": _WRITTEN_A_SECOND}
        used = {"processes": tasks, "memory_bytes": memory, "written_bytes": self.written}
        room = [(limit - used[name]) / rates[name] for name, limit in self._limits.items() if limit is not None]
        return min(max(min(room, default=LATEST_S), SOONEST_S), LATEST_S)

    def _memory(self, pids: list[int], limit: int) -> int:
        """What all use together: of what is shared, each page once; files on a disk, which the kernel can drop, never.

        The cheap sum comes first. It is too large rather than too small: it counts a shared page for each process that
        has it, and what other programs added to the file systems in memory that the command writes to.
        """
        private, shared = _sum(pids, "status", _RESIDENT)
        elsewhere = self._in_places()
        self._machine.look()
        most = private + max(shared + elsewhere + self._added.grown(self._added.in_memory), self._machine.risen)
        if most <= limit:
            return most
        private, shared = _sum(pids, "smaps_rollup", _PROPORTIONAL)
        held, gained = _Held(pids), self._machine.gained
        if held.hides or (held.only_mapped and self._added.in_memory):
            used = max(shared, gained)
        else:
            in_memory = self._added.found(limit - private, self._added.in_memory, held.files)
            used = max(shared, elsewhere + in_memory + held.in_memory, min(gained, _shared_mappings(pids)))
        self._machine.risen = used
        return private + used

    def _in_places(self) -> int:
        used = 0
        for place in self._places:
            try:
                status = os.statvfs(place)
            except OSError:
                continue
            used += (status.f_blocks - status.f_bfree) * status.f_frsize
        return used


class _MachineShmem:
    """Memory of the machine that is shared or files, since a command began; any process may have taken it."""

    def __init__(self, before: int) -> None:
        self._last = self._lowest = before
        self.risen = 0
        """The most that the command can have taken: what is known of it, and all rises since.

        Falls are left out. What another program gives back would hide what this one takes.
        """

    def look(self) -> None:
        """Note how much it is now."""
        now = _machine_shmem()
        self.risen += max(0, now - self._last)
        self._last, self._lowest = now, min(now, self._lowest)

    @property
    def gained(self) -> int:
        """How much more it is than it was at its lowest."""
        return self._last - self._lowest


def written_by(pids: Iterable[int]) -> int:
    """Bytes that these, and all that they have reaped, have written to disks."""
    total = 0
    for pid in pids:
        found = _WRITTEN.search(_read(pid, "io"))
        if found is not None:
            total += int(found[1]) - int(found[2])
    return total


def _sum(pids: Iterable[int], file: str, pattern: re.Pattern[bytes]) -> tuple[int, int]:
    """(private, shared) bytes. One that hides its mappings counts with all that it has."""
    private = shared = 0
    for pid in pids:
        for name, kilobytes in pattern.findall(_read_of(pid, file)) or _RESIDENT.findall(_read_of(pid, "status")):
            if name in (b"RssShmem", b"Pss_Shmem"):
                shared += int(kilobytes) << 10
            else:
                private += int(kilobytes) << 10
    return private, shared


class _Held:
    """Files without a name that these have open, in any thread."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.files: list[os.stat_result] = []
        self.in_memory = 0
        """Bytes of those that no file system has."""
        self.hides = False
        """Some may be where we cannot look, on their way through a socket; or they are too many."""
        self.only_mapped = False
        """Some of a file system are mapped, and need not be open."""
        self._seen: set[tuple[int, int]] = set()
        self._room = _MOST_DESCRIPTORS
        for pid in pids:
            self.only_mapped = self.only_mapped or _DELETED_MAPPING.search(_read_of(pid, "maps")) is not None
            for thread in _threads(pid):
                self._look(f"/proc/{pid}/task/{thread}")

    def _look(self, thread: str) -> None:
        try:
            numbers = os.listdir(f"{thread}/fd")
        except OSError:
            return
        self._room -= len(numbers)
        self.hides = self.hides or self._room < 0
        for number in numbers:
            if self.hides:
                return
            try:
                self._add(os.readlink(f"{thread}/fd/{number}"), thread, number)
            except OSError:
                continue

    def _add(self, name: str, thread: str, number: str) -> None:
        if name.startswith("socket:"):
            self.hides = _PENDING.search(_read(thread[len("/proc/") :], "fdinfo", number)) is not None
            return
        without_a_file_system = name.startswith(("/memfd:", "/dev/zero"))
        if not (without_a_file_system or name.endswith(" (deleted)")):
            return
        status = os.stat(f"{thread}/fd/{number}")
        if (status.st_dev, status.st_ino) in self._seen:
            return
        self._seen.add((status.st_dev, status.st_ino))
        if without_a_file_system:
            self.in_memory += status.st_blocks * 512
        else:
            self.files.append(status)


def _shared_mappings(pids: Iterable[int]) -> int:
    """How large they are, filled or not: the process that filled one may have ended, and then no process shows it."""
    found: dict[bytes, int] = {}
    for pid in pids:
        mappings, here = _read_of(pid, "maps"), dict[bytes, int]()
        if not mappings and _RESIDENT.search(_read_of(pid, "status")):
            # It hides them: then all that the machine has more of may be its.
            return _ANYTHING
        for begin, end, inode in _SHARED_MAPPING.findall(mappings):
            here[inode] = here.get(inode, 0) + int(end, 16) - int(begin, 16)
        found |= {inode: max(size, found.get(inode, 0)) for inode, size in here.items()}
    return sum(found.values())


def _machine_shmem() -> int:
    """The same that `/proc/meminfo` says, without the text."""
    buffer = ctypes.create_string_buffer(_SYSINFO_BYTES)
    if libc.sysinfo(buffer) != 0:
        return 0
    (shared,), (unit,) = struct.unpack_from("=Q", buffer, _SHARED_AT), struct.unpack_from("=I", buffer, _UNIT_AT)
    return shared * unit


def _read_of(pid: int, file: str) -> bytes:
    """What its memory is; from another thread where the first has ended, which then shows none."""
    text = _read(pid, file)
    if text and (file != "status" or _RESIDENT.search(text)):
        return text
    others = (_read(pid, "task", thread, file) for thread in _threads(pid) if thread != str(pid))
    return next((found for found in others if found and (file != "status" or _RESIDENT.search(found))), text)


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _read(*parts: object) -> bytes:
    """Empty where the process is gone, or may not be looked at."""
    try:
        with open("/".join(["/proc", *map(str, parts)]), "rb") as file:
            return file.read()
    except OSError:
        return b""
