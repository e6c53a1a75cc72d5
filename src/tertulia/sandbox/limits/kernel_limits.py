"""Limits that the kernel holds for each process, set from outside before the command begins."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tertulia.sandbox.limits.open_files import restore_child_limit
from tertulia.sandbox.runner import CommandLimits, LimitName, Output

_SIGNALS: dict[int, LimitName] = {128 + 24: "cpu_s", 128 + 25: "file_bytes"}
_SAYINGS: tuple[tuple[bytes, LimitName], ...] = (
    (b"Cannot allocate memory", "memory_bytes"),
    (b"MemoryError", "memory_bytes"),
    (b"out of memory", "memory_bytes"),
    (b"File too large", "file_bytes"),
    (b"fork: Resource temporarily unavailable", "processes"),
    (b"BlockingIOError: [Errno 11]", "processes"),
    (b"can't start new thread", "processes"),
)


def rlimits(limits: CommandLimits) -> Iterator[tuple[int, int, int]]:
    """(resource, soft, hard) of each limit that is set.

    Memory is RLIMIT_DATA, not RLIMIT_AS: what is only reserved must not count, or programs that reserve a lot and
    use little (every WebAssembly engine) cannot start.
    """
    pairs = (
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, value in pairs:
        if value is not None:
            # At the soft limit of CPU time comes a signal that names it, at the hard one only SIGKILL.
            yield kind, value, value + (kind == resource.RLIMIT_CPU)


def set_rlimits(pid: int, limits: CommandLimits) -> None:
    """Set them on a process that has not begun the command. A tighter limit stays."""
    for kind, soft, hard in rlimits(limits):
        _, now = resource.prlimit(pid, kind)
        if now == resource.RLIM_INFINITY or hard < now:
            resource.prlimit(pid, kind, (soft, hard))
    restore_child_limit(pid)


def exceeded_limit(exit_code: int, output: Output) -> LimitName | None:
    """Which limit a command seems to have run into: by the signal that ended it, or else by what it said last.

    The kernel tells a process and not us. So this is advice for the reader of the output, and decides nothing.
    """
    if exit_code in _SIGNALS:
        return _SIGNALS[exit_code]
    if exit_code == 0:
        return None
    last = (output.head + output.tail)[-4096:]
    return next((name for saying, name in _SAYINGS if saying in last), None)


_NEEDED = {"memory", "pids"}
_numbers = itertools.count(1)


def find_delegated(membership: str, mount: Path) -> Path | None:
    """The directory in which we may make control groups (version 2), by the text of `/proc/self/cgroup`.

    Our own group, or the one above it, where its children may already be limited. Nothing is changed to
    get there: without such a place each process gets its own limits instead.
    """
    paths = [line[3:] for line in membership.splitlines() if line.startswith("0::/")]
    if not paths or not (mount / "cgroup.controllers").is_file():
        return None
    own = mount / paths[0].lstrip("/")
    return next((group for group in (own, own.parent) if _is_below(group, mount) and _takes_children(group)), None)


def _is_below(group: Path, mount: Path) -> bool:
    return group == mount or mount in group.parents


def _takes_children(group: Path) -> bool:
    if not (os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)):
        return False
    return set((group / "cgroup.subtree_control").read_text().split()) >= _NEEDED


class Cgroup:
    """The control group of one command. Raises OSError where the kernel refuses; then the command must not begin."""

    __slots__ = ("_path",)

    def __init__(self, parent: Path, limits: CommandLimits) -> None:
        self._path = parent / f"tertulia-{os.getpid()}-{next(_numbers)}"
        self._path.mkdir()
        try:
            if limits.processes is not None:
                (self._path / "pids.max").write_text(str(limits.processes))
            if limits.memory_bytes is not None:
                (self._path / "memory.max").write_text(str(limits.memory_bytes))
                (self._path / "memory.oom.group").write_text("1")
                # Or what is too much would be swapped out. Not there where nothing swaps.
                if (swap := self._path / "memory.swap.max").exists():
                    swap.write_text("0")
        except OSError:
            self.remove()
            raise

    def add(self, pid: int) -> None:
        """Move this process, and whatever it will start, into the group."""
        (self._path / "cgroup.procs").write_text(str(pid))

    def limit_met(self) -> LimitName | None:
        """The limit that a process in it has run into."""
        if self._count("memory.events", "oom_kill"):
            return "memory_bytes"
        return "processes" if self._count("pids.events", "max") else None

    def remove(self) -> None:
        """Remove it when all processes have ended. One that cannot be removed is empty."""
        with suppress(OSError):
            self._path.rmdir()

    def _count(self, file: str, key: str) -> int:
        try:
            lines = (self._path / file).read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{key} ")), 0)
