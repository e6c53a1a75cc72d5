"""Tells when names in a folder come or go: by the kernel's inotify, so that an idle watcher is never woken."""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path
from types import TracebackType
from typing import Self

_NONBLOCKING = os.O_NONBLOCK | os.O_CLOEXEC
_CHANGES = 0x100 | 0x200 | 0x80 | 0x40 | 0x400
"""Created, deleted, moved in or out, or the folder itself is gone."""
_MOST_BYTES = 65_536
_LOOK_EVERY_S = 2.0
"""Where the system has no inotify, or no watch left to give."""


class FolderWatch:
    """One folder. Use it as a context manager, and `wait` again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd: int | None = None
        self._changed = asyncio.Event()

    def __enter__(self) -> Self:
        self._fd = _open_watch(self._folder)
        if self._fd is not None:
            asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    async def wait(self) -> None:
        """Return when something may have changed since the last time; at once where that is so already."""
        if self._fd is None:
            await asyncio.sleep(_LOOK_EVERY_S)
            return
        await self._changed.wait()
        self._changed.clear()

    def _read(self) -> None:
        assert self._fd is not None
        try:
            # What happened is looked up in the folder; here it is only taken from the kernel's queue.
            os.read(self._fd, _MOST_BYTES)
        except BlockingIOError:
            return
        self._changed.set()


def _open_watch(folder: Path) -> int | None:
    """A descriptor that can be read when the folder has changed; None where there is none to be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return None
    fd: int = libc.inotify_init1(_NONBLOCKING)
    if fd < 0:
        return None
    if libc.inotify_add_watch(fd, os.fsencode(folder), ctypes.c_uint32(_CHANGES)) < 0:
        os.close(fd)
        return None
    return fd
