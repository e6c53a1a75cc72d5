"""What of project files the user has trusted: digests of definitions, in a file of the user's.

Trust holds for content: an edited command, argument or variable makes another server, which is not trusted (C2). Other
definitions of projects that start programs have a file of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from tertulia.policy.private_file import PrivateFile, VersionedContent

FILE_NAME = "mcp-trust.json"


class ProjectDefinition(Protocol):
    """A definition in a project's file that starts a program."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def digest(self) -> str:
        """Of all that the user was shown."""
        ...


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
    """Why nothing is trusted although there is a file."""

    def __contains__(self, definition: ProjectDefinition) -> bool:
        return definition.digest in self.digests


class TrustStore:
    """The file in the data directory. Where it cannot be relied on, nothing is trusted."""

    __slots__ = ("_file", "_kind", "_verb", "path")

    def __init__(
        self,
        home: Path,
        file_name: str = FILE_NAME,
        kind: str = "MCP server of a project",
        verb: str = "tertulia mcp trust NAME",
    ) -> None:
        """`kind`: what it is about, and `verb` what trusts one, in the words of a warning."""
        self.path = home / file_name
        self._kind = kind
        self._verb = verb
        self._file = PrivateFile(self.path, _File)

    def read(self) -> TrustSnapshot:
        """The trusted digests as the file has them now."""
        try:
            return TrustSnapshot(frozenset(self._file.load().trusted))
        except FileNotFoundError:
            return TrustSnapshot(frozenset())
        except (OSError, ValueError) as error:
            problem = _problem(error)
            advice = f"no {self._kind} is trusted; `{self._verb}` writes a new file"
            return TrustSnapshot(frozenset(), f"{self.path}: {problem}; {advice}")

    def is_trusted(self, definition: ProjectDefinition) -> bool:
        """Whether the user has trusted exactly this content."""
        return definition in self.read()

    def trust(self, definition: ProjectDefinition) -> None:
        """Trust this content, and no earlier one of the same entry. StorageError when it cannot be written."""
        with self._file.locked():
            others = self._other_entries(definition.name, definition.source)
            self._file.write(_File(trusted={**others, definition.digest: _Entry(definition.name, definition.source)}))

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
