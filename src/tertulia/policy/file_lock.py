"""Locks of whole open files, on every system. They end with the process, however that ends."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.platform == "win32":
    import msvcrt
if TYPE_CHECKING or sys.platform != "win32":
    import fcntl

_PLACE = 2**30
"""Windows has locks of bytes alone: one that is beyond what any of these files holds stands for the whole."""


def lock(number: int) -> None:
    """Lock an open file for this process, waiting for another one that has the lock. OSError where that fails."""
    if sys.platform == "win32":
        # Windows tries ten times, a second apart.
        lock_byte_of_windows(number, _PLACE, msvcrt.LK_LOCK)
    else:
        fcntl.flock(number, fcntl.LOCK_EX)


def try_lock(number: int, *, shared: bool = False) -> bool:
    """The same without waiting; False where another process has the lock. `shared`: others may have it likewise."""
    try:
        if sys.platform == "win32":
            lock_byte_of_windows(number, _PLACE, msvcrt.LK_NBLCK)
        else:
            fcntl.flock(number, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def lock_byte_of_windows(number: int, place: int, how: int) -> None:  # pragma: no cover: tests/test_other_systems.py
    """Lock or unlock one byte, as `msvcrt.locking` does it; PermissionError where another process has it."""
    assert sys.platform == "win32"
    # It counts from where the file is read.
    before = os.lseek(number, 0, os.SEEK_CUR)
    os.lseek(number, place, os.SEEK_SET)
    try:
        msvcrt.locking(number, how, 1)
    finally:
        os.lseek(number, before, os.SEEK_SET)
