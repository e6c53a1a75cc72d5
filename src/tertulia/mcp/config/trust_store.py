"""Which servers of project files the user has trusted: digests of their definitions, in a file of the user's.

Trust holds for content: an edited command, argument or variable makes another server, which is not trusted (C2).
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tertulia.errors import StorageError
from tertulia.mcp.config.project_server import ProjectServer

FILE_NAME = "mcp-trust.json"
_MAX_BYTES = 4 * 1024 * 1024
_PRIVATE = 0o600


class _Entry(msgspec.Struct, frozen=True):
    """For the reader of the file; only the digest counts."""

    name: str
    source: str


class _File(msgspec.Struct, frozen=True):
    trusted: dict[str, _Entry] = {}
    """By the digest of the definition."""
    version: int = 1


class TrustSnapshot(msgspec.Struct, frozen=True):
    """The trusted digests when the file was read."""

    digests: frozenset[str]
    problem: str | None = None
    """Why no server is trusted although there is a file."""

    def __contains__(self, server: ProjectServer) -> bool:
        return server.digest in self.digests


class TrustStore:
    """The file in the data directory. Where it cannot be relied on, no server is trusted."""

    __slots__ = ("_home", "path")

    def __init__(self, home: Path) -> None:
        self._home = home
        self.path = home / FILE_NAME

    def read(self) -> TrustSnapshot:
        """The trusted digests as the file has them now."""
        try:
            return TrustSnapshot(frozenset(self._load().trusted))
        except FileNotFoundError:
            return TrustSnapshot(frozenset())
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else str(error)
            advice = "no MCP server of a project is trusted; `tertulia mcp trust NAME` writes the file anew"
            return TrustSnapshot(frozenset(), f"{self.path}: {problem}; {advice}")

    def is_trusted(self, server: ProjectServer) -> bool:
        """Whether the user has trusted exactly this content."""
        return server in self.read()

    def trust(self, server: ProjectServer) -> None:
        """Trust this content, and no earlier one of the same entry. StorageError when it cannot be written."""
        with self._locked():
            others = self._others(server.name, server.source)
            self._write({**others, server.digest: _Entry(server.name, server.source)})

    def revoke(self, name: str, source: str) -> bool:
        """Trust no content of that entry any more; whether any was trusted."""
        with self._locked():
            before, after = self._known(), self._others(name, source)
            if len(after) < len(before):
                self._write(after)
            return len(after) < len(before)

    def _known(self) -> dict[str, _Entry]:
        try:
            return self._load().trusted
        except (OSError, ValueError):
            return {}

    def _others(self, name: str, source: str) -> dict[str, _Entry]:
        return {
            digest: entry for digest, entry in self._known().items() if (entry.name, entry.source) != (name, source)
        }

    def _load(self) -> _File:
        # Not blocking: it could be a pipe.
        number = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            _check_owner(os.fstat(number), "the file")
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise ValueError("expected a file")
            _check_owner(os.stat(self._home), "its directory")
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES:,} bytes")
        file_content = msgspec.json.decode(raw, type=_File)
        if file_content.version != 1:
            raise ValueError(f"version {file_content.version} is not known here")
        return file_content

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Two programs that write at once both have an effect."""
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(number, fcntl.LOCK_EX)
                yield
            finally:
                os.close(number)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}", file=str(self.path)) from None

    def _write(self, trusted: dict[str, _Entry]) -> None:
        fresh = self.path.with_suffix(".new")
        with suppress(FileNotFoundError):
            fresh.unlink()
        number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
        with os.fdopen(number, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(_File(trusted))) + b"\n")
            file.flush()
            os.fsync(number)
        os.replace(fresh, self.path)


def _check_owner(status: os.stat_result, what: str) -> None:
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"{what} can be written by others")
