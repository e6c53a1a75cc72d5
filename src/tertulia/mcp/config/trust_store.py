"""Which servers of project files the user has trusted: digests of their definitions, in a file of the user's.

Trust holds for content: an edited command, argument or variable makes another server, which is not trusted (C2).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tertulia.mcp.config.project_server import ProjectServer
from tertulia.policy.private_file import PrivateFile, VersionedContent

FILE_NAME = "mcp-trust.json"


class _Entry(msgspec.Struct, frozen=True):
    """For the reader of the file; only the digest counts."""

    name: str
    source: str


class _File(VersionedContent, frozen=True):
    trusted: dict[str, _Entry] = msgspec.field(default_factory=dict)
    """By the digest of the definition."""


class TrustSnapshot(msgspec.Struct, frozen=True):
    """The trusted digests when the file was read."""

    digests: frozenset[str]
    problem: str | None = None
    """Why no server is trusted although there is a file."""

    def __contains__(self, server: ProjectServer) -> bool:
        return server.digest in self.digests


class TrustStore:
    """The file in the data directory. Where it cannot be relied on, no server is trusted."""

    __slots__ = ("_file", "path")

    def __init__(self, home: Path) -> None:
        self.path = home / FILE_NAME
        self._file = PrivateFile(self.path, _File)

    def read(self) -> TrustSnapshot:
        """The trusted digests as the file has them now."""
        try:
            return TrustSnapshot(frozenset(self._file.load().trusted))
        except FileNotFoundError:
            return TrustSnapshot(frozenset())
        except (OSError, ValueError) as error:
            problem = _problem(error)
            advice = "no MCP server of a project is trusted; `tertulia mcp trust NAME` writes a new file"
            return TrustSnapshot(frozenset(), f"{self.path}: {problem}; {advice}")

    def is_trusted(self, server: ProjectServer) -> bool:
        """Whether the user has trusted exactly this content."""
        return server in self.read()

    def trust(self, server: ProjectServer) -> None:
        """Trust this content, and no earlier one of the same entry. StorageError when it cannot be written."""
        with self._file.locked():
            others = self._other_entries(server.name, server.source)
            self._file.write(_File(trusted={**others, server.digest: _Entry(server.name, server.source)}))

    def revoke(self, name: str, source: str) -> bool:
        """Trust no content of that entry any more; whether any was trusted."""
        with self._file.locked():
            before, after = self._entries(), self._other_entries(name, source)
            if len(after) < len(before):
                self._file.write(_File(trusted=after))
            return len(after) < len(before)

    def _entries(self) -> dict[str, _Entry]:
        try:
            return self._file.load().trusted
        except (OSError, ValueError):
            return {}

    def _other_entries(self, name: str, source: str) -> dict[str, _Entry]:
        return {
            digest: entry for digest, entry in self._entries().items() if (entry.name, entry.source) != (name, source)
        }


def _problem(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or "it cannot be read"
    ours = not isinstance(error, msgspec.DecodeError | UnicodeDecodeError)
    return str(error) if ours else "it is not what this program writes"
