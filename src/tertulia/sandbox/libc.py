"""Calls of the C library and the kernel for which Python has no functions. Standard library only."""

from __future__ import annotations

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: object) -> int:
    """Make a system call and return its result; OSError where it fails."""
    return check(int(libc.syscall(ctypes.c_long(number), *arguments)))


def check(result: int) -> int:
    """The result of a call; OSError where it is negative, which means failure."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
