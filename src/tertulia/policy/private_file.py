"""A small JSON file of the user's in our data directory: private, locked while it changes, replaced as a whole.

What is in it decides what may run, so a file or a directory that others can write is not read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from tertulia.errors import StorageError
from tertulia.policy.file_lock import lock

MAX_BYTES = 4 * 1024 * 1024
VERSION = 1
_PRIVATE = 0o600


class VersionedContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of such a file."""

    version: int = VERSION


Content = TypeVar("Content", bound=VersionedContent)


class PrivateFile(Generic[Content]):
    """One such file. Looking at it creates nothing."""

    __slots__ = ("_type", "path")

    def __init__(self, path: Path, content: type[Content]) -> None:
        self.path = path
        self._type = content

    def load(self) -> Content:
        """What is in it now. FileNotFoundError where there is none, OSError or ValueError where it cannot be used."""
        with open(self.path, "rb", opener=_open_without_links) as file:
            status = os.fstat(file.fileno())
            _check_owner(status, "the file")
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("expected a file")
            _check_owner(os.stat(self.path.parent), "its directory")
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES:,} bytes")
        try:
            content = msgspec.json.decode(raw, type=self._type)
        except msgspec.DecodeError:
            raise ValueError("its content is not what we wrote") from None
        if content.version != VERSION:
            raise ValueError(f"version {content.version} is not known here")
        return content

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the file's lock inside the block, so that concurrent changes do not overwrite each other.

        StorageError where it cannot be written.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                lock(number)
                yield
            finally:
                os.close(number)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}", file=str(self.path)) from None

    def write(self, content: Content) -> None:
        """Replace it. Called in a `locked` block."""
        fresh = self.path.with_suffix(".new")
        with suppress(FileNotFoundError):
            fresh.unlink()
        number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
        with os.fdopen(number, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
            file.flush()
            os.fsync(number)
        os.replace(fresh, self.path)


def _open_without_links(path: str, flags: int) -> int:
    # Not blocking: it could be a pipe.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)


def _check_owner(status: os.stat_result, what: str) -> None:
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"{what} can be written by others")
