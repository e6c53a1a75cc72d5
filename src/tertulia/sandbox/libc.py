"""Calls of the C library and the kernel for which Python has no functions. Standard library only."""

from __future__ import annotations

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: object) -> int:
    """What the kernel returns; OSError where it refuses."""
    return check(int(libc.syscall(ctypes.c_long(number), *arguments)))


def check(result: int) -> int:
    """The result of a call; OSError where that is negative, which says that the call has failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
