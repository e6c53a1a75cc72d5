"""Makes a server give large blocks of memory back to the system as soon as they are free.

Where the C library is not glibc nothing is changed.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BYTES = 1 << 20
_KEPT_BYTES = 8 << 20
"""Of free memory at the end of the heap: so that small messages do not ask the system for memory each time."""


def return_large_blocks() -> None:
    """Have every block of a megabyte or more mapped by itself, and unmapped when it is freed.

    By default glibc raises that threshold to the largest block that was ever freed, up to 32 MiB. After the first large
    message all others then come from the heap, where a small block behind them keeps them from being given back.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
