"""A text that a program reads as a file and nobody else sees: not in the list of processes, not on any disk."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from tertulia.sandbox.bubblewrap_process import memory_fd


@contextmanager
def in_a_file(text: str) -> Generator[str]:
    """The path, for programs of this user, while the block lasts and we do."""
    fd = memory_fd(text.encode("utf-8", "replace"))
    try:
        yield f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)
