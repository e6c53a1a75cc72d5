"""Limits that the kernel holds for each process, set from outside before the command begins."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from tertulia.sandbox.open_files import give_back
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


def impose(pid: int, limits: CommandLimits) -> None:
    """On a process that has not begun the command. A limit that is already tighter stays."""
    for kind, soft, hard in rlimits(limits):
        _, now = resource.prlimit(pid, kind)
        if now == resource.RLIM_INFINITY or hard < now:
            resource.prlimit(pid, kind, (soft, hard))
    give_back(pid)


def limit_met(exit_code: int, output: Output) -> LimitName | None:
    """Which limit a command seems to have run into: by the signal that ended it, or else by what it said last.

    The kernel tells a process and not us. So this is advice for whoever reads the output, and decides nothing.
    """
    if exit_code in _SIGNALS:
        return _SIGNALS[exit_code]
    if exit_code == 0:
        return None
    last = (output.head + output.tail)[-4096:]
    return next((name for saying, name in _SAYINGS if saying in last), None)
