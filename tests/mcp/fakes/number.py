"""Which process a fake is, for whoever is in another namespace of processes: its own number means nothing there."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path

_BITS = 24
_LARGEST = 1 << 22
"""No process of a machine has a larger number."""


@functools.cache
def own_number() -> int:
    """Of this process: in a namespace of its own that namespace, and a moment, because both are used again."""
    if os.getpid() != 2:
        return os.getpid()
    namespace = int(os.readlink("/proc/self/ns/pid").strip("pid:[]"))
    return namespace << _BITS | (time.monotonic_ns() >> 20) % (1 << _BITS)


def number_here(number: int) -> int | None:
    """As this machine counts; None where it has ended."""
    if number < _LARGEST:
        return number if _runs(number) else None
    for entry in os.listdir("/proc"):
        if (
            entry.isdigit()
            and _is_second_of(entry, number >> _BITS)
            and _began_before(entry, number)
            and _runs(int(entry))
        ):
            return int(entry)
    return None


def lives(number: int) -> bool:
    """Whether there is such a process, and not merely its remains."""
    return number_here(number) is not None


def _is_second_of(pid: str, namespace: int) -> bool:
    try:
        if os.readlink(f"/proc/{pid}/ns/pid") != f"pid:[{namespace}]":
            return False
        numbers = Path(f"/proc/{pid}/status").read_text().partition("\nNSpid:")[2].partition("\n")[0]
        return numbers.split()[-1:] == ["2"]
    except OSError:
        return False


def _began_before(pid: str, number: int) -> bool:
    """The moment in its number: a later one may have been given the namespace of one that has ended."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return False
    began = (ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")) >> 20
    return (number - began) % (1 << _BITS) < 1 << (_BITS - 1)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
